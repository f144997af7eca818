// How fast the simulation moves frames: two nodes, one reliable connection, RDMA writes of full
// frames without faults, all of it the code that the worlds run. Stateless.
#pragma once

#include <cstdint>

#include "sim/faults.h"
#include "weft/types.h"

namespace weft::worlds {

struct BenchResult {
  std::uint64_t data_frames = 0;  ///< acknowledgements are not counted
  std::uint64_t all_frames = 0;
  double seconds = 0;
  double processor_seconds = 0;  ///< less when the machine had other things to do
  double frames_per_second() const { return static_cast<double>(data_frames) / seconds; }
  double frames_per_processor_second() const {
    return static_cast<double>(data_frames) / processor_seconds;
  }
};

BenchResult run_bench(Mtu mtu, double seconds, sim::Checksums checksums);

}  // namespace weft::worlds
