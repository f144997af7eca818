// Latency of weft: 8 bytes to and fro, written into memory that the target watches, or sent.
#include "contestants.h"
#include "laps.h"
#include "weft_node.h"

namespace weft::bench {
namespace {

/// Posts the i-th small request of a ping-pong; now and then fetches a completion, which is there
/// by then.
void post_small(const Node& node, verbs::QueuePair& qp, SendRequest& request, std::uint64_t i) {
  request.flags = signalled_each(i);
  must(qp.post_send(request), "post:");
  if (i % kSignalEach == kSignalEach / 2 && i > kSignalEach) take_completion(node.send_cq);
}

}  // namespace

void measure_write_latency(const Lane& lane) {
  const Node node;
  // A page apart: what is written to the other side, and what it writes here.
  const Memory memory(node, Place::kArena, 8192);
  auto qp = node.connect(lane, limits_for(128));
  std::uint64_t& out = memory.words()[0];
  const std::atomic_ref<std::uint64_t> in(memory.words()[512]);

  const Sge from = memory.region().sge(0, kSmallBytes);
  SendRequest request;
  request.op = SendOp::kWrite;
  request.sges = {&from, 1};
  request.remote = lane.swap(memory.region().remote(4096));
  lane.sample("weft/write_latency", kSmallBytes, "us", [&] {
    return ping_pong_us(
        lane.side(),
        [&](std::uint64_t i) {
          out = i;
          post_small(node, qp, request, i);
        },
        [&](std::uint64_t i) {
          while (in.load(std::memory_order_acquire) != i) relax();
        });
  });
  lane.meet();
}

void measure_send_latency(const Lane& lane) {
  constexpr std::uint64_t kReceives = 64, kRepost = 16;
  const Node node;
  const Memory memory(node, Place::kArena, 8192);
  auto qp = node.connect(lane, limits_for(128));
  const auto receive_into = [&](std::uint64_t slot) {
    must(qp.post_receive(memory.region().sge(4096 + 8 * slot, 8), slot), "post a receive:");
  };
  std::uint64_t posted = 0, taken = 0;
  for (; posted < kReceives; ++posted) receive_into(posted);
  lane.meet();

  const Sge from = memory.region().sge(0, kSmallBytes);
  SendRequest request;
  request.sges = {&from, 1};
  lane.sample("weft/send_latency", kSmallBytes, "us", [&] {
    return ping_pong_us(
        lane.side(),
        [&](std::uint64_t i) {
          memory.words()[0] = i;
          post_small(node, qp, request, i);
          // Fresh buffers while the answer is on its way, not while somebody waits for it.
          if (taken + kReceives - posted < kRepost) return;
          for (const std::uint64_t until = posted + kRepost; posted < until; ++posted) {
            receive_into(posted % kReceives);
          }
        },
        [&](std::uint64_t i) {
          const Completion got = take_completion(node.receive_cq);
          ++taken;
          if (memory.words()[512 + got.wr_id] != i) give_up("send:", "a message is wrong");
        });
  });
  lane.meet();
}

}  // namespace weft::bench
