#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace weft::base {

void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "weft: internal error: %s does not hold (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace weft::base
