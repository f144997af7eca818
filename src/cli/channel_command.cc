#include "cli/channel_command.h"

#include <unistd.h>

#include <climits>

namespace weft::cli {
namespace {

std::string beside_the_command(const char* name) {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) return name;
  const std::string path(self, static_cast<std::size_t>(length));
  return path.substr(0, path.rfind('/') + 1) + name;
}

}  // namespace

void ChannelCommands::add(usage::Command& program) {
  demo = &demo::add_demo_command(program, demo_arguments);
  usage::Command& bench = program.add_command("bench", "measures channels");
  bench.require_subcommand(1);
  bench_channel = &demo::add_bench_command(bench, "channel", bench_arguments);
}

std::vector<std::string> channel_program(const std::vector<std::string>& arguments) {
  const bool is_demo = arguments[0] == "demo";
  std::vector<std::string> program{beside_the_command("weft-channel"), is_demo ? "demo" : "bench"};
  program.insert(program.end(), arguments.begin() + (is_demo ? 1 : 2), arguments.end());
  return program;
}

}  // namespace weft::cli
