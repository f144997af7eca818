// What a preloaded library asks of the sanitizers' runtimes, for programs that are built with one:
// options at the front of the variables that they read, so that those of the user, which follow,
// win. They concern no other program. Values.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weft::cli {

struct SanitizerOptions {
  const char* variable;
  std::string_view options;
};
std::span<const SanitizerOptions> sanitizer_options();

/// What the variable has to be, and what it was before.
std::string options_with(std::string_view ours, std::string_view before);
std::string options_without(std::string_view ours, std::string_view with);

/// The library of the sanitizer that this command, and so what it preloads, is built with: it has
/// to stand before all others in a program that is not. Empty for what is released.
std::string sanitizer_runtime();

}  // namespace weft::cli
