// What a child after fork must not inherit. The child owns nothing of its parent's connections: its
// copies of shared mappings become private zeros at the same addresses, so that handles which it
// inherited harm nobody, and its copies of the sockets are closed, so that the parent's peers see
// when the parent dies. Whoever maps, opens or starts something registers it here. Any thread.
#pragma once

#include <atomic>
#include <cstddef>

namespace weft::host {

void forget_mapping_in_child(void* data, std::size_t size);
void mapping_is_gone(void* data);
/// Marks it as weft's (fd_mark.h). Returns the number to use from now on: another one when weft
/// believes to have the given one already. The program must have closed that, and the handle that
/// still names it is not to be confused. -1: it cannot be marked, and has been closed.
int close_in_child(int fd);
void fd_is_gone(int fd);
/// Called in the child after the mappings and fds were dealt with, in order of registration. The
/// child has one thread then, and nobody is inside a ForkHold.
void call_in_child(void (*function)());
namespace detail {
extern constinit std::atomic<unsigned> generation;
}
/// Counts forks: a child has a larger number than its parent had when it was made.
inline unsigned fork_generation() { return detail::generation.load(std::memory_order_relaxed); }

/// While one lives, a fork by another thread waits: for the moment between opening a thing and
/// registering it, and for data that a child must not find half changed. Short, never around a wait
/// for anybody else; may be nested.
class ForkHold {
 public:
  ForkHold();
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;
  ~ForkHold();
};

}  // namespace weft::host
