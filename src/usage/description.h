// What a command says about itself, as plain text without the parser that it comes from: what help,
// manual pages and completions are written from. Values; any thread.
#pragma once

#include <string>
#include <vector>

#include "usage/command.h"

namespace weft::usage {

struct OptionText {
  std::vector<std::string> names;    ///< as typed: "-h", "--help"
  std::string value;                 ///< "FILE"; empty for a flag
  std::vector<std::string> choices;  ///< all values that there are, if they are few
  std::string meaning;

  /// "-V, --version" or "--pcap FILE".
  std::string heading() const;
};

struct CommandText {
  std::string path;     ///< "weft run"
  std::string name;     ///< "run"
  std::string summary;  ///< one sentence, without a full stop
  std::string usage;    ///< one line, without the path
  std::string operands;
  std::vector<std::string> about;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
  std::vector<Meaning> examples, statuses, variables;
};

/// With the commands below it.
CommandText describe(const Command& command);

/// The command and all below it, in order.
std::vector<const CommandText*> all_of(const CommandText& root);

}  // namespace weft::usage
