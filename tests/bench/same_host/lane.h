// Two processes, each pinned to a core of its own, that measure something together. run_pair()
// makes them, waits for them, and ends them by force when one fails or time is up; the process that
// calls it opens no device itself, so that both start clean. A Lane is one process's end of what
// they share; only that process uses it, on one thread.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <functional>
#include <span>

#include "canary.h"

namespace weft::bench {

/// A message of a ring, with the number that tells that it is there.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> number{0};
  std::uint64_t payload = 0;
};
inline constexpr std::uint64_t kRingSlots = 4096;

/// What both map, made before the fork.
struct SharedMemory {
  TwoLines canary;
  TwoLines lines;  ///< for the measurement itself
  Slot ring[kRingSlots];
  Line credit;  ///< how many slots the consumer of the ring has emptied
};

class Lane {
 public:
  Lane(Side side, SharedMemory* shared, int fd) : side_(side), shared_(shared), fd_(fd) {}

  Side side() const { return side_; }
  bool first() const { return side_ == Side::kFirst; }
  SharedMemory& shared() const { return *shared_; }
  double canary_ns() const { return bench::canary_ns(shared_->canary, side_); }

  /// Bytes to and from the other side, asleep meanwhile. A lost partner ends this
  /// process without a word.
  void send(std::span<const std::byte> bytes) const;
  void receive(std::span<std::byte> bytes) const;

  template <class T>
  T swap(const T& mine) const {
    T theirs;
    send(std::as_bytes(std::span(&mine, 1)));
    receive(std::as_writable_bytes(std::span(&theirs, 1)));
    return theirs;
  }
  /// Both are here. The one that comes first sleeps.
  void meet() const { swap('m'); }

  /// Between two canaries: both sides call it with their part, the first side's value counts.
  void sample(const char* name, std::size_t size, const char* unit,
              const std::function<double()>& measure) const;

 private:
  Side side_;
  SharedMemory* shared_;
  int fd_;
};

/// Ends the calling process of a pair, with a reason on stderr; the other is ended by run_pair().
[[noreturn]] void give_up(const char* what, const char* why = "");

/// Gives false when a side failed or took longer than `seconds`.
bool run_pair(double seconds, const std::function<void(const Lane&)>& part);

}  // namespace weft::bench
