// How long a stress test goes on: a moment in `make test`, WEFT_SOAK_SECONDS in `make soak`.
#pragma once

#include <chrono>
#include <cstdlib>

namespace weft::test {

inline std::chrono::nanoseconds soak_time(std::chrono::milliseconds otherwise) {
  const char* seconds = std::getenv("WEFT_SOAK_SECONDS");
  return seconds != nullptr ? std::chrono::seconds(std::atol(seconds)) : otherwise;
}

}  // namespace weft::test
