// weft-reference FOLDER: writes the sources of the manual pages and the completions of weft and of
// weft-channel, from the same descriptions as their --help. Runs during the build.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/command_line.h"
#include "demo/options.h"
#include "reference/completion.h"
#include "reference/manual_page.h"
#include "usage/command_line.h"

namespace weft::reference {
namespace {

bool write(const std::filesystem::path& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file.fail()) return true;
  fmt::print(stderr, "weft-reference: cannot write {}\n", path.string());
  return false;
}

bool write_all(const std::filesystem::path& folder, const usage::CommandText& root) {
  bool good = true;
  for (const usage::CommandText* command : usage::all_of(root)) {
    good &= write(folder / "man" / (page_name(*command) + ".1.scd"), manual_page(*command, root));
  }
  const std::filesystem::path completions = folder / "completions";
  good &= write(completions / "bash" / root.path, bash_completion(root));
  good &= write(completions / "zsh" / ("_" + root.path), zsh_completion(root));
  good &= write(completions / "fish" / (root.path + ".fish"), fish_completion(root));
  return good;
}

}  // namespace
}  // namespace weft::reference

int main(int argc, char** argv) {
  weft::usage::Command program("weft-reference",
                               "writes the manual pages' sources and the completions");
  std::string folder;
  program.operands = "FOLDER";
  program.add_option("folder", folder, "where to")->required();
  if (const auto status = weft::usage::parse(program, argc, argv)) return *status;
  const weft::cli::CommandLine weft_line;
  const weft::demo::ChannelCommandLine channel_line;
  const bool good = weft::reference::write_all(folder, weft::usage::describe(weft_line.program)) &&
                    weft::reference::write_all(folder, weft::usage::describe(channel_line.program));
  return good ? 0 : 1;
}
