// A command of a program, with all that its help, its manual page and its completions say about it:
// one description, from which each of them is made. Belongs to the program's command line and lives
// as long; the process has one thread when it is used.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weft::usage {

/// The exit status for a command line that cannot be meant.
constexpr int kWrongUsage = 2;

/// A thing and what it means: an example, an exit status, a variable.
struct Meaning {
  std::string thing;
  std::string meaning;
};

class Command : public CLI::App {
 public:
  /// The summary is one sentence, without a full stop.
  Command(const std::string& name, const std::string& summary);
  Command& add_command(const std::string& name, const std::string& summary);

  std::string operands;            ///< what follows the options, "[--] PROGRAM [ARGUMENT...]"
  std::vector<std::string> about;  ///< paragraphs
  std::vector<Meaning> examples;   ///< whole command lines
  std::vector<Meaning> statuses;   ///< of exit
  std::vector<Meaning> variables;  ///< of the environment, that the command reads
};

/// "weft run", as people type it.
std::string path_of(const CLI::App& command);

/// The option takes one of these and nothing else.
CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& names);
/// The option takes a whole number in this range; what it does not take is told by its name.
CLI::Option* whole_number(CLI::Option* option, std::uint64_t least, std::uint64_t most);
/// The option names a file to be written, which is asked when the command line is read.
CLI::Option* writable_file(CLI::Option* option);

/// Why this path cannot be written; empty: it can. "%p" stands for any number. Changes nothing.
std::string obstacle_to_writing(const std::string& path);

}  // namespace weft::usage
