// The main job: two processes, on one host or two, a thousand channels between them, skewed traffic
// in both directions, every byte verified, and what it costs, as it happens. Called once; one
// thread in each process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "demo/pair.h"

namespace weft::demo {

struct ShowOptions {
  std::string address = "127.0.0.1";
  std::uint32_t channels = 1000;
  double seconds = 12;
  std::optional<PairEnd> end;  ///< one side only, of two hosts; both have the same address here
};

/// The program's exit status.
int show(const ShowOptions& options);

}  // namespace weft::demo
