#include "cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/version.h"
#include "usage/command_line.h"
#include "usage/suggestion.h"

namespace weft::cli {
namespace {

int run_help_command(const CommandLine& line) {
  const CLI::App* command = &line.program;
  for (const std::string& word : line.help_words) {
    const auto names = usage::command_names(*command);
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      return usage::wrong_usage(*line.help, fmt::format("there is no command '{}'.{}", word,
                                                        usage::did_you_mean(word, names)));
    }
    command = command->get_subcommand(word);
  }
  return usage::print_help(*command);
}

}  // namespace

CommandLine::CommandLine() : program("weft", "RDMA in user space") {
  program.set_version_flag("-V,--version", std::string("weft ") + base::version(),
                           "print the version and exit");
  program.require_subcommand(1);
  program.about = {
      "Programs that were written for RDMA run on any Linux machine, without an RDMA "
      "network card, a kernel module, root or a daemon."};
  run = &add_run_command(program, run_options);
  env = &add_env_command(program, env_options);
  sim = &add_sim_command(program, sim_options);
  fabrics.add(program);
  channels.add(program);
  help = &program.add_command("help", "explains a command");
  help->operands = "[COMMAND...]";
  help->add_option("command", help_words, "the command, and one below it");
  help->examples = {{"weft help", "which commands there are"},
                    {"weft help run", "the same as weft run --help"},
                    {"weft help bench channel", "a command below another"}};
  program.examples = {{"weft run -- ibv_devinfo", "a program, on a device of weft's"},
                      {"weft help run", "what the command can do"}};
  program.statuses = {{"0", "done"},
                      {"1", "tried, and failed"},
                      {"2", "the command line is wrong, and nothing was done"}};
}

int run_command_line(int argc, char** argv) {
  CommandLine line;
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const std::vector<std::string> given = arguments;
  if (!arguments.empty() && arguments[0] == "run") {
    line.run_options.program = cut_off_program(*line.run, arguments);
  }
  if (const auto status = usage::parse(line.program, std::move(arguments))) return *status;
  if (line.help->parsed()) return run_help_command(line);
  if (line.run->parsed()) return run_run_command(*line.run, line.run_options);
  if (line.env->parsed()) return run_env_command(*line.env, line.env_options);
  if (line.sim->parsed()) return run_sim_command(*line.sim, line.sim_options);
  if (line.fabrics.parsed()) return line.fabrics.run();
  line.run_options.program = channel_program(given);
  return run_under_weft(line.run_options);
}

}  // namespace weft::cli
