#include <fmt/format.h>

#include "reference/completion.h"

// One function for each command, which hands on to those below it.
namespace weft::reference {
namespace {

using usage::CommandText;
using usage::OptionText;

/// Inside a specification for _arguments or _describe these have a meaning.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionText& option, const std::string& name) {
  switch (value_of(option)) {
    case Value::kChoice:
      return fmt::format("({})", fmt::join(option.choices, " "));
    case Value::kFile:
      return "_files";
    case Value::kDevice:
      return fmt::format("_{}_devices", name);
    case Value::kAny:
      break;
  }
  return " ";
}

std::string specification(const OptionText& option, const std::string& name) {
  std::string out;
  for (const std::string& word : option.names) {
    // An option with several names excludes its other ones.
    std::string spec = option.names.size() > 1
                           ? fmt::format("({})", fmt::join(option.names, " "))
                           : std::string(value_of(option) == Value::kDevice ? "*" : "");
    spec += word;
    if (!option.value.empty()) spec += word.starts_with("--") ? "=" : "+";
    spec += fmt::format("[{}]", escaped(option.meaning));
    if (!option.value.empty()) {
      spec += fmt::format(":{}:{}", escaped(option.value), zsh_action(option, name));
    }
    out += " \\\n    " + one_word(spec);
  }
  return out;
}

std::string function_of(const CommandText& command, const std::string& name) {
  std::string out = fmt::format("_{}() {{\n", identifier(command.path));
  if (!command.commands.empty()) {
    out += "  local curcontext=$curcontext state line\n  typeset -A opt_args\n";
  }
  out += command.commands.empty() ? "  _arguments" : "  _arguments -C";
  for (const OptionText& option : command.options) out += specification(option, name);
  if (runs_a_program(command))
    out += " \\\n    '(-)1:program:_command_names -e' '*::argument:_normal'";
  if (command.commands.empty()) return out + "\n}\n\n";
  out +=
      " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n    command)\n";
  out += "      local -a commands=(\n";
  for (const CommandText& below : command.commands) {
    out += "        " + one_word(escaped(below.name) + ":" + escaped(below.summary)) + "\n";
  }
  out += "      )\n      _describe command commands\n      ;;\n    argument)\n";
  out += "      case $words[1] in\n";
  for (const CommandText& below : command.commands) {
    out += fmt::format("        {}) _{} ;;\n", below.name, identifier(below.path));
  }
  return out + "      esac\n      ;;\n  esac\n}\n\n";
}

}  // namespace

std::string zsh_completion(const CommandText& plain_root) {
  const CommandText root = with_help_words(plain_root);
  const std::string name = identifier(root.path);
  std::string out = fmt::format(
      "#compdef {}\n# Completion for zsh. Made from what `{} --help` says; not to be edited.\n\n",
      root.path, root.path);
  out += fmt::format(
      "# After NAME=: where the device is to be.\n_{}_devices() {{\n"
      "  if compset -P '*='; then\n    compadd auto /sys/class/net/*(N:t)\n  else\n"
      "    _message 'NAME or NAME=WHERE'\n  fi\n}}\n\n",
      name);
  for (const CommandText* command : usage::all_of(root)) out += function_of(*command, name);
  return out + fmt::format("_{} \"$@\"\n", name);
}

}  // namespace weft::reference
