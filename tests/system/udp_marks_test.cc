// Frames that come marked, as by a router that runs full: the peer is told (CNP), sends less at a
// time, and everything arrives all the same (B2.1).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/udp_kit.h"

#include "obs/counters.h"
#include "verbs/controller.h"

namespace {

using weft::test::loopback;

namespace v = weft::verbs;
using weft::obs::Counter;
using namespace std::chrono_literals;

constexpr std::size_t kStreamBytes = 1 << 20;

struct MarkedSide {
  MarkedSide(int last, const char* faults)
      : device(v::Device::open({.path = v::PathPolicy::kFramed,
                                .ports = {{.address = loopback(last), .on_network = true}},
                                .faults = faults})
                   .value()),
        pd(device.allocate_pd().value()),
        cq(device.create_cq(64).value()),
        memory(kStreamBytes),
        region(pd.register_memory(memory, weft::Access::kLocalWrite | weft::Access::kRemoteWrite)
                   .value()),
        qp(pd.create_queue_pair(cq, cq).value()) {}

  std::uint64_t counted(Counter c) const { return device.controller()->counters().get(c); }
  bool connect(const MarkedSide& peer) {
    weft::QueuePairAttributes attributes;
    attributes.access = weft::Access::kRemoteWrite;
    return qp.connect(peer.qp.endpoint(), attributes).has_value();
  }

  v::Device device;
  v::ProtectionDomain pd;
  v::CompletionQueue cq;
  std::vector<std::byte> memory;
  v::MemoryRegion region;
  v::QueuePair qp;
};

/// Writes 20 MiB and compares.
void expect_stream(MarkedSide& from, MarkedSide& to) {
  ASSERT_TRUE(from.connect(to) && to.connect(from));
  for (std::size_t i = 0; i < kStreamBytes; ++i)
    from.memory[i] = static_cast<std::byte>(i * 7 % 251);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(from.qp.post_write(from.region.sge(), to.region.remote()));
    const auto done = from.cq.wait(20s);
    ASSERT_TRUE(done && done->ok());
  }
  EXPECT_EQ(from.memory, to.memory);
}

TEST(UdpMarks, of_all_frames_are_told_to_the_sender_now_and_then) {
  // B2.1
  MarkedSide from(1, ""), to(2, "mark=100%");
  expect_stream(from, to);
  const std::uint64_t told = to.counted(Counter::kCongestionNoticesSent);
  EXPECT_GT(told, 0u);
  EXPECT_LT(told, to.counted(Counter::kFramesReceived) / 4) << "not for each frame";
  // The last ones may come behind the last acknowledgement.
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (from.counted(Counter::kCongestionNotices) < told &&
         std::chrono::steady_clock::now() < deadline) {
    EXPECT_FALSE(from.cq.poll());
  }
  EXPECT_EQ(from.counted(Counter::kCongestionNotices), told);
  EXPECT_EQ(from.counted(Counter::kCongestionNoticesSent), 0u);
}

TEST(UdpMarks, are_none_where_nothing_is_marked) {
  MarkedSide from(3, ""), to(4, "mark=0%");
  expect_stream(from, to);
  EXPECT_EQ(to.counted(Counter::kCongestionNoticesSent), 0u);
  EXPECT_EQ(from.counted(Counter::kCongestionNotices), 0u);
}

}  // namespace
