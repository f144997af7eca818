// Reads a program's command line: help, version and wrong usage end the program here, in the same
// way for each program and each command. Whoever is wrong is told what is wrong, what was probably
// meant and where the help is, and the exit status is 2. The process has one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "usage/command.h"

namespace weft::usage {

/// The exit status with which the process is to end now; nothing: go on, the options are set.
std::optional<int> parse(CLI::App& program, std::vector<std::string> arguments);
std::optional<int> parse(CLI::App& program, int argc, char** argv);

/// Tells that it cannot be meant, and where the help is; returns kWrongUsage.
int wrong_usage(const CLI::App& command, std::string_view message);

/// To standard output. The exit status: 1 when it could not be written.
int print_help(const CLI::App& command);

/// What the work returns; or 1, and a message, when not all of its standard output could be
/// written.
int with_output(const CLI::App& command, const std::function<int()>& work);

/// The names of the commands below it.
std::vector<std::string> command_names(const CLI::App& command);

}  // namespace weft::usage
