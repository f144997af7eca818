// Which processor a thread of a test runs on: two that are to meet at every instruction need two.
#pragma once

#include <sched.h>

namespace weft::memory::test {

/// Runs the calling thread on the n-th of the processors that the process may use.
inline void run_on(int n, const cpu_set_t& all) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all) && n-- == 0) CPU_SET(cpu, &one);
  }
  if (CPU_COUNT(&one) == 1) sched_setaffinity(0, sizeof one, &one);
}

}  // namespace weft::memory::test
