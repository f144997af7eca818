#include "verbs/process.h"

#include <ctime>

namespace weft::verbs {

Nanoseconds SteadyClock::now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<Nanoseconds>(t.tv_sec) * 1'000'000'000 + static_cast<Nanoseconds>(t.tv_nsec);
}

Environment process_environment() {
  static SteadyClock* clock = new SteadyClock;
  static path::Directory* directory = new path::Directory;
  return {clock, &base::system_random(), directory};
}

memory::HostVmm& process_memory() {
  static memory::HostVmm* memory = new memory::HostVmm;
  return *memory;
}

}  // namespace weft::verbs
