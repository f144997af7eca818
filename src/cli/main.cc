// The weft command.
#include <CLI/CLI.hpp>

#include "cli/sim_command.h"

int main(int argc, char** argv) {
  CLI::App app{"weft: RDMA in user space"};
  app.require_subcommand(1);
  weft::cli::SimOptions sim;
  const CLI::App* sim_command = weft::cli::add_sim_command(app, sim);
  try {
    app.parse(argc, argv);
    if (sim_command->parsed()) return weft::cli::run_sim_command(sim);
  } catch (const CLI::Error& error) {
    return app.exit(error);
  }
  return 0;
}
