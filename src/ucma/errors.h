// What the connection manager's errors are to programs: the one place where they become errno
// values. Stateless, any thread.
#pragma once

#include "weft/result.h"

namespace weft::ucma {

/// As the kernel's device gives them; 0 for success.
int errno_of(const Result<void>& result);

}  // namespace weft::ucma
