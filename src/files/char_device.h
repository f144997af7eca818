// Character devices that do not exist: a program which opens one of these paths gets an fd that it
// can poll, and what it writes there goes to an object of ours. files/ interposes open, write,
// close and their kin and keeps the table from fd to object; ucma/ is the one user. Calls come from
// any thread of the program, also several at once for one file.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace weft::files {

/// One open file. Destroyed at the program's close(), when no write is under way any more.
class CharFile {
 public:
  virtual ~CharFile() = default;
  /// What the program polls: the file's own, close-on-exec, open from the start to the end. The
  /// program gets duplicates of it.
  virtual int fd() const = 0;
  /// The program's write(): bytes taken, or -1 and errno. May wait unless the fd is non-blocking.
  virtual ssize_t write(std::span<const std::byte> bytes) = 0;
};

/// Null: errno tells why.
using OpenCharFile = std::unique_ptr<CharFile> (*)(int flags);

/// From now on the path, which begins with /dev/infiniband/, is a character device with that
/// number. The number of rdma_cm: char_numbers.h.
void emulate(std::string path, dev_t number, OpenCharFile open);

}  // namespace weft::files
