// `weft demo` and `weft bench channel`: start weft-channel, which lies beside the command, as `weft
// run` would. The process has one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace weft::cli {

/// "demo ..." and "bench channel ..." become what `weft run` is to start; empty: neither of them.
std::vector<std::string> channel_program(const std::vector<std::string>& arguments);

/// For the help text alone: the arguments are weft-channel's.
void add_channel_commands(CLI::App& app);

}  // namespace weft::cli
