#include "reference/completion.h"

#include <algorithm>
#include <cctype>

namespace weft::reference {
namespace {

usage::CommandText words_of(usage::CommandText command, const std::string& parent) {
  command.path = parent + " " + command.name;
  command.options.clear();
  command.operands.clear();
  for (usage::CommandText& below : command.commands) below = words_of(below, command.path);
  return command;
}

}  // namespace

Value value_of(const usage::OptionText& option) {
  if (!option.choices.empty()) return Value::kChoice;
  if (option.value == "FILE") return Value::kFile;
  return option.value.starts_with("NAME[=") ? Value::kDevice : Value::kAny;
}

bool runs_a_program(const usage::CommandText& command) {
  return command.operands.find("PROGRAM") != std::string::npos;
}

usage::CommandText with_help_words(usage::CommandText root) {
  const auto help =
      std::find_if(root.commands.begin(), root.commands.end(),
                   [](const usage::CommandText& each) { return each.name == "help"; });
  if (help == root.commands.end()) return root;
  std::vector<usage::CommandText> words;
  for (const usage::CommandText& command : root.commands) {
    words.push_back(words_of(command, help->path));
  }
  help->commands = std::move(words);
  return root;
}

std::string identifier(const std::string& path) {
  std::string name = path;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

std::string one_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace weft::reference
