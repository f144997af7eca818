#include "path/raw_path.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>

#include "base/per_thread.h"
#include "queue/queue_pair.h"
#include "transport/raw.h"

namespace weft::path {
namespace {

using queue::Budget;
using queue::QueuePair;

constexpr std::size_t kMessagesTogether = 64;
/// A port that is full is tried again after this.
constexpr Nanoseconds kPortPause_ns = 50'000;

/// Messages on their way to the port, copied; one set per thread.
struct RawBatch {
  std::unique_ptr<std::byte[]> memory;
  std::size_t bytes = 0;
  std::array<port::RawBytes, kMessagesTogether> messages;
  std::array<std::uint32_t, kMessagesTogether> elements;
  std::size_t count = 0;

  /// False: there is no memory for messages of this size.
  bool reserve(std::size_t most) {
    if (bytes >= most * kMessagesTogether) return true;
    bytes = most * kMessagesTogether;
    memory.reset(new (std::nothrow) std::byte[bytes]);
    if (memory == nullptr) bytes = 0;
    return memory != nullptr;
  }
};
using ThisRawBatch = base::PerThread<RawBatch>;

class RawPath final : public queue::Path {
 public:
  explicit RawPath(RawSwitch& through) : switch_(through) {}

  bool fast_post(QueuePair&, const SendRequest&) override { return false; }
  void start_sending(QueuePair& qp) override { transport::start(requester_, qp); }
  void stop(QueuePair& qp) override { transport::stop(requester_, qp); }

  void advance(QueuePair& qp, queue::SendGuard guard, Budget budget) override {
    guard.unlock();
    // Whoever brings the count from 0 to 1 transmits, also for those who come meanwhile.
    if (callers_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
    std::uint32_t seen = 1;
    bool more = true;
    do {
      more = transmit(qp, budget);
      seen = callers_.fetch_sub(seen, std::memory_order_acq_rel) - seen;
      // What is left goes on later, and theirs with it.
    } while (seen != 0 && more);
    if (seen != 0) callers_.store(0, std::memory_order_release);
    if (more) return;
    if (budget.requests == 0) return qp.shared->scheduler->run_soon(qp);
    qp.shared->scheduler->run_at(qp, qp.shared->scheduler->now() + kPortPause_ns);
  }

 private:
  /// False: the port is busy, the budget is used up or there is no memory.
  bool transmit(QueuePair& qp, Budget& budget) {
    RawBatch* const batch = ThisRawBatch::get();
    if (batch == nullptr || !batch->reserve(switch_.max_message(qp.raw_framing))) return false;
    for (;;) {
      if (budget.requests == 0) return false;
      build(qp, *batch, budget);
      if (batch->count == 0) return true;
      const auto outcome = switch_.send(qp, {batch->messages.data(), batch->count});
      qp.count(obs::Counter::kFramesSent, outcome.taken);
      const std::lock_guard guard(qp.send_lock);
      const bool busy = outcome.status != port::SendStatus::kTaken;
      if (busy) transport::on_busy(requester_, qp, batch->elements[outcome.taken]);
      transport::on_sent(requester_, qp);
      if (busy) return false;
    }
  }

  void build(QueuePair& qp, RawBatch& batch, Budget& budget) {
    const std::size_t most = switch_.max_message(qp.raw_framing);
    batch.count = 0;
    std::uint64_t bytes = 0;
    const std::lock_guard guard(qp.send_lock);
    const Nanoseconds now = qp.sq.empty() ? 0 : qp.shared->scheduler->now();
    while (batch.count < kMessagesTogether && budget.requests > 0) {
      const std::span room = std::span(batch.memory.get() + batch.count * most, most);
      const auto message = transport::next_message(requester_, qp, now, room);
      if (!message) break;
      batch.elements[batch.count] = message->element;
      batch.messages[batch.count++] = room.first(message->bytes);
      bytes += message->bytes;
      --budget.requests;
    }
    qp.count(obs::Counter::kBytesSent, bytes);
    if (requester_.delay_until != kNever) {
      qp.shared->scheduler->run_at(qp, requester_.delay_until);
    }
    tell_if_drained(qp);
  }

  /// With the send lock held.
  void tell_if_drained(QueuePair& qp) {
    if (qp.state.load(std::memory_order_relaxed) != QpState::kSendQueueDrained) {
      told_drained_ = false;
    } else if (!told_drained_ && requester_.cursor == qp.sq.head() &&
               requester_.delay_until == kNever) {
      told_drained_ = true;
      qp.shared->events->on_event(qp, queue::QpEvent::kSendQueueDrained);
    }
  }

  RawSwitch& switch_;
  std::atomic<std::uint32_t> callers_{0};
  // Under the send lock:
  bool told_drained_ = false;
  transport::RawRequester requester_;
};

}  // namespace

std::unique_ptr<queue::Path> make_raw_path(RawSwitch& through) {
  return std::unique_ptr<queue::Path>(new (std::nothrow) RawPath(through));
}

}  // namespace weft::path
