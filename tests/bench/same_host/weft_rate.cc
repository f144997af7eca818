// Rate of weft: 8-byte sends on one queue pair, posted in batches of which the last request gives a
// completion; the receiver posts fresh buffers in batches.
#include <array>
#include <vector>

#include "contestants.h"
#include "laps.h"
#include "weft_node.h"

namespace weft::bench {
namespace {

constexpr std::size_t kBatch = 32;
constexpr std::size_t kBatchesInFlight = 8;  // far fewer than there are buffers at the receiver
constexpr std::size_t kLapBatches = 64;
constexpr std::uint32_t kDepth = 1024;
constexpr std::uint64_t kStop = ~std::uint64_t{0};

/// Posts batches of numbered messages, and counts which of them are done.
class Sender {
 public:
  Sender(const Node& node, verbs::QueuePair& qp, const Memory& memory)
      : node_(node), qp_(qp), words_(memory.words()) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      from_[i] = memory.region().sge(8 * i, kSmallBytes);
      requests_[i].sges = {&from_[i], 1};
      requests_[i].flags = SendFlags::kInline;
    }
    requests_.back().flags = SendFlags::kInline | SendFlags::kSignaled;
  }

  void post_batch(bool last) {
    for (std::size_t i = 0; i < kBatch; ++i) words_[i] = ++number_;
    if (last) words_[kBatch - 1] = kStop;
    std::size_t posted = 0;
    must(qp_.post_send(requests_, &posted), "post a batch:");
    ++in_flight_;
  }
  void wait_until_in_flight(std::size_t batches) {
    while (in_flight_ > batches) {
      std::array<Completion, kBatchesInFlight> done;
      const std::size_t n = node_.send_cq.poll(done);
      for (std::size_t i = 0; i < n; ++i) expect_good(done[i]);
      in_flight_ -= n;
    }
  }

 private:
  const Node& node_;
  verbs::QueuePair& qp_;
  std::uint64_t* words_;
  std::array<Sge, kBatch> from_;
  std::array<SendRequest, kBatch> requests_;
  std::uint64_t number_ = 0;
  std::size_t in_flight_ = 0;
};

/// Millions of messages a second.
double send_for_a_while(Sender& sender) {
  Laps laps;
  for (bool last = false; !last;) {
    for (std::size_t i = 0; i < kLapBatches; ++i) {
      sender.wait_until_in_flight(kBatchesInFlight - 1);
      sender.post_batch(last = laps.sample_complete());
      if (last) break;
    }
    if (!last) laps.lap();
  }
  sender.wait_until_in_flight(0);
  return static_cast<double>(kLapBatches * kBatch) / laps.median_seconds() / 1e6;
}

/// Checks the number in each message, until the one that says stop.
class Receiver {
 public:
  Receiver(const Node& node, verbs::QueuePair& qp, const Memory& memory)
      : node_(node), qp_(qp), words_(memory.words()), into_(kDepth), requests_(kDepth) {
    for (std::size_t i = 0; i < kDepth; ++i) {
      into_[i] = memory.region().sge(8 * i, kSmallBytes);
      requests_[i] = {.wr_id = i, .sges = {&into_[i], 1}};
    }
    post(0, kDepth);
  }

  void receive_all() {
    std::array<Completion, kBatch> got;
    std::size_t used = 0, first_used = 0;
    for (std::uint64_t expected = 1;;) {
      const std::size_t n = node_.receive_cq.poll(got);
      for (std::size_t i = 0; i < n; ++i, ++expected) {
        expect_good(got[i]);
        const std::uint64_t number = words_[got[i].wr_id];
        if (number == kStop) return;
        if (number != expected) give_up("send:", "a message is wrong");
      }
      used += n;
      for (; used >= kBatch; used -= kBatch) {
        post(first_used, kBatch);
        first_used = (first_used + kBatch) % kDepth;
      }
    }
  }

 private:
  void post(std::size_t first, std::size_t count) {
    std::size_t posted = 0;
    must(qp_.post_receive(std::span(requests_).subspan(first, count), &posted), "post receives:");
  }

  const Node& node_;
  verbs::QueuePair& qp_;
  const std::uint64_t* words_;
  std::vector<Sge> into_;
  std::vector<ReceiveRequest> requests_;
};

}  // namespace

void measure_send_rate(const Lane& lane) {
  const Node node;
  const Memory memory(node, Place::kArena, 8 * kDepth);
  auto qp = node.connect(lane, limits_for(kDepth));
  std::optional<Sender> sender;
  std::optional<Receiver> receiver;
  lane.first() ? void(sender.emplace(node, qp, memory)) : void(receiver.emplace(node, qp, memory));
  lane.meet();
  lane.sample("weft/send_rate", kSmallBytes, "M/s", [&] {
    if (sender) return send_for_a_while(*sender);
    receiver->receive_all();
    return 0.0;
  });
  lane.meet();
}

}  // namespace weft::bench
