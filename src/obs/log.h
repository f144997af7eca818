// The log: one line where a fault is first seen, to standard error. WEFT_LOG sets the level (trace,
// debug, info, warn, error, off; warn unless said otherwise). Any thread; never on the data path.
#pragma once

#include <spdlog/spdlog.h>

namespace weft::obs {

/// Made at the first call and never destroyed, so that code which runs at exit may still log.
spdlog::logger& log();

}  // namespace weft::obs
