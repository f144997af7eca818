// `weft env`: what `weft run` would set for a program, as lines for a shell to evaluate. The tree
// that the devices are shown from stays, in a directory that is the user's alone; the same options
// use the same one. The process has one thread.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/preload.h"

namespace weft::cli {

struct EnvOptions {
  PreloadOptions preload;
  bool unset = false;
};

/// Adds the command; what the user gives is in `options` after parsing.
CLI::App* add_env_command(CLI::App& app, EnvOptions& options);

/// The process's exit status: 2 when nothing was printed.
int run_env_command(const EnvOptions& options);

/// Text as one word of a shell.
std::string shell_word(std::string_view text);

}  // namespace weft::cli
