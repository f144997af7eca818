// The MTU at which requesters and responders are tested: small, so that few bytes are many frames.
#pragma once

#include <cstdint>

namespace weft::test {

inline constexpr std::uint32_t kMtu = 256;

}  // namespace weft::test
