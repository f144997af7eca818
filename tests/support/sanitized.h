// Whether this is a build with a sanitizer, which makes each step of a test several times as long.
// Random tests take fewer seeds there: it looks for bad accesses, not for rare orders of events.
#pragma once

namespace weft::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace weft::test
