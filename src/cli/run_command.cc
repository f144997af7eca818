#include "cli/run_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "cli/program_file.h"
#include "cli/supervise.h"
#include "cli/temporary_folder.h"
#include "usage/command_line.h"

namespace weft::cli {
namespace {

constexpr int kRefused = usage::kWrongUsage, kNotStarted = 126, kNotFound = 127;

int refuse(int status, std::string_view message) {
  fmt::print(stderr, "weft run: {}\n", message);
  return status;
}

/// How the program ended, or the exit status when it did not start.
tl::expected<int, int> run_program(const RunOptions& options) {
  const auto refused = [](int status, std::string_view message) {
    return tl::unexpected(refuse(status, message));
  };
  if (const auto obstacle = obstacle_to(options.program[0])) {
    return refused(obstacle->exit_status, obstacle->message);
  }
  const auto preload = prepare_preload(options.preload);
  if (!preload) return refused(kRefused, preload.error().message);
  const auto tree = TemporaryFolder::make();
  if (!tree) return refused(kRefused, tree.error().message);
  if (const auto written = write_tree_for(*preload, tree->path()); !written) {
    return refused(kRefused, written.error().message);
  }
  for (const auto& [name, value] : preload->variables) setenv(name.c_str(), value.c_str(), 1);
  setenv("WEFT_TREE", tree->path().c_str(), 1);
  const auto ended = supervise(options.program);
  if (ended) return *ended;
  return refused(ended.error().code == Errc::kNotFound ? kNotFound : kNotStarted,
                 ended.error().message);
}

}  // namespace

usage::Command& add_run_command(usage::Command& program, RunOptions& options) {
  usage::Command& run = program.add_command(
      "run", "runs a program, unmodified, on a machine without RDMA: it sees weft's devices");
  run.operands = "[--] PROGRAM [ARGUMENT...]";
  run.about = {
      "The program and all that it starts find weft's devices as they would find network cards, "
      "through libibverbs and librdmacm. Nothing is installed, no root and no kernel module is "
      "needed, and nothing is left when the program has ended.",
      "A device has a loopback address unless it is given one: programs of this host reach it. "
      "With "
      "an address that other hosts reach it speaks RoCEv2 with them, at UDP port 4791."};
  add_preload_options(run, options.preload);
  run.examples = {
      {"weft run -- ibv_devinfo", "one device, weft0"},
      {"weft run -- ./server", "your program, as it is"},
      {"weft run --device weft0 --device weft1 -- ./both",
       "two devices, at 127.0.0.1 and 127.0.0.2"},
      {"weft run --device weft0=auto -- ./program",
       "a device that other hosts reach: at the address by which this one reaches them"},
      {"weft run --device mlx5_0=eth0 -- ./program",
       "a device of that name, at the address of that interface"},
      {"weft run --device weft0=10.0.0.1 -- ./program", "a device at that address"},
      {"weft run --link-layer ib -- mpirun -n 2 ./solve", "ports that seem to be InfiniBand"},
      {"weft run --explain -- ./failing", "why does this work request fail?"},
      {"weft run --pcap frames-%p.pcap -- ./program", "every frame, for Wireshark"},
      {"weft run --faults loss=1%,delay=1ms --seed 7 -- ./program",
       "a network that loses and delays, and the same faults again"},
      {"weft run -- bash", "a shell in which everything sees weft"}};
  run.statuses = {{"N", "the program's own; a signal that ended it ends the command, too"},
                  {"2", "not started: the command line is wrong, or weft cannot help this program"},
                  {"126", "not started: it may not be executed"},
                  {"127", "not started: there is no such program"}};
  add_preload_variables(run);
  return run;
}

std::vector<std::string> cut_off_program(const CLI::App& run, std::vector<std::string>& arguments) {
  std::size_t at = 1;
  std::size_t from = arguments.size();
  for (; at < arguments.size() && from == arguments.size(); ++at) {
    const std::string& argument = arguments[at];
    if (argument == "--") {
      from = at + 1;
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      from = at;
      break;
    }
    const CLI::Option* option = run.get_option_no_throw(argument);  // none for --name=value
    if (option != nullptr && option->get_items_expected_max() > 0) ++at;
  }
  at = std::min(at, arguments.size());
  from = std::min(from, arguments.size());
  std::vector<std::string> program(arguments.begin() + static_cast<std::ptrdiff_t>(from),
                                   arguments.end());
  arguments.resize(at);
  return program;
}

int run_run_command(const usage::Command& run, const RunOptions& options) {
  if (options.program.empty()) {
    return usage::wrong_usage(run, "which program? For example: weft run -- ibv_devinfo");
  }
  return run_under_weft(options);
}

int run_under_weft(const RunOptions& options) {
  const auto ended = run_program(options);
  return ended ? end_like(*ended) : ended.error();
}

}  // namespace weft::cli
