// A command's --help: plain text for any terminal, pipe or file, without colours or other control
// characters. Stateless; any thread.
#pragma once

#include <string>

#include "usage/description.h"

namespace weft::usage {

std::string help_text(const CommandText& command);

}  // namespace weft::usage
