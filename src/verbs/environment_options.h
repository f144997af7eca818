// Device options from the environment, which record a program's frames and inject faults without
// changing the program. They take precedence over the program's own. An empty variable is ignored.
// Stateless, any thread that may call getenv.
//
//   WEFT_PATH=framed|auto   same-host traffic as frames, or the fastest way
//   WEFT_PCAP=file          record all frames; %p becomes the process id
//   WEFT_FAULTS=spec        see port/fault_spec.h
//   WEFT_FAULTS_SEED=n      the same faults again
//   WEFT_RAW_UNCLAIMED=kernel|drop   what becomes of raw packets that nobody claimed
#pragma once

#include <cstdlib>
#include <functional>

#include "weft/verbs.h"

namespace weft::verbs {

/// nullptr: not set.
using GetVariable = std::function<const char*(const char* name)>;

/// The options with what the variables replace. The error names variable, value and what is
/// allowed.
Result<DeviceOptions> with_environment(
    DeviceOptions options, const GetVariable& get = [](const char* name) {
      return static_cast<const char*>(std::getenv(name));
    });

/// Whether same-host traffic goes as frames: asked for, or needed by a capture or faults.
inline bool wants_frames(const DeviceOptions& options) {
  return options.path == PathPolicy::kFramed || !options.pcap.empty() || !options.faults.empty();
}

}  // namespace weft::verbs
