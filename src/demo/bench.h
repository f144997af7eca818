// The figures of channels, measured between two processes in one run, contestants interleaved.
// Called once; one thread in each process.
#pragma once

#include <optional>
#include <string>

#include "demo/pair.h"

namespace weft::demo {

struct BenchOptions {
  std::string address = "127.0.0.1";
  std::string only;
  int connections = 1000;  ///< idle ones
  int many = 10'000;       ///< of which one in a hundred is busy
  bool json = false;
  std::optional<PairEnd> end;  ///< one side only, the other is started elsewhere
};

/// The program's exit status.
int bench(const BenchOptions& options);

}  // namespace weft::demo
