// Runs: frames that share a system call, on their way out and in.
#include "port/udp_batch.h"

#include "base/big_endian.h"
#include "udp_fixture.h"

namespace weft::port {
namespace {

using network::OutFrame;
using test::Bytes;
using test::Collector;
using test::flow_to;

/// Sends of the given sizes, numbered from 0.
struct Frames {
  Frames(std::span<const std::size_t> sizes, const Gid& to) {
    std::uint32_t psn = 0;
    for (const std::size_t size : sizes) {
      bytes.push_back(test::random_bytes(size, 100 + psn));
      frames.push_back(std::make_unique<OutFrame>());
      const std::span<std::byte> piece(bytes.back());
      test::make_send(*frames.back(), psn++, {&piece, 1});
      outgoing.push_back({frames.back().get(), flow_to(to)});
    }
  }
  std::vector<Bytes> bytes;
  std::vector<std::unique_ptr<OutFrame>> frames;
  std::vector<Outgoing> outgoing;
};

class UdpBatchOfFamily : public testing::TestWithParam<bool> {
 protected:
  UdpBatchOfFamily() {
    if (!GetParam() && !test::ipv6_available()) return;
    port = test::open_port(GetParam());
  }
  bool ready() const { return port != nullptr; }
  Gid local() const { return port->address(); }
  std::unique_ptr<UdpPort> port;
};
INSTANTIATE_TEST_SUITE_P(, UdpBatchOfFamily, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "ipv4" : "ipv6");
});

TEST_P(UdpBatchOfFamily, arrives_whole_and_in_order_whatever_the_sizes) {
  // B2.3
  if (!ready()) GTEST_SKIP() << "no IPv6 here";
  const std::vector<std::vector<std::size_t>> lists = {
      std::vector<std::size_t>(150, 8),     std::vector<std::size_t>(64, 64),
      std::vector<std::size_t>(40, 4096),   {4096, 4096, 4096, 100},
      {8, 8, 0, 8, 16, 8, 8, 300, 300, 20}, {257, 257, 256, 256, 255},
      {1, 2, 3, 4, 5, 6, 7, 5, 5, 5, 5, 5}, std::vector<std::size_t>(33, 1021),
      std::vector<std::size_t>(70, 1024),   {1025, 1025, 1024, 1024, 1023}};
  for (const auto& sizes : lists) {
    const Frames frames(sizes, local());
    ASSERT_EQ(port->send(frames.outgoing).taken, sizes.size());
    Collector collector;
    test::receive(*port, collector, sizes.size());
    ASSERT_EQ(collector.frames.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto packet = wire::parse_packet(collector.frames[i].packet).value();
      EXPECT_EQ(packet.bth.psn.value(), i);
      EXPECT_TRUE(std::ranges::equal(packet.payload, frames.bytes[i])) << i;
    }
  }
}

TEST_P(UdpBatchOfFamily, is_cut_into_datagrams_whose_codes_count_the_place_in_it) {
  // B2.3
  if (!ready()) GTEST_SKIP() << "no IPv6 here";
  if (!GetParam()) GTEST_SKIP() << "IPv6 has one loopback address, and the port has it";
  const test::PlainSocket plain(test::random_ipv4(), 4791);
  ASSERT_TRUE(plain.bound());
  const std::vector<std::size_t> sizes(20, 500);
  const Frames frames(sizes, plain.own().address);
  ASSERT_EQ(port->send(frames.outgoing).taken, sizes.size());
  for (std::uint16_t i = 0; i < sizes.size(); ++i) {
    const auto [from, bytes] = plain.receive();
    Bytes whole = test::with_ip_headers(from, plain.own().address, bytes);
    base::store_be<std::uint16_t>(&whole[4], i);
    EXPECT_TRUE(wire::check_datagram(whole).has_value()) << i;
  }
}

TEST_P(UdpBatchOfFamily, hands_up_the_acknowledgement_behind_requests_first) {
  if (!ready()) GTEST_SKIP() << "no IPv6 here";
  Frames frames(std::vector<std::size_t>{64, 64}, local());
  OutFrame ack;
  ack.headers.bth.opcode = wire::Opcode::kRcAcknowledge;
  ack.headers.bth.psn = Psn(77);
  frames.outgoing.push_back({&ack, flow_to(local())});
  ASSERT_EQ(UdpBatch::length(frames.outgoing), 3u);
  ASSERT_EQ(port->send(frames.outgoing).taken, 3u);
  Collector collector;
  test::receive(*port, collector, 3);
  ASSERT_EQ(collector.frames.size(), 3u);
  EXPECT_EQ(test::psn_of(collector.frames[0]), 77u);
  EXPECT_EQ(test::psn_of(collector.frames[1]), 0u);
  EXPECT_EQ(test::psn_of(collector.frames[2]), 1u);
}

