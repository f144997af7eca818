// `weft env`: what `weft run` would set for a program, as lines for a shell to evaluate. The tree
// that the devices are shown from stays, in a directory that is the user's alone; the same options
// use the same one. The process has one thread.
#pragma once

#include <string>
#include <string_view>

#include "cli/preload.h"
#include "usage/command.h"

namespace weft::cli {

struct EnvOptions {
  PreloadOptions preload;
  bool unset = false;
};

/// Adds the command; what the user gives is in `options` after parsing.
usage::Command& add_env_command(usage::Command& program, EnvOptions& options);

/// The process's exit status: 2 when nothing was printed.
int run_env_command(const usage::Command& env, const EnvOptions& options);

/// Text as one word of a shell.
std::string shell_word(std::string_view text);

}  // namespace weft::cli
