// What a real process gives to its controllers: the steady clock, the directory of this process,
// its memory, its management agents, and the helper thread. Made at first use and never destroyed,
// so that code which runs at exit still finds it. Any thread.
#pragma once

#include "memory/host_vmm.h"
#include "path/directory.h"
#include "path/engine.h"
#include "verbs/controller.h"

namespace weft::verbs {

class SteadyClock final : public base::Clock {
 public:
  Nanoseconds now() override;
};

Environment process_environment();
/// Those of all controllers of the process.
mad::Agents& process_agents();
memory::HostVmm& process_memory();

}  // namespace weft::verbs
