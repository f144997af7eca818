// A directory that is the user's alone, lives in memory if the machine has a place for that, and
// goes with its owner. What a killed owner left is removed by the next one that ends: whoever lives
// holds a lock on its directory, which no kill leaves behind. The process has one thread.
#pragma once

#include <string>
#include <utility>

#include "weft/result.h"

namespace weft::cli {

/// Where a user's short-lived files go: XDG_RUNTIME_DIR, /dev/shm, TMPDIR or /tmp.
std::string runtime_folder();

class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make();
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }

 private:
  TemporaryFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::string path_;
  int lock_;
};

}  // namespace weft::cli
