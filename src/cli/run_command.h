// `weft run`: starts a program that sees weft's RDMA devices beside the machine's own, with
// everything that it starts in turn, and ends as the program ends. The process has one thread.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/preload.h"

namespace weft::cli {

struct RunOptions {
  PreloadOptions preload;
  std::vector<std::string> program;  ///< and its arguments
};

/// Adds the command; what the user gives is in `options` after parsing. The program is not parsed,
/// its arguments are not ours: cut_off_program() comes first.
CLI::App* add_run_command(CLI::App& app, RunOptions& options);

/// Takes the program and what follows from the arguments of "weft run ...": it begins after "--",
/// or with the first one that is neither an option nor an option's value.
std::vector<std::string> cut_off_program(const CLI::App& run, std::vector<std::string>& arguments);

/// The program's exit status; 2, 126 or 127 when it was not started. Does not return when a signal
/// ended the program: it is raised again.
int run_run_command(const RunOptions& options);

}  // namespace weft::cli
