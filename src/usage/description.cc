#include "usage/description.h"

#include <fmt/format.h>

namespace weft::usage {
namespace {

std::vector<std::string> split(const std::string& text, char between) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(between, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

OptionText describe(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  text.meaning = option.get_description();
  if (option.get_items_expected_max() == 0) return text;
  text.value = option.get_type_name();
  text.value.resize(std::min(text.value.find(':'), text.value.size()));  // less the checks
  if (text.value.find('|') != std::string::npos) text.choices = split(text.value, '|');
  return text;
}

void add(const CLI::Option& option, CommandText& text) {
  if (!option.nonpositional()) return;
  if (option.get_group().empty()) return;
  text.options.push_back(describe(option));
}

}  // namespace

std::string OptionText::heading() const {
  return fmt::format("{}{}{}", fmt::join(names, ", "), value.empty() ? "" : " ", value);
}

CommandText describe(const Command& command) {
  CommandText text;
  text.path = path_of(command);
  text.name = command.get_name();
  text.summary = command.get_description();
  text.operands = command.operands;
  text.about = command.about;
  text.examples = command.examples;
  text.statuses = command.statuses;
  text.variables = command.variables;
  for (const CLI::Option* option : command.get_options()) add(*option, text);
  for (const CLI::App* below : command.get_subcommands(nullptr)) {
    if (const auto* known = dynamic_cast<const Command*>(below)) {
      text.commands.push_back(describe(*known));
    }
  }
  text.usage = text.options.empty() ? "" : "[OPTION...]";
  if (!text.commands.empty()) text.usage += " COMMAND";
  if (!text.operands.empty()) text.usage += " " + text.operands;
  return text;
}

std::vector<const CommandText*> all_of(const CommandText& root) {
  std::vector<const CommandText*> all{&root};
  for (const CommandText& below : root.commands) {
    const auto more = all_of(below);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace weft::usage
