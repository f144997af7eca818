// Which paths programs are shown instead of the true ones: those where RDMA devices are looked for
// lie in the tree (tree.h) that WEFT_TREE names. Every path that a program opens comes by here, so
// a path that is not concerned costs a few compares. Any thread, also before main and after fork;
// allocates nothing, keeps errno.
#pragma once

#include <climits>
#include <cstddef>
#include <string_view>

namespace weft::files {

/// While one lives, this thread sees the true paths: for asking the real libibverbs about the
/// machine's own devices. May be nested.
class TruePaths {
 public:
  TruePaths();
  TruePaths(const TruePaths&) = delete;
  TruePaths& operator=(const TruePaths&) = delete;
  ~TruePaths();
};

/// The root of the tree, empty when there is none. Read from the environment at the first call.
std::string_view tree_root();

/// For the length of one call: the path to give to the C library.
class ShownPath {
 public:
  explicit ShownPath(const char* path) : path_(path) {
    if (may_concern(path)) [[unlikely]]
      rewrite();
  }
  /// A path that is relative to an open directory: only the root directory concerns us, since what
  /// is open in the tree leads to the tree by itself.
  ShownPath(int directory, const char* path) : path_(path) {
    if (may_concern(path) || may_concern_in(directory, path)) [[unlikely]]
      rewrite();
  }
  ShownPath(const ShownPath&) = delete;
  ShownPath& operator=(const ShownPath&) = delete;

  const char* get() const { return path_; }
  /// The path that the program meant, without detours, if it lies in /dev/infiniband; else empty.
  std::string_view device() const { return device_; }

 private:
  static bool may_concern(const char* path) {
    return path != nullptr && path[0] == '/' &&
           (path[1] == 's' || path[1] == 'd' || path[1] == '/' || path[1] == '.');
  }
  static bool may_concern_in(int directory, const char* path) {
    return directory >= 0 && path != nullptr && (path[0] == 's' || path[0] == 'd') &&
           (path[1] == 'y' || path[1] == 'e') && is_root_directory(directory, path);
  }
  static bool is_root_directory(int directory, const char* path);
  void rewrite();

  const char* path_;
  std::string_view device_{};
  char buffer_[PATH_MAX];
};

/// Takes the root away from a path that the C library gave, in place: what was "<root>/sys/class/x"
/// is "/sys/class/x" again. The text's new length; it is not terminated.
std::size_t without_root(char* path, std::size_t length);

}  // namespace weft::files
