// How many frames a second the simulation moves on one core. It prints; time is not asserted, since
// the machine may have better things to do.
#include <gtest/gtest.h>

#include <cstdio>

#include "worlds/bench.h"

namespace weft::worlds {
namespace {

TEST(Simulation, moves_frames) {
  const BenchResult result = run_bench(Mtu::k4096, 1.0, sim::Checksums::kOffload);
  std::printf("%.0f RC data frames a second (%.0f in a second of processor time), MTU 4096\n",
              result.frames_per_second(), result.frames_per_processor_second());
  EXPECT_GT(result.data_frames, 10'000u);
  EXPECT_GT(result.all_frames, result.data_frames) << "nothing was acknowledged";
}

}  // namespace
}  // namespace weft::worlds
