#include "verbs/process.h"

#include <ctime>

#include "memory/flight.h"
#include "obs/log.h"

namespace weft::verbs {

Nanoseconds SteadyClock::now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<Nanoseconds>(t.tv_sec) * 1'000'000'000 + static_cast<Nanoseconds>(t.tv_nsec);
}

namespace {

void name_staller(const void*, int thread_id) {
  obs::log().warn(
      "a revocation has waited 100 ms for thread {}, which is in the middle of a copy; it goes on "
      "waiting",
      thread_id);
}

}  // namespace

Environment process_environment() {
  static const bool stalls_are_named = [] {
    memory::Flight::set_stall_handler(name_staller);
    return true;
  }();
  static_cast<void>(stalls_are_named);
  static SteadyClock* clock = new SteadyClock;
  static path::Directory* directory = new path::Directory;
  return {clock, &base::system_random(), directory};
}

memory::HostVmm& process_memory() {
  static memory::HostVmm* memory = new memory::HostVmm;
  return *memory;
}

}  // namespace weft::verbs