TEST(UdpBatch, ends_before_a_longer_frame_and_behind_a_shorter_one) {
  const Gid to = test::random_ipv4();
  EXPECT_EQ(UdpBatch::length(Frames(std::vector<std::size_t>{8, 8, 8}, to).outgoing), 3u);
  EXPECT_EQ(UdpBatch::length(Frames(std::vector<std::size_t>{8, 8, 12, 8}, to).outgoing), 2u);
  EXPECT_EQ(UdpBatch::length(Frames(std::vector<std::size_t>{8, 8, 4, 8}, to).outgoing), 3u);
  EXPECT_EQ(UdpBatch::length(Frames(std::vector<std::size_t>(100, 8), to).outgoing),
            UdpBatch::kMostFrames);
  EXPECT_EQ(UdpBatch::length(Frames(std::vector<std::size_t>(20, 4096), to).outgoing), 15u)
      << "more is no datagram";
}

TEST(UdpBatch, holds_frames_of_one_way) {
  const auto changed = [](auto change) {
    Frames frames(std::vector<std::size_t>{8, 8}, test::random_ipv4());
    change(frames.outgoing[1].flow);
    return UdpBatch::length(frames.outgoing);
  };
  EXPECT_EQ(changed([](network::Flow&) {}), 2u);
  EXPECT_EQ(changed([](network::Flow& flow) { flow.destination.raw[15] ^= 1; }), 1u);
  EXPECT_EQ(changed([](network::Flow& flow) { flow.source_port ^= 1; }), 1u);
  EXPECT_EQ(changed([](network::Flow& flow) { flow.traffic_class = 8; }), 1u);
  EXPECT_EQ(changed([](network::Flow& flow) { flow.hop_limit = 3; }), 1u);
}

TEST(UdpPort, takes_frames_of_a_sender_that_counts_its_identifications) {
  // B2.3
  const auto port = test::open_port();
  const test::PlainSocket foreign(test::random_ipv4());
  // A connected socket counts: what it sends has other identifications than weft's.
  const SocketAddress to = to_socket_address({port->address(), 4791}, 0);
  ASSERT_EQ(connect(foreign.fd(), &to.generic, to.size), 0);
  const Bytes usual = test::good_datagram(foreign.own(), port->address(), Bytes(100));
  Bytes whole = test::with_ip_headers(foreign.own(), port->address(), usual);
  base::store_be<std::uint16_t>(&whole[4], 30'000);
  Bytes counted(usual);
  const auto split = wire::split_datagram(whole).value();
  wire::compute_icrc(split).store(std::span(counted).last<wire::kIcrcSize>());
  ASSERT_NE(counted, usual);
  Collector collector;
  ASSERT_EQ(send(foreign.fd(), counted.data(), counted.size(), 0),
            static_cast<ssize_t>(counted.size()));
  test::receive(*port, collector, 1);
  EXPECT_EQ(collector.frames.size(), 1u);
}

TEST(UdpPort, counts_every_damaged_frame_of_a_known_sender) {
  // B2.3
  const auto port = test::open_port();
  const test::PlainSocket foreign(test::random_ipv4());
  const Bytes good = test::good_datagram(foreign.own(), port->address(), Bytes(64));
  base::SeededRandom random(5);
  Collector collector;
  foreign.send({port->address(), 4791}, good);
  test::receive(*port, collector, 1);
  constexpr std::size_t kEach = 100, kRounds = 3000;
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kEach; ++i) {
      Bytes bad = good;
      const std::size_t at = random.below(bad.size() - 1);
      bad[at == 4 ? 5 : at] ^= static_cast<std::byte>(1 + random.below(255));
      bad[bad.size() - 1] ^= static_cast<std::byte>(random.below(2));
      foreign.send({port->address(), 4791}, bad);
    }
    test::receive(*port, collector, 1 + (round + 1) * kEach);
  }
  EXPECT_EQ(collector.frames.size(), 1u);
  EXPECT_EQ(collector.bad_checksums, kRounds * kEach);
}

}  // namespace
}  // namespace weft::port
