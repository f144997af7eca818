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

std::vector<std::string> channel_program(const std::vector<std::string>& arguments) {
  std::size_t used = 0;
  std::vector<std::string> program{beside_the_command("weft-channel")};
  if (!arguments.empty() && arguments[0] == "demo") {
    program.push_back("demo");
    used = 1;
  } else if (arguments.size() > 1 && arguments[0] == "bench" && arguments[1] == "channel") {
    program.push_back("bench");
    used = 2;
  } else {
    return {};
  }
  program.insert(program.end(), arguments.begin() + static_cast<std::ptrdiff_t>(used),
                 arguments.end());
  return program;
}

void add_channel_commands(CLI::App& app) {
  app.add_subcommand("demo", "A thousand channels between two processes, as it happens")
      ->allow_extras();
  app.add_subcommand("bench", "Measures: `weft bench channel [--json]`")->allow_extras();
}

}  // namespace weft::cli
