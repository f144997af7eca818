// Two reliable ends with random work, joined by a network that loses, doubles and reorders frames,
// all drawn from one seed. The model beside them knows what must come out: each operation exactly
// once, in order, with the right bytes. One thread.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "base/random.h"
#include "support/transport_end.h"

namespace weft::test {

struct Weather {
  std::uint32_t loss_ppm, copy_ppm;
  std::size_t reach;  ///< how far a frame may overtake others
};

/// One end and the record of what its requests must do.
class RandomPeer {
 public:
  static constexpr std::uint32_t kSlotBytes = 2048, kSlots = 16;
  // The exposed memory: words to count with, a part that is only read, slots that are written.
  static constexpr std::size_t kWords = 0, kStatic = 64, kStaticBytes = 8192, kWritten = 16384;

  RandomPeer(base::SeededRandom& random, const EndSetup& setup, Qpn qpn, Qpn peer)
      : random_(random), end(setup, qpn, peer) {
    fill_pattern(end.exposed_memory().subspan(kStatic, kStaticBytes), 77);
    std::memset(end.exposed_memory().data(), 0, kStatic);
    shadow.assign(kSlots * kSlotBytes, std::byte{0xEE});
  }

  /// Posts something, and notes what `other` and we shall see of it.
  void post_random(RandomPeer& other) {
    if (end.qp.sq.tail() - end.qp.sq.head() >= kSlots) return;
    const std::uint64_t id = posted_++;
    const std::size_t slot = id % kSlots;
    const std::size_t at = slot * kSlotBytes;
    const auto length = static_cast<std::uint32_t>(random_.below(4) == 0 ? random_.below(kSlotBytes)
                                                                         : random_.below(300));
    SendRequest request{.wr_id = id};
    if (random_.below(5) == 0) request.flags = request.flags | SendFlags::kFence;
    Sge one = end.sge(at, length);
    const auto data = end.memory().subspan(at, length);
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        request.op = random_.below(2) == 0 ? SendOp::kSend : SendOp::kSendImmediate;
        request.immediate = static_cast<std::uint32_t>(id);
        fill_pattern(data, static_cast<std::uint32_t>(id));
        other.arriving.push_back(
            {length, request.op == SendOp::kSendImmediate, false, static_cast<std::uint32_t>(id)});
        if (length <= 128 && random_.below(2) == 0) {
          request.flags = request.flags | SendFlags::kInline;
        }
        break;
      case 3:
      case 4: {
        request.op = random_.below(2) == 0 ? SendOp::kWrite : SendOp::kWriteImmediate;
        request.immediate = static_cast<std::uint32_t>(id);
        fill_pattern(data, static_cast<std::uint32_t>(id));
        const std::size_t to = random_.below(kSlots * kSlotBytes - length + 1);
        request.remote = other.end.remote(kWritten + to);
        if (length > 0) std::memcpy(other.shadow.data() + to, data.data(), length);
        if (request.op == SendOp::kWriteImmediate) {
          other.arriving.push_back({length, true, true, static_cast<std::uint32_t>(id)});
        }
        break;
      }
      case 5:
        request.op = SendOp::kRead;
        request.remote = other.end.remote(kStatic + random_.below(kStaticBytes - length + 1));
        break;
      case 6:
        request.op = SendOp::kFetchAdd;
        request.operand = 1 + random_.below(100);
        request.remote = other.end.remote(kWords + 8);
        one.length = 8;
        results_[id % kSlots] = other.sum;
        other.sum += request.operand;
        break;
      default:
        request.op = random_.below(2) == 0 ? SendOp::kCompareSwap : SendOp::kDelay;
        request.remote = other.end.remote(kWords + 16);
        results_[id % kSlots] = other.swapped;
        request.compare = other.swapped;
        request.operand = id + 1;
        request.delay_ns = 100 + random_.below(1000);
        if (request.op == SendOp::kCompareSwap) {
          other.swapped = id + 1;
          one.length = 8;
        }
        break;
    }
    if (request.op != SendOp::kDelay) request.sges = {&one, 1};
    remembered_[id % kSlots] = {request.op, length, request.remote.address};
    ASSERT_TRUE(end.post_send(request));
  }

  void post_receive() {
    if (received_ + 8 <= receives_) return;
    end.post_receive(receives_, receive_at(receives_), kSlotBytes);
    ++receives_;
  }

