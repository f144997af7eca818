#include "cli/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace weft::cli {
namespace {

constexpr int kProgramNotFound = 127, kProgramNotStarted = 126, kNotPreloaded = 2;
constexpr int kDeepestScript = 4;  // the kernel's bound
constexpr std::size_t kLongestFirstLine = 256;

#if defined(__x86_64__)
constexpr ElfW(Half) kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr ElfW(Half) kMachine = EM_AARCH64;
#endif

std::string read_at(int fd, std::size_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = pread(fd, bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

template <class Value>
std::optional<Value> value_at(std::string_view bytes, std::size_t offset) {
  if (bytes.size() < sizeof(Value) || offset > bytes.size() - sizeof(Value)) return {};
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::optional<std::string> found(const std::string& program, int& error) {
  error = ENOENT;
  if (program.find('/') != std::string::npos) {
    error = access(program.c_str(), F_OK) == 0 ? 0 : errno;
    if (error == 0) return program;
    return {};
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
  for (bool more = true; more;) {
    const std::size_t colon = rest.find(':');
    more = colon != std::string_view::npos;
    const std::string_view folder = rest.substr(0, colon);
    rest.remove_prefix(more ? colon + 1 : rest.size());
    std::string candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, program);
    struct stat status {};
    if (stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return {};
}

/// Started with rights that its caller has not: then the loader ignores LD_PRELOAD.
std::optional<Obstacle> of_rights(const std::string& path, int fd, const struct stat& status) {
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return {};
  std::string_view what;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) what = "set-user-ID";
  if ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid()) what = "set-group-ID";
  if (getuid() != 0 && fgetxattr(fd, "security.capability", nullptr, 0) > 0) {
    what = "given file capabilities (setcap)";
  }
  if (what.empty()) return {};
  return Obstacle{
      kNotPreloaded,
      fmt::format("{} is {}, and into such a program the system preloads no library: it "
                  "would not see weft's devices. Run a copy of it without those rights.",
                  path, what)};
}

std::optional<Obstacle> of_elf(const std::string& path, int fd, std::string_view start) {
  const auto header = value_at<ElfW(Ehdr)>(start, 0);
  const auto foreign = [&] {
    return Obstacle{kNotPreloaded,
                    fmt::format("{} is a program for another architecture than weft's, so weft's "
                                "library cannot be loaded into it.",
                                path)};
  };
  if (start.size() > EI_CLASS && start[EI_CLASS] != ELFCLASS64) return foreign();
  if (!header) return Obstacle{kProgramNotStarted, fmt::format("{}: the file is cut off", path)};
  if (header->e_machine != kMachine) return foreign();
  constexpr std::size_t kMostHeaders = 128;
  const std::size_t count = std::min<std::size_t>(header->e_phnum, kMostHeaders);
  const std::string table = read_at(fd, header->e_phoff, count * sizeof(ElfW(Phdr)));
  for (std::size_t i = 0; i < count; ++i) {
    const auto segment = value_at<ElfW(Phdr)>(table, i * sizeof(ElfW(Phdr)));
    if (!segment || segment->p_type != PT_INTERP) continue;
    const std::string loader =
        read_at(fd, segment->p_offset, std::min<std::size_t>(segment->p_filesz, 4096));
    if (loader.find("ld-linux") != std::string::npos) return {};
    return Obstacle{kNotPreloaded,
                    fmt::format("{} uses the loader {}: it is built for another C library than "
                                "weft, so weft's library cannot be loaded into it.",
                                path, loader.c_str())};
  }
  // The loader itself may be asked to start a program, and takes preloads.
  if (path.find("ld-linux") != std::string::npos) return {};
  return Obstacle{kNotPreloaded,
                  fmt::format("{} is statically linked: no library can be preloaded into it, so it "
                              "would not see weft's devices. Link it dynamically.",
                              path)};
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t from = line.find_first_not_of(" \t", at);
    if (from == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t", from), line.size());
    words.emplace_back(line.substr(from, at - from));
  }
  return words;
}

/// "#!/usr/bin/env -S A=1 python3 -u": python3. "#!/bin/sh -e": /bin/sh.
std::optional<std::string> interpreter_of(std::string_view start) {
  const auto words = words_of(start.substr(2, start.find('\n') - 2));
  if (words.empty()) return {};
  if (!words[0].ends_with("/env")) return words[0];
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i][0] != '-' && words[i].find('=') == std::string::npos) return words[i];
  }
  return words[0];
}

std::optional<Obstacle> obstacle_at(const std::string& program, int depth) {
  int error = 0;
  const auto path = found(program, error);
  if (!path) {
    return Obstacle{kProgramNotFound, fmt::format("{}: {}", program,
                                                  program.find('/') == std::string::npos
                                                      ? "there is no such program in PATH"
                                                      : std::strerror(error))};
  }
  struct stat status {};
  if (stat(path->c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return Obstacle{kProgramNotStarted, fmt::format("{} is a directory", *path)};
  }
  if (access(path->c_str(), X_OK) != 0) {
    return Obstacle{kProgramNotStarted, fmt::format("{}: {}", *path, std::strerror(errno))};
  }
  const int fd = open(path->c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};  // May be started but not read: it has to be believed.
  std::optional<Obstacle> obstacle = of_rights(*path, fd, status);
  std::optional<std::string> interpreter;
  if (!obstacle) {
    const std::string start = read_at(fd, 0, kLongestFirstLine);
    if (start.starts_with(ELFMAG)) obstacle = of_elf(*path, fd, start);
    if (start.starts_with("#!")) interpreter = interpreter_of(start);
  }
  close(fd);
  if (obstacle || !interpreter || depth == kDeepestScript) return obstacle;
  obstacle = obstacle_at(*interpreter, depth + 1);
  if (obstacle) obstacle->message = fmt::format("{} is a script: {}", *path, obstacle->message);
  return obstacle;
}

}  // namespace

std::optional<Obstacle> obstacle_to(const std::string& program) { return obstacle_at(program, 0); }

}  // namespace weft::cli
