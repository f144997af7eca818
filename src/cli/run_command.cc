#include "cli/run_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "cli/program_file.h"
#include "cli/supervise.h"
#include "cli/temporary_folder.h"

namespace weft::cli {
namespace {

constexpr const char* kRunExamples = R"(
Examples:
  weft run -- ibv_devinfo                           one device, weft0
  weft run -- ./server                              your program, as it is
  weft run --device weft0 --device weft1 -- ./both  two devices, 127.0.0.1 and 127.0.0.2
  weft run --device mlx5_0=10.0.0.1 -- ./program    a device of that name and address, which
                                                    talks RoCEv2 with other hosts
  weft run --link-layer ib -- mpirun -n 2 ./solve   ports that seem to be InfiniBand
  weft run --explain -- ./failing                   why does this work request fail?
  weft run --pcap frames-%p.pcap -- ./program       every frame, for Wireshark
  weft run --faults loss=1% -- ./program            does it stand a lossy network?
  weft run --faults loss=1%,delay=1ms --seed 7 -- ./program   the same faults again
  weft run -- bash                                  a shell in which everything sees weft

The exit status is the program's. 2, 126 or 127: it was not started, and the message says why.)";

constexpr int kRefused = 2, kNotStarted = 126, kNotFound = 127;

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

CLI::App* add_run_command(CLI::App& app, RunOptions& options) {
  CLI::App* run = app.add_subcommand(
      "run", "Runs a program, unmodified, on a machine without RDMA: it sees weft's devices");
  run->footer(kRunExamples);
  add_preload_options(*run, options.preload);
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

int run_run_command(const RunOptions& options) {
  if (options.program.empty()) {
    return refuse(kRefused, "which program? For example: weft run -- ibv_devinfo");
  }
  const auto ended = run_program(options);
  return ended ? end_like(*ended) : ended.error();
}

}  // namespace weft::cli
