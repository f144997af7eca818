#include <fmt/format.h>

#include "reference/completion.h"

// One function walks over the words to the place where the cursor is: which command it is in, and
// whether an option's value is next. Bash makes '=' a word of its own.
namespace weft::reference {
namespace {

using usage::CommandText;
using usage::OptionText;

/// 'weft run' | 'weft env': what the program's words are compared with.
class Patterns {
 public:
  void add(const std::string& path, const std::string& word) {
    all_ += (all_.empty() ? "" : " | ") + one_word(path + " " + word);
  }
  std::string branch(const std::string& indent, const std::string& action) const {
    return all_.empty() ? "" : fmt::format("{}{}) {} ;;\n", indent, all_, action);
  }

 private:
  std::string all_;
};

std::string bash_action(const OptionText& option, const std::string& name) {
  switch (value_of(option)) {
    case Value::kChoice:
      return fmt::format("_{}_offer '{}'", name, fmt::join(option.choices, " "));
    case Value::kFile:
      return fmt::format("_{}_offer_files", name);
    case Value::kDevice:
      return fmt::format("_{}_offer_devices", name);
    case Value::kAny:
      break;
  }
  return {};
}

std::string bash_values(const CommandText& root, const std::string& name) {
  std::string out;
  for (const CommandText* command : usage::all_of(root)) {
    for (const OptionText& option : command->options) {
      const std::string action = bash_action(option, name);
      if (action.empty()) continue;
      Patterns patterns;
      for (const std::string& word : option.names) patterns.add(command->path, word);
      out += patterns.branch("    ", action);
    }
  }
  return out;
}

std::string bash_words(const CommandText& root, const std::string& name) {
  std::string out;
  for (const CommandText* command : usage::all_of(root)) {
    std::string commands, options;
    for (const CommandText& below : command->commands) commands += below.name + " ";
    for (const OptionText& option : command->options) {
      for (const std::string& word : option.names) options += word + " ";
    }
    const std::string programs =
        runs_a_program(*command) ? fmt::format(" && _{}_offer_programs", name) : "";
    out += fmt::format("    {}) _{}_offer_words '{}' '{}'{} ;;\n", one_word(command->path), name,
                       commands, options, programs);
  }
  return out;
}

std::string bash_steps(const CommandText& root, const std::string& name) {
  Patterns commands, valued, programs;
  std::string after_options;
  for (const CommandText* command : usage::all_of(root)) {
    for (const CommandText& below : command->commands) commands.add(command->path, below.name);
    for (const OptionText& option : command->options) {
      if (option.value.empty()) continue;
      for (const std::string& word : option.names) valued.add(command->path, word);
    }
    if (!runs_a_program(*command)) continue;
    programs.add(command->path, "--");
    after_options +=
        fmt::format("      {}-*) ;;\n      {}*) _{}_program \"$i\"; return ;;\n",
                    one_word(command->path + " "), one_word(command->path + " "), name);
  }
  return commands.branch("      ", "place=\"$place $word\"") +
         programs.branch("      ", fmt::format("_{}_program $((i + 1)); return", name)) +
         valued.branch("      ", fmt::format("_{}_skip_value; ((i >= COMP_CWORD)) && "
                                             "{{ _{}_value \"$place $word\"; return; }}",
                                             name, name)) +
         after_options;
}

constexpr const char* kTemplate =
    R"(# Completion for bash. Made from what `@PROGRAM@ --help` says; not to be edited.

_@NAME@_offer() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
}

_@NAME@_offer_words() {
  if [[ $current == -* || -z $1 ]]; then
    _@NAME@_offer "$2"
  else
    _@NAME@_offer "$1"
  fi
}

_@NAME@_offer_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}

_@NAME@_offer_programs() {
  [[ $current == -* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$current")
}

# After NAME=: where the device is to be.
_@NAME@_offer_devices() {
  local equals=$COMP_CWORD interface all=auto
  [[ ${COMP_WORDS[equals]} == '=' ]] || equals=$((COMP_CWORD - 1))
  [[ ${COMP_WORDS[equals]} == '=' && ${COMP_WORDS[equals - 1]} != --* ]] || return
  for interface in /sys/class/net/*; do all+=" ${interface##*/}"; done
  _@NAME@_offer "$all"
}

# A program and its arguments, from word $1 on.
_@NAME@_program() {
  if ((COMP_CWORD == $1)); then
    _@NAME@_offer_programs
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  else
    _@NAME@_offer_files
  fi
}

# Moves i from an option to its value's last word: --pcap FILE, --pcap = FILE, --device a = auto.
_@NAME@_skip_value() {
  ((++i))
  [[ ${COMP_WORDS[i]} == '=' ]] && ((i < COMP_CWORD)) && ((++i))
  [[ ${COMP_WORDS[i + 1]-} == '=' ]] && ((i += 2))
  return 0
}

_@NAME@_value() {
  case $1 in
@VALUES@  esac
}

_@NAME@() {
  local place=@PROGRAM@ current=${COMP_WORDS[COMP_CWORD]} word i
  [[ $current == '=' ]] && current=
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case "$place $word" in
@STEPS@    esac
  done
  case $place in
@WORDS@  esac
}

complete -F _@NAME@ @PROGRAM@
)";

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string bash_completion(const CommandText& plain_root) {
  const CommandText root = with_help_words(plain_root);
  const std::string name = identifier(root.path);
  std::string out = kTemplate;
  replace_all(out, "@VALUES@", bash_values(root, name));
  replace_all(out, "@STEPS@", bash_steps(root, name));
  replace_all(out, "@WORDS@", bash_words(root, name));
  replace_all(out, "@NAME@", name);
  replace_all(out, "@PROGRAM@", root.path);
  return out;
}

}  // namespace weft::reference
