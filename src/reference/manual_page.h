// A command's manual page, as source for scdoc. Stateless; any thread.
#pragma once

#include <string>

#include "usage/description.h"

namespace weft::reference {

/// "weft-run", the page's name.
std::string page_name(const usage::CommandText& command);

/// `root` is the program that the command belongs to; its other pages are referred to.
std::string manual_page(const usage::CommandText& command, const usage::CommandText& root);

}  // namespace weft::reference
