#include "cli/env_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "cli/sanitizer_options.h"
#include "cli/temporary_folder.h"
#include "host/system_error.h"
#include "usage/command_line.h"

namespace weft::cli {
namespace {

constexpr const char* kVariables[] = {"WEFT_TREE",         "WEFT_DEVICES", "WEFT_LINK_LAYER",
                                      "WEFT_FIRST_UVERBS", "WEFT_LOG",     "WEFT_EXPLAIN",
                                      "WEFT_PCAP",         "WEFT_FAULTS",  "WEFT_FAULTS_SEED"};

/// In /tmp anybody could have made it before us.
Result<std::string> folder_of_user() {
  std::string path = fmt::format("{}/weft-{}", runtime_folder(), geteuid());
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return host::system_error(path, errno);
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return host::system_error(path, errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
    return fail(Errc::kNotPermitted,
                fmt::format("{} is not a directory of yours alone (mode 0700): remove it", path));
  }
  return path;
}

/// Programs may be reading the tree of the same name: it is replaced in one step.
Result<std::string> standing_tree(const Preload& preload) {
  auto folder = folder_of_user();
  if (!folder) return folder;
  std::string all;
  for (const files::ShownDevice& device : preload.devices) {
    all += fmt::format("{}/{:x}/{}/{},", device.name, device.guid, device.lid.value, device.uverbs);
  }
  std::string path = fmt::format("{}/tree-{:016x}", *folder, std::hash<std::string>{}(all));
  std::string fresh = *folder + "/new-XXXXXX";
  if (mkdtemp(fresh.data()) == nullptr) return host::system_error(fresh, errno);
  auto written = write_tree_for(preload, fresh);
  if (written) {
    const bool first = rename(fresh.c_str(), path.c_str()) == 0;
    if (!first) renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE);
  }
  std::error_code ignored;
  std::filesystem::remove_all(fresh, ignored);
  if (!written) return tl::unexpected(std::move(written.error()));
  if (access(path.c_str(), F_OK) != 0) return host::system_error(path, errno);
  return path;
}

int refuse(std::string_view message) {
  fmt::print(stderr, "weft env: {}\n", message);
  return usage::kWrongUsage;
}

void unset(const char* variable, const std::string& rest) {
  if (rest.empty()) {
    fmt::print("unset {}\n", variable);
  } else {
    fmt::print("export {}={}\n", variable, shell_word(rest));
  }
}

int unset(const std::string& library) {
  const std::string list = preload_list_without(library, environment_variable("LD_PRELOAD"));
  unset("LD_PRELOAD", preload_list_without(sanitizer_runtime(), list));
  for (const auto& [variable, options] : sanitizer_options()) {
    unset(variable, options_without(options, environment_variable(variable)));
  }
  for (const char* name : kVariables) fmt::print("unset {}\n", name);
  return 0;
}

}  // namespace

std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

usage::Command& add_env_command(usage::Command& program, EnvOptions& options) {
  usage::Command& env = program.add_command(
      "env", "prints what makes a shell's programs see weft's devices, for eval");
  env.about = {
      "From then on all that the shell starts sees the devices, as under `weft run`. What "
      "the devices look like stays in a directory of the user's until the machine starts "
      "again; the same options use the same one."};
  add_preload_options(env, options.preload);
  env.add_flag("--unset", options.unset, "print what takes it back");
  env.examples = {{"eval \"$(weft env)\"", "from now on, what this shell starts sees weft0"},
                  {"eval \"$(weft env --device weft0=auto --log info)\"",
                   "a device that other hosts reach, which says more"},
                  {"eval \"$(weft env --unset)\"", "and from now on not any more"}};
  env.statuses = {{"0", "printed"},
                  {"1", "standard output could not be written"},
                  {"2", "the command line is wrong, or weft cannot help: nothing is printed"}};
  add_preload_variables(env);
  return env;
}

int run_env_command(const usage::Command& env, const EnvOptions& options) {
  auto preload = prepare_preload(options.preload);
  if (!preload) return refuse(preload.error().message);
  if (options.unset) {
    return usage::with_output(env, [&preload] { return unset(preload->library); });
  }
  const auto tree = standing_tree(*preload);
  if (!tree) return refuse(tree.error().message);
  preload->variables.emplace_back("WEFT_TREE", *tree);
  return usage::with_output(env, [&preload] {
    for (const auto& [name, value] : preload->variables) {
      fmt::print("export {}={}\n", name, shell_word(value));
    }
    return 0;
  });
}

}  // namespace weft::cli
