#include "base/version.h"

namespace weft::base {

const char* version() { return WEFT_VERSION; }

}  // namespace weft::base
