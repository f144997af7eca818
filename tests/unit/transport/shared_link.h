// Streams of writes that share one link of a certain rate, with a queue of a certain size before
// it, in virtual time: what the reliable service makes of it without any real network's noise.
// Frames of one call travel, wait and are dropped together, as those that the kernel cuts late are.
// Owned by the test; one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "support/transport_end.h"

namespace weft::test {

struct LinkKind {
  std::uint64_t bytes_per_second = 125'000'000;
  std::size_t queue_bytes = 512 << 10;
  Nanoseconds delay_ns = 30'000;  ///< of the way there, and of the way back
  std::uint32_t loss_ppm = 0;     ///< of frames, by chance
  std::uint64_t seed = 1;
};

class SharedLink {
 public:
  explicit SharedLink(const LinkKind& kind) : kind_(kind), random_(kind.seed) {}

  /// From `when` on there is one more stream.
  void add_stream(Nanoseconds when) {
    streams_.push_back(std::make_unique<Stream>());
    at(when, [this, stream = streams_.back().get()] { feed(*stream); });
  }

  void run_until(Nanoseconds when) {
    while (!events_.empty() && events_.begin()->first <= when) {
      auto event = events_.extract(events_.begin());
      now_ = event.key();
      event.mapped()();
    }
    now_ = when;
  }

  /// Bytes of messages that are complete.
  std::uint64_t carried(std::size_t stream) const { return streams_[stream]->carried; }
  const RcEnd& sender(std::size_t stream) const { return streams_[stream]->sender; }

 private:
  static constexpr std::uint32_t kMessageBytes = 128 << 10;
  static constexpr std::uint32_t kDepth = 8;
  static constexpr std::size_t kRunFrames = 60;      ///< in 64 KiB
  static constexpr std::size_t kWireBytes = 66;      ///< around a frame
  static constexpr Nanoseconds kWakeful_ns = 3'000;  ///< how long each end takes to look

  static EndSetup setup() {
    EndSetup out;
    out.attributes.path_mtu = Mtu::k1024;
    out.attributes.timeout = 14;
    out.attributes.retry_count = 7;
    out.memory_bytes = 4 * kMessageBytes;
    return out;
  }
  struct Stream {
    RcEnd sender{setup(), Qpn(0x11), Qpn(0x22)}, receiver{setup(), Qpn(0x22), Qpn(0x11)};
    std::uint32_t outstanding = 0;
    std::uint64_t carried = 0;
    Nanoseconds timer = kNever;
  };
  using Run = std::vector<Frame>;

  void at(Nanoseconds when, std::function<void()> what) { events_.emplace(when, std::move(what)); }

  void feed(Stream& stream) {
    stream.sender.advance_to(now_);
    for (const Completion& done : stream.sender.take_sends()) {
      WEFT_ASSERT(done.ok());
      --stream.outstanding;
      stream.carried += kMessageBytes;
    }
    for (; stream.outstanding < kDepth; ++stream.outstanding) {
      const Sge one = stream.sender.sge(0, kMessageBytes);
      SendRequest request;
      request.op = SendOp::kWrite;
      request.flags = SendFlags::kSignaled;
      request.sges = {&one, 1};
      request.remote = stream.receiver.remote();
      WEFT_ASSERT(stream.sender.post_send(request).has_value());
    }
    Run run;
    while (auto frame = stream.sender.next_request()) {
      run.push_back(std::move(*frame));
      if (run.size() == kRunFrames) send(stream, std::exchange(run, {}));
    }
    if (!run.empty()) send(stream, std::move(run));
    arm(stream);
  }

  void arm(Stream& stream) {
    const Nanoseconds due = transport::next_deadline(stream.sender.requester);
    if (due == kNever || stream.timer <= due) return;
    stream.timer = due;
    at(std::max(due, now_ + 1), [this, &stream] {
      stream.timer = kNever;
      feed(stream);
    });
  }

  /// Into the queue before the link.
  void send(Stream& stream, Run run) {
    std::size_t bytes = 0;
    for (const Frame& frame : run) bytes += frame.bytes.size() + kWireBytes;
    if (waiting_ + bytes > kind_.queue_bytes) return;
    waiting_ += bytes;
    free_at_ = std::max(free_at_, now_) + bytes * 1'000'000'000 / kind_.bytes_per_second;
    at(free_at_, [this, bytes] { waiting_ -= bytes; });
    arrives_at_ = std::max(arrives_at_, free_at_ + kind_.delay_ns + random_.below(kWakeful_ns));
    at(arrives_at_, [this, &stream, run = std::move(run)] { arrive(stream, run); });
  }

  void arrive(Stream& stream, const Run& run) {
    stream.receiver.now() = now_;
    for (const Frame& frame : run) {
      if (!random_.chance_ppm(kind_.loss_ppm)) stream.receiver.deliver(frame);
    }
    Run answers = stream.receiver.answers();
    if (answers.empty()) return;
    returns_at_ = std::max(returns_at_, now_ + kind_.delay_ns + random_.below(kWakeful_ns));
    at(returns_at_, [this, &stream, answers = std::move(answers)] {
      stream.sender.now() = now_;
      for (const Frame& frame : answers) {
        if (!random_.chance_ppm(kind_.loss_ppm)) stream.sender.deliver(frame);
      }
      feed(stream);
    });
  }

  const LinkKind kind_;
  base::SeededRandom random_;
  Nanoseconds now_ = 0, free_at_ = 0, arrives_at_ = 0, returns_at_ = 0;
  std::size_t waiting_ = 0;
  std::multimap<Nanoseconds, std::function<void()>> events_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace weft::test
