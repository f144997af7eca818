#include "usage/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "usage/help.h"
#include "usage/suggestion.h"

namespace weft::usage {
namespace {

struct Mistake {
  const CLI::App* command;
  std::string message;
};

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

bool has_positionals(const CLI::App& command) {
  const auto options = command.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const CLI::Option* option) { return option->get_positional(); });
}

/// The commands below that have this option, for who gave it in the wrong place.
std::string who_takes(const CLI::App& command, const std::string& name) {
  for (const CLI::App* below : command.get_subcommands(nullptr)) {
    if (below->get_option_no_throw(name) != nullptr) return path_of(*below);
  }
  return {};
}

std::string unknown_option(const CLI::App& command, const std::string& name) {
  std::string meant = did_you_mean(name, option_names(command));
  if (const std::string other = who_takes(command, name); meant.empty() && !other.empty()) {
    meant = fmt::format(" '{}' has it: it belongs behind that.", other);
  }
  return fmt::format("there is no option '{}'.{}", name, meant);
}

std::string unknown_command(const CLI::App& command, const std::string& word) {
  const auto names = command_names(command);
  const std::string meant = did_you_mean(word, names);
  return fmt::format("there is no command '{}'.{}", word,
                     meant.empty() ? fmt::format(" There are {}.", fmt::join(names, ", ")) : meant);
}

/// The first word that nobody knows, in the order in which they were given.
std::optional<Mistake> first_unknown(const CLI::App& program,
                                     const std::vector<std::string>& arguments) {
  const CLI::App* command = &program;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") return {};
    if (word.size() > 1 && word[0] == '-') {
      const std::size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const CLI::Option* const option = command->get_option_no_throw(name);
      if (option == nullptr) return Mistake{command, unknown_option(*command, name)};
      if (equals == std::string::npos && option->get_items_expected_max() > 0) ++i;
      continue;
    }
    const auto names = command_names(*command);
    if (std::find(names.begin(), names.end(), word) != names.end()) {
      command = command->get_subcommand(word);
    } else if (!names.empty()) {
      return Mistake{command, unknown_command(*command, word)};
    } else if (!has_positionals(*command)) {
      return Mistake{command, fmt::format("what is '{}' for?", word)};
    }
  }
  return {};
}

/// The command that the arguments got to.
const CLI::App& reached(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

Mistake mistake_of(const CLI::App& program, const CLI::Error& error,
                   const std::vector<std::string>& arguments) {
  if (auto unknown = first_unknown(program, arguments)) return *unknown;
  const CLI::App& command = reached(program);
  const auto names = command_names(command);
  if (!names.empty() && command.get_subcommands().empty()) {
    return {&command, fmt::format("which command? There are {}", fmt::join(names, ", "))};
  }
  return {&command, error.what()};
}

}  // namespace

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands(nullptr)) names.push_back(below->get_name());
  return names;
}

std::optional<int> parse(CLI::App& program, std::vector<std::string> arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
  try {
    program.parse(std::move(reversed));
    return {};
  } catch (const CLI::CallForHelp&) {
    return print_help(reached(program));
  } catch (const CLI::CallForVersion& version) {
    return with_output(program, [&version] {
      fmt::print("{}\n", version.what());
      return 0;
    });
  } catch (const CLI::Error& error) {
    const Mistake mistake = mistake_of(program, error, arguments);
    return wrong_usage(*mistake.command, mistake.message);
  }
}

std::optional<int> parse(CLI::App& program, int argc, char** argv) {
  if (program.get_name().empty() && argc > 0) {
    const char* const slash = std::strrchr(argv[0], '/');
    program.name(slash != nullptr ? slash + 1 : argv[0]);
  }
  return parse(program, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

int wrong_usage(const CLI::App& command, std::string_view message) {
  const std::string path = path_of(command);
  fmt::print(stderr, "{}: {}\nTry '{} --help'.\n", path, message, path);
  return kWrongUsage;
}

int print_help(const CLI::App& command) {
  return with_output(command, [&command] {
    const auto* const described = dynamic_cast<const Command*>(&command);
    fmt::print("{}", described != nullptr ? help_text(describe(*described)) : command.help());
    return 0;
  });
}

int with_output(const CLI::App& command, const std::function<int()>& work) {
  int error = 0, status = 1;
  try {
    status = work();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    error = errno;
  } catch (const std::system_error& failed) {  // fmt::print, when its buffer was full
    error = failed.code().value();
  }
  fmt::print(stderr, "{}: cannot write standard output: {}\n", path_of(command),
             std::strerror(error));
  return 1;
}

}  // namespace weft::usage
