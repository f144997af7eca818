// What a hostile peer must not be able to do to an end, checked after each of its frames: write
// outside what it was granted, complete more than was posted or complete it twice. For fuzz
// targets: a violation is an assertion. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/queue_end.h"

namespace weft::test {

inline constexpr std::byte kSecret{0xEE};

class Watch {
 public:
  /// Buffers of the end's own lie in [0, own_bytes); the rest of the lower half and the margins
  /// must never change.
  Watch(QueueEnd& end, std::size_t own_bytes) : end_(end), own_bytes_(own_bytes) {
    fill_pattern(end.exposed_memory(), 1);
  }

  void post_receive(std::uint32_t length) {
    if (end_.qp.rq->posted() + 1 >= end_.qp.rq->capacity()) return;
    end_.post_receive(receives_posted++, 0, length);
  }

  void check() {
    const auto memory = end_.memory();
    const std::size_t exposed = end_.exposed_at(), behind = exposed + end_.exposed_bytes();
    WEFT_ASSERT(untouched(memory.subspan(own_bytes_, exposed - own_bytes_)));
    WEFT_ASSERT(untouched(memory.subspan(behind)));
    for (const Completion& done : end_.take_receives()) {
      WEFT_ASSERT(done.wr_id == receives_done && receives_done < receives_posted);
      WEFT_ASSERT(!done.ok() || done.byte_count <= kMaxMessageBytes);
      ++receives_done;
    }
    for (const Completion& done : end_.take_sends()) {
      WEFT_ASSERT(done.wr_id >= sends_done && done.wr_id < sends_posted);
      sends_done = done.wr_id + 1;
      if (done.ok()) last_success = done.wr_id + 1;
    }
  }
  /// Everything that was posted has come back.
  void check_flushed() {
    check();
    WEFT_ASSERT(receives_done == receives_posted && sends_done == sends_posted);
  }
  /// No byte outside the granted range may travel to the peer.
  static bool leaks(std::span<const std::byte> payload) {
    std::size_t run = 0;
    for (const std::byte byte : payload) {
      run = byte == kSecret ? run + 1 : 0;
      if (run == 8) return true;
    }
    return false;
  }

  std::uint64_t receives_posted = 0, receives_done = 0;
  std::uint64_t sends_posted = 0, sends_done = 0;  ///< signaled ones
  std::uint64_t last_success = 0;

 private:
  static bool untouched(std::span<const std::byte> bytes) {
    // All the same and the first one is it: one comparison of memory with itself, shifted.
    return bytes.empty() || (bytes[0] == kSecret &&
                             std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
  }

  QueueEnd& end_;
  const std::size_t own_bytes_;
};

}  // namespace weft::test