  /// Looks at every completion since the last call.
  void check(RandomPeer& other) {
    for (const Completion& done : end.take_sends()) {
      ASSERT_TRUE(done.ok()) << to_string(done.status);
      ASSERT_EQ(done.wr_id, completed_) << "out of order, or twice";
      check_send(done, other);
      ++completed_;
    }
    for (const Completion& done : end.take_receives()) {
      ASSERT_TRUE(done.ok()) << to_string(done.status);
      ASSERT_EQ(done.wr_id, received_);
      ASSERT_LT(received_, arriving.size()) << "a message that nobody sent";
      const Arrival& expected = arriving[received_];
      ASSERT_EQ(done.byte_count, expected.length);
      ASSERT_EQ(done.has_immediate, expected.immediate);
      if (expected.immediate) {
        ASSERT_EQ(done.immediate, expected.id);
      }
      if (!expected.written) {
        std::vector<std::byte> bytes(expected.length);
        fill_pattern(bytes, expected.id);
        ASSERT_EQ(end.copy_of(receive_at(received_), expected.length), bytes);
      }
      ++received_;
    }
  }
  void check_end() {
    EXPECT_EQ(completed_, posted_);
    EXPECT_EQ(received_, arriving.size());
    std::uint64_t words[3];
    std::memcpy(words, end.exposed_memory().data(), sizeof words);
    EXPECT_EQ(words[1], sum) << "additions lost or done twice";
    EXPECT_EQ(words[2], swapped);
    const auto written = end.exposed_memory().subspan(kWritten, shadow.size());
    EXPECT_TRUE(std::equal(written.begin(), written.end(), shadow.begin()));
  }
  std::uint64_t posted() const { return posted_; }
  bool settled() const { return completed_ == posted_ && received_ == arriving.size(); }

 private:
  struct Arrival {
    std::uint32_t length;
    bool immediate, written;
    std::uint32_t id;
  };
  struct Remembered {
    SendOp op;
    std::uint32_t length;
    std::uint64_t address;
  };

  static std::size_t receive_at(std::uint64_t i) {
    return kSlots * kSlotBytes + (i % 8) * kSlotBytes;
  }
  void check_send(const Completion& done, RandomPeer& other) {
    const Remembered& was = remembered_[done.wr_id % kSlots];
    const std::size_t at = done.wr_id % kSlots * kSlotBytes;
    if (was.op == SendOp::kRead) {
      const std::size_t from = was.address - other.end.address();
      ASSERT_EQ(end.copy_of(at, was.length), other.end.copy_of(from, was.length));
    } else if (was.op == SendOp::kFetchAdd || was.op == SendOp::kCompareSwap) {
      std::uint64_t result;
      std::memcpy(&result, end.memory().data() + at, 8);
      ASSERT_EQ(result, results_[done.wr_id % kSlots]) << to_string(was.op);
    }
  }

  base::SeededRandom& random_;
  std::uint64_t posted_ = 0, completed_ = 0, receives_ = 0, received_ = 0;
  std::array<std::uint64_t, kSlots> results_{};
  std::array<Remembered, kSlots> remembered_{};

 public:
  RcEnd end;
  std::vector<Arrival> arriving;  ///< what takes receive buffers here, in order
  std::vector<std::byte> shadow;  ///< of the written part
  std::uint64_t sum = 0, swapped = 0;
};

/// One direction of the network.
class RandomWire {
 public:
  RandomWire(base::SeededRandom& random, const Weather& weather)
      : random_(random), weather_(weather) {}

  void put(Frame frame) {
    // Never more than a few in a row: retries are counted, and bad luck must not run them out.
    if (lost_in_a_row_ < 4 && random_.chance_ppm(weather_.loss_ppm)) {
      ++lost_in_a_row_;
      return;
    }
    lost_in_a_row_ = 0;
    if (random_.chance_ppm(weather_.copy_ppm)) frames_.push_back(frame);
    frames_.push_back(std::move(frame));
  }
  bool empty() const { return frames_.empty(); }
  Frame take() {
    const std::size_t i = random_.below(std::min(frames_.size(), weather_.reach));
    Frame frame = std::move(frames_[i]);
    frames_.erase(frames_.begin() + static_cast<std::ptrdiff_t>(i));
    return frame;
  }

 private:
  base::SeededRandom& random_;
  const Weather weather_;
  int lost_in_a_row_ = 0;
  std::deque<Frame> frames_;
};

}  // namespace weft::test
