// Raw datagrams with several threads: at one queue pair, at one switch, and while claims come and
// go (B2.4).
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/raw_packets.h"
#include "support/verbs_kit.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kPackets = 400;
constexpr std::size_t kPacketBytes = 64;

class ThreadsRaw : public testing::Test {
 protected:
  static QueuePair open(const Node& node) {
    QueuePair qp = node.create({.service = Service::kRawDatagram,
                                .limits = {.max_send_wr = 2 * kPackets,
                                           .max_recv_wr = 4 * kPackets,
                                           .max_inline_bytes = kPacketBytes}});
    must(qp.activate());
    return qp;
  }
  static void send(QueuePair& qp, Bytes packet) {
    const Sge sge{reinterpret_cast<std::uint64_t>(packet.data()),
                  static_cast<std::uint32_t>(packet.size()),
                  {}};
    SendRequest request{.flags = SendFlags::kInline | SendFlags::kSignaled};
    request.sges = {&sge, 1};
    const auto deadline = Steady::now() + kPatience;
    while (true) {
      const auto posted = qp.post_send(request);
      if (posted) return;
      if (posted.error().code != Errc::kQueueFull || Steady::now() > deadline) must(posted);
      std::this_thread::yield();
    }
  }

  Node a{must(Device::open())}, b{must(Device::open())};
  const Gid here = gid("fd00:2::1"), there = gid("fd00:2::2");
};

TEST_F(ThreadsRaw, share_a_queue_pair_and_each_packet_arrives_once) {
  QueuePair from = open(a), to = open(b);
  must(to.claim({.destination = there}));
  must(from.claim({.destination = here}));
  Memory inbox(b, 2 * kPackets * kPacketBytes);
  for (std::uint64_t i = 0; i < 2 * kPackets; ++i) {
    must(to.post_receive(inbox.sge(i * kPacketBytes, kPacketBytes), i));
  }
  const Bytes packet = udp_packet(here, there);
  std::vector<std::thread> senders;
  for (int i = 0; i < 2; ++i) {
    senders.emplace_back([&] {
      for (std::uint32_t n = 0; n < kPackets; ++n) send(from, packet);
    });
  }
  std::atomic<std::uint32_t> sent{0}, came{0};
  const auto count = [](const CompletionQueue& cq, std::atomic<std::uint32_t>& sum) {
    const auto deadline = Steady::now() + kPatience;
    while (sum < 2 * kPackets && Steady::now() < deadline) {
      if (const auto completion = cq.poll()) sum += completion->ok() ? 1 : 0;
    }
  };
  std::thread poller([&] { count(b.receives, came); });
  count(a.sends, sent);
  for (std::thread& sender : senders) sender.join();
  poller.join();
  EXPECT_EQ(sent, 2 * kPackets);
  EXPECT_EQ(came, 2 * kPackets);
}

TEST_F(ThreadsRaw, claims_and_queue_pairs_come_and_go_while_packets_arrive) {
  QueuePair from = open(a);
  must(from.claim({.destination = here}));
  std::atomic<bool> over{false};
  std::thread sender([&] {
    const Bytes packet = udp_packet(here, there);
    while (!over) {
      send(from, packet);
      while (a.sends.poll()) continue;
    }
  });
  Memory inbox(b, kPacketBytes);
  std::uint32_t came = 0;
  const auto deadline = Steady::now() + kPatience;
  for (int round = 0; (round < 100 || came == 0) && Steady::now() < deadline; ++round) {
    QueuePair to = open(b);
    must(to.claim({.destination = there}));
    for (std::uint64_t i = 0; i < 8; ++i) must(to.post_receive(inbox.sge(), i));
    for (int i = 0; i < 50; ++i) came += b.receives.poll() ? 1 : 0;
    if (round % 2 == 0) must(to.release({.destination = there}));
  }
  over = true;
  sender.join();
  EXPECT_GT(came, 0U);
}

}  // namespace
}  // namespace weft::test
