// A file descriptor that is closed with its owner, and in a child after fork: there the handle is
// empty, so that it never closes or uses what the child opened under the same number. The same if
// the program closed the descriptor behind our back and uses its number (see fd_mark.h). One thread
// at a time for each object.
#pragma once

#include <utility>

#include "host/fd_mark.h"
#include "host/fork.h"

namespace weft::host {

class Fd {
 public:
  Fd() = default;
  /// Takes over `fd`; less than 0 is none. Inside the ForkHold in which it was opened.
  explicit Fd(int fd);
  Fd(Fd&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), generation_(std::exchange(other.generation_, 0)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  int get() const { return generation_ == fork_generation() ? fd_ : -1; }
  /// The same after a look whether the number still means our file: a system call. Whatever is not
  /// on the way of data asks this.
  int checked() const {
    const int fd = get();
    return fd >= 0 && is_ours(fd) ? fd : -1;
  }
  explicit operator bool() const { return get() >= 0; }
  /// From now on the caller's, also in children.
  int release();
  void reset();

 private:
  int fd_ = -1;
  unsigned generation_ = 0;
};

}  // namespace weft::host
