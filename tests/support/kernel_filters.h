// Filters of system calls and of packets are programs that the kernel compiles. A kernel whose
// compiler is stuck (Linux 6.18, after a thousand filters were let go at once) keeps everybody who
// asks for one, for good and past every signal. scripts/test finds that out before it runs tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

/// First in a test that needs such a filter.
#define WEFT_NEEDS_KERNEL_FILTERS()                                                       \
  if (std::getenv("WEFT_TEST_NO_FILTERS") != nullptr) {                                   \
    GTEST_SKIP() << "this kernel's compiler of filters is stuck; it has to be restarted"; \
  }
