#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/channel_command.h"
#include "cli/env_command.h"
#include "cli/run_command.h"
#include "cli/sim_command.h"

namespace weft::cli {

int run_command_line(int argc, char** argv) {
  CLI::App app{"weft: RDMA in user space"};
  app.require_subcommand(1);
  RunOptions run;
  const CLI::App* run_command = add_run_command(app, run);
  EnvOptions env;
  const CLI::App* env_command = add_env_command(app, env);
  SimOptions sim;
  const CLI::App* sim_command = add_sim_command(app, sim);
  add_channel_commands(app);
  std::vector<std::string> arguments(argv + 1, argv + std::max(argc, 1));
  if (run.program = channel_program(arguments); !run.program.empty()) {
    return run_run_command(run);
  }
  if (!arguments.empty() && arguments[0] == "run") {
    run.program = cut_off_program(*run_command, arguments);
  }
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
    if (run_command->parsed()) return run_run_command(run);
    if (env_command->parsed()) return run_env_command(env);
    if (sim_command->parsed()) return run_sim_command(sim);
    throw CLI::CallForHelp();  // `weft bench` alone
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return 0;
}

}  // namespace weft::cli
