#include "usage/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "usage/suggestion.h"

namespace weft::usage {
namespace {

bool allowed(const std::string& path, int mode, std::string& why) {
  if (faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0) return true;
  why = fmt::format("cannot write {}: {}", path, std::strerror(errno));
  return false;
}

}  // namespace

Command::Command(const std::string& name, const std::string& summary) : CLI::App(summary, name) {
  set_help_flag("-h,--help", "print this and exit");
}

Command& Command::add_command(const std::string& name, const std::string& summary) {
  auto made = std::make_shared<Command>(name, summary);
  CLI::App::add_subcommand(made);
  return *made;
}

std::string path_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : path_of(*parent) + " " + command.get_name();
}

CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& names) {
  const auto check = [names](const std::string& text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end()) return {};
    return fmt::format("'{}' is none of {}.{}", text, fmt::join(names, ", "),
                       did_you_mean(text, names));
  };
  return option->check(check)->type_name(fmt::format("{}", fmt::join(names, "|")));
}

CLI::Option* whole_number(CLI::Option* option, std::uint64_t least, std::uint64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && rest == end && number >= least && number <= most) return {};
    return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
  };
  return option->check(check)->type_name("N");
}

CLI::Option* writable_file(CLI::Option* option) {
  return option->check(obstacle_to_writing)->type_name("FILE");
}

std::string obstacle_to_writing(const std::string& path) {
  if (path.empty()) return "a file has to be named";
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (folder.find("%p") != std::string::npos) return {};  // Nobody knows the number yet.
  std::string why;
  struct stat status {};
  if (path.find("%p") == std::string::npos && stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return fmt::format("cannot write {}: it is a directory", path);
    allowed(path, W_OK, why);
    return why;
  }
  if (stat(folder.c_str(), &status) != 0) {
    return fmt::format("cannot write {}: {}: {}", path, folder, std::strerror(errno));
  }
  if (!S_ISDIR(status.st_mode)) {
    return fmt::format("cannot write {}: {} is no directory", path, folder);
  }
  if (!allowed(folder, W_OK | X_OK, why)) {
    return fmt::format("cannot write {}: no file may be made in {}: {}", path, folder,
                       std::strerror(errno));
  }
  return {};
}

}  // namespace weft::usage
