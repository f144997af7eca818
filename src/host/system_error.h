// Refusals of the operating system as errors that name the cause and what the user can do. Plain
// functions, any thread.
#pragma once

#include <string>

#include "weft/result.h"

namespace weft::host {

/// `what` was tried and gave `error_number`.
tl::unexpected<Error> system_error(const std::string& what, int error_number);

}  // namespace weft::host
