// Assertions that stay on in release builds: they guard weft's own invariants, never input.
// A failing one prints the expression, the place and aborts. Any thread.
#pragma once

namespace weft::base {
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
}  // namespace weft::base

#define WEFT_ASSERT(expression)                       \
  (__builtin_expect(static_cast<bool>(expression), 1) \
       ? static_cast<void>(0)                         \
       : ::weft::base::assertion_failed(#expression, __FILE__, __LINE__))
