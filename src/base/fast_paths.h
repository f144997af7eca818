// The switch of all fast paths. A fast path does for the most common case what another piece of
// code does for all cases, with fewer instructions; both must have the same effect. Without them
// (WEFT_FAST_PATHS=off in the environment, or fast_paths.set(false) in a test) everything goes
// through the code for all cases. Whoever adds a fast path asks on() before it is taken, or before
// what it needs is remembered; the random programs of tests/unit/verbs/path_oracle_test.cc then
// compare both.
//
// Read by any thread. Set before the first queue pair exists: a fast path that is under way is not
// called back.
#pragma once

#include <atomic>

namespace weft::base {

class FastPaths {
 public:
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void set(bool on) { on_.store(on, std::memory_order_relaxed); }

 private:
  static bool wanted();

  std::atomic<bool> on_{wanted()};
};
extern FastPaths fast_paths;

}  // namespace weft::base
