#include "files/path_map.h"

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace weft::files {
namespace {

constinit thread_local unsigned true_paths = 0;

struct Place {
  std::string_view prefix;
  bool whole;  ///< the last name has to end here
};
constexpr Place kPlaces[] = {{"/sys/class/infiniband", false},  // also infiniband_verbs and its kin
                             {"/sys/class/misc/rdma_cm", true},
                             {"/dev/infiniband", true}};
constexpr std::string_view kDevices = kPlaces[2].prefix;

/// What follows the prefix, or null. Extra slashes and "/./" count for nothing, and the first slash
/// may be left out.
const char* behind(std::string_view prefix, const char* path) {
  if (*path != '/') prefix.remove_prefix(1);
  for (const char c : prefix) {
    if (*path++ != c) return nullptr;
    if (c == '/') {
      while (*path == '/' || (path[0] == '.' && path[1] == '/')) ++path;
    }
  }
  return path;
}

}  // namespace

TruePaths::TruePaths() { ++true_paths; }
TruePaths::~TruePaths() { --true_paths; }

std::string_view tree_root() {
  // A copy, since the program may change its environment. Threads that come first together write
  // the same bytes; release and acquire order them before the length.
  static constinit char root[PATH_MAX / 2];
  static constinit std::atomic<std::ptrdiff_t> known{-1};
  static constinit std::atomic_flag writing;
  std::ptrdiff_t length = known.load(std::memory_order_acquire);
  if (length < 0) [[unlikely]] {
    const char* text = std::getenv("WEFT_TREE");
    std::size_t size = text != nullptr && text[0] == '/' ? std::strlen(text) : 0;
    while (size > 0 && text[size - 1] == '/') --size;
    if (size >= sizeof root) size = 0;
    // Whoever comes second meanwhile sees no tree for this one call, before main has begun.
    if (writing.test_and_set(std::memory_order_relaxed)) return {};
    if (size > 0) std::memcpy(root, text, size);
    length = static_cast<std::ptrdiff_t>(size);
    known.store(length, std::memory_order_release);
  }
  return {root, static_cast<std::size_t>(length)};
}

bool ShownPath::is_root_directory(int directory, const char* path) {
  if (std::strncmp(path, "sys/", 4) != 0 && std::strncmp(path, "dev/", 4) != 0) return false;
  const int error = errno;
  struct stat of_directory {
  }, of_root{};
  const bool same = fstat(directory, &of_directory) == 0 && stat("/", &of_root) == 0 &&
                    of_directory.st_dev == of_root.st_dev && of_directory.st_ino == of_root.st_ino;
  errno = error;
  return same;
}

void ShownPath::rewrite() {
  if (true_paths != 0) return;
  const std::string_view root = tree_root();
  if (root.empty()) return;
  for (const Place& place : kPlaces) {
    const char* rest = behind(place.prefix, path_);
    if (rest == nullptr || (place.whole && *rest != '\0' && *rest != '/')) continue;
    const std::size_t rest_size = std::strlen(rest);
    if (root.size() + place.prefix.size() + rest_size >= sizeof buffer_) return;
    char* at = buffer_;
    for (const std::string_view part : {root, place.prefix, std::string_view(rest, rest_size)}) {
      std::memcpy(at, part.data(), part.size());
      at += part.size();
    }
    *at = '\0';
    path_ = buffer_;
    if (place.prefix == kDevices && rest_size > 1) {
      device_ = {buffer_ + root.size(), place.prefix.size() + rest_size};
    }
    return;
  }
}

std::size_t without_root(char* path, std::size_t length) {
  const std::string_view root = tree_root();
  if (root.empty() || length <= root.size() || path[root.size()] != '/' ||
      std::memcmp(path, root.data(), root.size()) != 0) {
    return length;
  }
  std::memmove(path, path + root.size(), length - root.size());
  return length - root.size();
}

}  // namespace weft::files
