// The time that the connection manager's state machines get. Any thread.
#pragma once

#include <chrono>

#include "weft/types.h"

namespace weft::ucma {

inline Nanoseconds now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<Nanoseconds>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace weft::ucma
