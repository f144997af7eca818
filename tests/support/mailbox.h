// A page that two processes of a test share, made before the fork: for what has to be told faster
// than by a socket. T consists of atomics.
#pragma once

#include <sys/mman.h>

#include <new>

#include "support/partner.h"

namespace weft::test {

/// The other end of the wire has sent something, or is gone.
inline bool said_something(const Wire& wire) {
  pollfd said{wire.fd(), POLLIN, 0};
  return ::poll(&said, 1, 0) == 1;
}

template <class T>
class Mailbox {
 public:
  Mailbox() {
    void* page =
        mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(page != MAP_FAILED, "a page for the mailbox");
    box_ = new (page) T;
  }
  ~Mailbox() { munmap(box_, sizeof(T)); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  T* operator->() const { return box_; }
  T& operator*() const { return *box_; }

 private:
  T* box_;
};

}  // namespace weft::test
