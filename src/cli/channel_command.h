// `weft demo` and `weft bench channel`: start weft-channel, which lies beside the command, as `weft
// run` would. The process has one thread.
#pragma once

#include <string>
#include <vector>

#include "demo/options.h"
#include "usage/command.h"

namespace weft::cli {

/// Adds the commands. Their arguments are read here for what is wrong with them; what they say,
/// weft-channel reads again.
struct ChannelCommands {
  demo::DemoArguments demo_arguments;
  demo::BenchArguments bench_arguments;
  const CLI::App* demo = nullptr;
  const CLI::App* bench_channel = nullptr;

  void add(usage::Command& program);
};

/// "demo ..." and "bench channel ..." become what `weft run` is to start.
std::vector<std::string> channel_program(const std::vector<std::string>& arguments);

}  // namespace weft::cli
