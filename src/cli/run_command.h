// `weft run`: starts a program that sees weft's RDMA devices beside the machine's own, with
// everything that it starts in turn, and ends as the program ends. The process has one thread.
#pragma once

#include <string>
#include <vector>

#include "cli/preload.h"
#include "usage/command.h"

namespace weft::cli {

struct RunOptions {
  PreloadOptions preload;
  std::vector<std::string> program;  ///< and its arguments
};

/// Adds the command; what the user gives is in `options` after parsing. The program is not parsed,
/// its arguments are not ours: cut_off_program() comes first.
usage::Command& add_run_command(usage::Command& program, RunOptions& options);

/// Takes the program and what follows from the arguments of "weft run ...": it begins after "--",
/// or with the first one that is neither an option nor an option's value.
std::vector<std::string> cut_off_program(const CLI::App& run, std::vector<std::string>& arguments);

/// The program's exit status; 2, 126 or 127 when it was not started. Does not return when a signal
/// ended the program: it is raised again.
int run_run_command(const usage::Command& run, const RunOptions& options);
/// The same for a program that the command itself chose.
int run_under_weft(const RunOptions& options);

}  // namespace weft::cli
