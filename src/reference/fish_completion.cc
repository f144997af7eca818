#include <fmt/format.h>

#include "reference/completion.h"

// One function tells in which command the cursor is; each completion belongs to one command.
namespace weft::reference {
namespace {

using usage::CommandText;
using usage::OptionText;

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_action(const OptionText& option, const std::string& name) {
  switch (value_of(option)) {
    case Value::kChoice:
      return fmt::format(" -x -a {}",
                         fish_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
    case Value::kFile:
      return " -r -F";
    case Value::kDevice:
      return fmt::format(" -x -a '(__{}_devices)'", name);
    case Value::kAny:
      break;
  }
  return option.value.empty() ? "" : " -x";
}

std::string completion_of(const CommandText& command, const CommandText& root) {
  const std::string name = identifier(root.path);
  const std::string begin =
      fmt::format("complete -c {} -n '__{}_in {}'", root.path, name, identifier(command.path));
  std::string out;
  for (const CommandText& below : command.commands) {
    out += fmt::format("{} -a {} -d {}\n", begin, below.name, fish_quoted(below.summary));
  }
  for (const OptionText& option : command.options) {
    out += begin;
    for (const std::string& word : option.names) {
      out += word.starts_with("--") ? " -l " + word.substr(2) : " -s " + word.substr(1);
    }
    out += fish_action(option, name) + " -d " + fish_quoted(option.meaning) + "\n";
  }
  if (runs_a_program(command)) {
    const std::string programs =
        fmt::format("complete -c {} -a '(__fish_complete_command)'", root.path);
    out += fmt::format("{0} -n '__{1}_in {2}'\n{0} -n '__{1}_in {2}_program'\n", programs, name,
                       identifier(command.path));
    out += fmt::format("complete -c {} -n '__{}_in program' -F\n", root.path, name);
  }
  return out;
}

/// switch branches: from a command's words to where they lead.
std::string fish_steps(const CommandText& root) {
  std::string out, programs;
  for (const CommandText* command : usage::all_of(root)) {
    const std::string place = identifier(command->path);
    for (const CommandText& below : command->commands) {
      out += fmt::format("            case '{} {}'\n                set place {}\n", place,
                         below.name, identifier(below.path));
    }
    for (const OptionText& option : command->options) {
      if (option.value.empty()) continue;
      for (const std::string& word : option.names) {
        out += fmt::format("            case '{} {}'\n                set skip 1\n", place, word);
      }
    }
    if (!runs_a_program(*command)) continue;
    programs += fmt::format(
        "            case '{0} --'\n                set place {0}_program\n"
        "            case '{0} -*'\n"
        "            case '{0} *' '{0}_program *'\n                set place program\n",
        place);
  }
  return out + programs;
}

}  // namespace

std::string fish_completion(const CommandText& plain_root) {
  const CommandText root = with_help_words(plain_root);
  const std::string name = identifier(root.path);
  std::string out = fmt::format(
      "# Completion for fish. Made from what `{} --help` says; not to be edited.\n\n", root.path);
  out += fmt::format(
      "function __{0}_in -a wanted\n"
      "    set -l place {0}\n    set -l skip 0\n    set -l words (commandline -opc)\n"
      "    set -e words[1]\n"
      "    for word in $words\n"
      "        if test $skip = 1\n            set skip 0\n            continue\n        end\n"
      "        switch \"$place $word\"\n{1}        end\n    end\n"
      "    test $place = $wanted\nend\n\n",
      name, fish_steps(root));
  out += fmt::format(
      "# After NAME=: where the device is to be.\nfunction __{0}_devices\n"
      "    set -l typed (string match -r '^[^=]*=' -- (commandline -ct | string replace -r "
      "'^--[a-z-]*=' ''))\n"
      "    test -n \"$typed\"; and printf '%s\\n' $typed(printf '%s\\n' auto (command ls "
      "/sys/class/net))\nend\n\n",
      name);
  out += fmt::format("complete -c {} -f\n", root.path);
  for (const CommandText* command : usage::all_of(root)) out += completion_of(*command, root);
  return out;
}

}  // namespace weft::reference
