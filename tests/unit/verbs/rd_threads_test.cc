// B2.2: several threads that send by queue pairs of one context, while queue pairs end and begin:
// nothing is lost or repeated, and nobody waits for ever.
#include <array>
#include <atomic>
#include <thread>

#include "support/rd_suite.h"

namespace weft::test {
namespace {

class ThreadsRd : public RdSuite {};
INSTANTIATE_TEST_SUITE_P(Over, ThreadsRd, testing::ValuesIn(datagram_ways()), way_name);

TEST_P(ThreadsRd, many_senders_share_contexts_with_queue_pairs_that_come_and_go) {
  constexpr int kRdSenders = 3;
  constexpr std::uint64_t kRdMessages = 150;
  std::atomic<bool> over{false};
  std::atomic<int> failures{0};
  // The receivers' thread sees to their buffers, too.
  std::vector<QueuePair> peers;
  Memory far(b, kRdSenders * 4096);
  for (int t = 0; t < kRdSenders; ++t) {
    peers.push_back(open_rd(b));
    for (std::uint64_t i = 0; i < kRdMessages; ++i) {
      if (i < 100) post_receive(peers.back(), i, {far.sge(static_cast<unsigned>(t) * 4096u, 4096)});
    }
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kRdSenders; ++t) {
    threads.emplace_back([&, t] {
      const Node node(a.device);
      QueuePair qp = open_rd(node);
      Memory near(node, 4096);
      const QueuePair& peer = peers[static_cast<std::size_t>(t)];
      for (std::uint64_t i = 0; i < kRdMessages; ++i) {
        send(qp, peer, i, near.sge(0, static_cast<std::uint32_t>(64 + i * 16)));
        const auto done = node.sends.wait(kPatience);
        if (!done || !is_done(*done, i, CompletionOp::kSend, 64 + i * 16)) ++failures;
      }
    });
  }
  // Queue pairs that end with work under way to the same endnode.
  threads.emplace_back([&] {
    const Node node(a.device);
    Memory near(node, 65536), into(b, 65536);
    while (!over.load()) {
      QueuePair qp = open_rd(node);
      for (std::uint64_t i = 0; i < 4; ++i) {
        post(qp, to(peers[0], {.wr_id = i, .op = SendOp::kWrite, .remote = into.remote()}),
             {near.sge()});
      }
      if (node.sends.poll().has_value()) must(qp.modify(QpState::kError));
    }
  });
  std::uint64_t received = 0;
  const auto deadline = Steady::now() + 2 * kPatience;
  std::array<std::uint64_t, kRdSenders> posted;
  posted.fill(100);
  while (received < kRdSenders * kRdMessages && Steady::now() < deadline) {
    const auto got = b.receives.poll();
    if (!got) continue;
    EXPECT_TRUE(got->ok());
    ++received;
    for (std::size_t t = 0; t < kRdSenders; ++t) {
      if (peers[t].number() != got->qpn || posted[t] == kRdMessages) continue;
      post_receive(peers[t], posted[t]++, {far.sge(t * 4096, 4096)});
    }
  }
  EXPECT_EQ(received, kRdSenders * kRdMessages);
  for (int t = 0; t < kRdSenders; ++t) threads[static_cast<std::size_t>(t)].join();
  over = true;
  threads.back().join();
  EXPECT_EQ(failures.load(), 0);
}

}  // namespace
}  // namespace weft::test
