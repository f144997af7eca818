#include "host/event_signal.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "host/fork.h"
#include "host/system_error.h"

namespace weft::host {
namespace {

/// Counted while it lives, also by a thread that is cancelled meanwhile.
class Counted {
 public:
  explicit Counted(std::atomic<std::uint32_t>& count) : count_(count) {
    count_.fetch_add(1, std::memory_order_seq_cst);
  }
  ~Counted() { count_.fetch_sub(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<std::uint32_t>& count_;
};

}  // namespace

// A futex, because poll() is never restarted after a signal. Not instrumented: a thread that is
// cancelled leaves this frame without its end, and what the sanitizer had marked would stay.
[[gnu::no_sanitize("address")]] int sleep_on(const std::atomic<std::uint32_t>& word,
                                             std::uint32_t value) {
  static_assert(sizeof word == sizeof(std::uint32_t));
  int before = 0;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
  const long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
  const int error = result == 0 ? 0 : errno;
  pthread_setcanceltype(before, nullptr);
  return error;
}

void wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool take_count(int fd) {
  std::uint64_t count = 0;
  const iovec into{&count, sizeof count};
  const ssize_t got = preadv2(fd, &into, 1, -1, RWF_NOWAIT);
  if (got >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)) return got > 0;
  // A kernel before 5.8 has no such read of an eventfd. All who take the count do it here, under
  // their queue's lock; only a program that reads the descriptor itself could come between.
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1 && eventfd_read(fd, &count) == 0;
}

EventSignal::~EventSignal() {
  if (fd_ >= 0) close(fd_);
}

int EventSignal::fd() const { return generation_ == fork_generation() ? fd_ : -1; }

Result<int> EventSignal::open(bool raised) {
  const ForkHold hold;
  fd_ = eventfd(raised ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd_ < 0) return system_error("eventfd", errno);
  generation_ = fork_generation();
  return fd_;
}

// A count for each event, though one would do: who waits by epoll for edges gets one for each.
void EventSignal::raise() {
  if (const int fd = this->fd(); fd >= 0) eventfd_write(fd, 1);
  sequence_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) wake_all(sequence_);
}

void EventSignal::clear() {
  if (const int fd = this->fd(); fd >= 0) take_count(fd);
}

int EventSignal::wait(std::uint32_t seen) const {
  const int flags = fcntl(fd(), F_GETFL);
  if (flags < 0) return errno;
  if ((flags & O_NONBLOCK) != 0) return EAGAIN;
  const Counted sleeper(sleepers_);
  return sleep_on(sequence_, seen) == EINTR ? EINTR : 0;
}

}  // namespace weft::host
