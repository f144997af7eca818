#include "channel/sleepers.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace weft::channel {
namespace {

/// No sleep is longer, whatever the deadline says.
constexpr std::chrono::milliseconds kLongest{1000};

}  // namespace

Sleepers::Sleepers() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
Sleepers::~Sleepers() { close(wake_); }

std::uint64_t Sleepers::ticket() {
  const std::lock_guard guard(mutex_);
  count_.fetch_add(1, std::memory_order_seq_cst);
  return generation_;
}

void Sleepers::sleep(std::uint64_t ticket, int fd, Deadline deadline) {
  deadline = std::min(deadline, std::chrono::steady_clock::now() + kLongest);
  std::unique_lock guard(mutex_);
  while (generation_ == ticket && std::chrono::steady_clock::now() < deadline) {
    if (led_) {
      changed_.wait_until(guard, deadline);
      continue;
    }
    led_ = true;
    guard.unlock();
    const auto left = deadline - std::chrono::steady_clock::now();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd waiting{fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(ms, 0)));
    guard.lock();
    led_ = false;
    std::uint64_t rung = 0;
    if (read(wake_, &rung, sizeof rung) > 0 || ready > 0) ++generation_;
    changed_.notify_all();  // another one leads
  }
  count_.fetch_sub(1, std::memory_order_seq_cst);
}

void Sleepers::wake_slow() {
  const std::lock_guard guard(mutex_);
  ++generation_;
  changed_.notify_all();
  const std::uint64_t one = 1;
  if (led_ && write(wake_, &one, sizeof one) < 0) return;  // full: it is awake anyway
}

}  // namespace weft::channel
