// A program's completions for shells: which commands there are, which options they have and what
// those take. Stateless; any thread.
#pragma once

#include <string>

#include "usage/description.h"

namespace weft::reference {

std::string bash_completion(const usage::CommandText& root);
std::string zsh_completion(const usage::CommandText& root);
std::string fish_completion(const usage::CommandText& root);

/// What an option's value is completed with.
enum class Value { kAny, kChoice, kFile, kDevice };
Value value_of(const usage::OptionText& option);

/// The command's operand is a program, and what follows is that program's.
bool runs_a_program(const usage::CommandText& command);

/// The root with `help`, if there is one, followed by the names of the commands that it explains.
usage::CommandText with_help_words(usage::CommandText root);

/// A name for functions: "weft_run".
std::string identifier(const std::string& path);

/// The text as one word for bash and zsh.
std::string one_word(const std::string& text);

}  // namespace weft::reference
