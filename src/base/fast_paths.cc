#include "base/fast_paths.h"

#include <cstdlib>
#include <string_view>

namespace weft::base {

FastPaths fast_paths;

bool FastPaths::wanted() {
  const char* const said = std::getenv("WEFT_FAST_PATHS");
  return said == nullptr || std::string_view(said) != "off";
}

}  // namespace weft::base
