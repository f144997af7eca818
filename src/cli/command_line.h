// The whole command line of weft, apart from main(): what there is, and what is done. The process
// has one thread.
#pragma once

#include <string>
#include <vector>

#include "cli/channel_command.h"
#include "cli/env_command.h"
#include "cli/fabric_command.h"
#include "cli/run_command.h"
#include "cli/sim_command.h"
#include "usage/command.h"

namespace weft::cli {

/// All commands with their options, and what the user gave once it is parsed.
struct CommandLine {
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  usage::Command program;
  RunOptions run_options;
  EnvOptions env_options;
  SimOptions sim_options;
  FabricCommands fabrics;
  ChannelCommands channels;
  std::vector<std::string> help_words;
  usage::Command *run = nullptr, *env = nullptr, *sim = nullptr, *help = nullptr;
};

/// Does what the arguments of main() say, and gives the exit status.
int run_command_line(int argc, char** argv);

}  // namespace weft::cli
