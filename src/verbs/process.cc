#include "verbs/process.h"

#include <ctime>

#include "host/fork.h"
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

/// A forked child begins with an empty one: what it inherited is its parent's.
path::Directory* process_directory() {
  static path::Directory* directory = [] {
    host::call_in_child([] { directory = new path::Directory; });
    return new path::Directory;
  }();
  return directory;
}

}  // namespace

Environment process_environment() {
  static const bool stalls_are_named = [] {
    memory::Flight::set_stall_handler(name_staller);
    return true;
  }();
  static_cast<void>(stalls_are_named);
  static SteadyClock* clock = new SteadyClock;
  return {clock, &base::system_random(), process_directory(), true, &process_agents()};
}

mad::Agents& process_agents() {
  static auto& agents = *new mad::Agents;
  return agents;
}

memory::HostVmm& process_memory() {
  static memory::HostVmm* memory = new memory::HostVmm;
  return *memory;
}

}  // namespace weft::verbs
