// What happens when the library is loaded into a program: next to nothing, as it is loaded into
// every shell and every compiler that a program under `weft run` starts. Devices are opened, and
// threads started, by the calls that need them.
#include "ucma/install.h"

namespace {

[[gnu::constructor]] void loaded() { weft::ucma::install(); }

}  // namespace
