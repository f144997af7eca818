// Frames one at a time: the connected socket that a flow gets, and the short call that takes them.
#include "port/udp_line.h"

#include <array>
#include <span>

#include "udp_fixture.h"

namespace weft::port {
namespace {

using test::Bytes;
using test::Collector;
using test::flow_to;
using transport::OutFrame;

constexpr std::size_t kManyCalls = 700;

class UdpLineOfFamily : public testing::TestWithParam<bool> {
 protected:
  UdpLineOfFamily() {
    if (!GetParam() && !test::ipv6_available()) return;
    near = test::open_port(GetParam());
    far = GetParam() ? test::open_port() : nullptr;
  }
  /// IPv6 has one loopback address: there the port talks to itself.
  UdpPort& target() { return far != nullptr ? *far : *near; }
  void send_one(std::uint32_t psn, std::size_t bytes = 64) {
    Bytes payload = test::random_bytes(bytes, psn);
    const std::span<std::byte> piece(payload);
    OutFrame frame;
    test::make_send(frame, psn, {&piece, 1});
    const Outgoing out{&frame, flow_to(target().address())};
    ASSERT_EQ(near->send({&out, 1}).taken, 1u);
  }

  std::unique_ptr<UdpPort> near, far;
};
INSTANTIATE_TEST_SUITE_P(, UdpLineOfFamily, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "ipv4" : "ipv6");
});

TEST_P(UdpLineOfFamily, carries_a_flow_that_sends_much_without_losing_a_frame) {
  // B2.3
  if (near == nullptr) GTEST_SKIP() << "no IPv6 here";
  Collector collector;
  for (std::uint32_t i = 0; i < kManyCalls; ++i) {
    send_one(i);
    test::receive(target(), collector, i + 1);
    target().receive(collector, 1);  // a look in vain, as of a program that waits
  }
  EXPECT_EQ(collector.bad_checksums, 0u);
  ASSERT_EQ(collector.frames.size(), kManyCalls);
  for (std::uint32_t i = 0; i < kManyCalls; ++i) EXPECT_EQ(test::psn_of(collector.frames[i]), i);
  const auto first = collector.frames.front().flow.source_port;
  const auto last = collector.frames.back().flow.source_port;
  EXPECT_NE(first, last) << "it never got the line";
  EXPECT_EQ(near->flow_on_wire(flow_to(target().address())).source_port, last);
}

TEST_P(UdpLineOfFamily, carries_runs_too_and_they_are_cut_where_they_were_joined) {
  if (near == nullptr) GTEST_SKIP() << "no IPv6 here";
  Collector collector;
  std::uint32_t psn = 0;
  for (; psn < kManyCalls; ++psn) {
    send_one(psn);
    test::receive(target(), collector, psn + 1);
    target().receive(collector, 1);
  }
  // What comes now is taken by the call that does not tell where to cut.
  for (const std::size_t size : {20u, 64u, 100u, 1024u, 4096u}) {
    constexpr std::size_t kFrames = 9;
    std::array<OutFrame, kFrames> frames;
    std::array<Outgoing, kFrames> out;
    std::vector<Bytes> payloads;
    for (std::size_t i = 0; i < kFrames; ++i) {
      payloads.push_back(test::random_bytes(size, psn + i));
      const std::span<std::byte> piece(payloads.back());
      test::make_send(frames[i], psn + static_cast<std::uint32_t>(i), {&piece, 1});
      out[i] = {&frames[i], flow_to(target().address())};
    }
    ASSERT_EQ(near->send(out).taken, kFrames);
    const std::size_t before = collector.frames.size();
    test::receive(target(), collector, before + kFrames);
    ASSERT_EQ(collector.frames.size(), before + kFrames) << size;
    for (std::size_t i = 0; i < kFrames; ++i) {
      const auto packet = wire::parse_packet(collector.frames[before + i].packet).value();
      EXPECT_EQ(packet.bth.psn.value(), psn + i);
      EXPECT_TRUE(std::ranges::equal(packet.payload, payloads[i]));
    }
    psn += kFrames;
    for (std::uint32_t end = psn + 100; psn < end; ++psn) {
      send_one(psn);
      test::receive(target(), collector, psn + 1);
      target().receive(collector, 1);
    }
  }
  EXPECT_EQ(collector.bad_checksums, 0u);
  EXPECT_EQ(collector.malformed, 0u);
}

TEST(UdpLine, counts_as_the_kernel_does) {
  // B2.3: whoever sees the headers finds the right code, which is what other makes look at.
  const Socket raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP));
  if (raw.fd() < 0) GTEST_SKIP() << "no permission to look at headers";
  const auto near = test::open_port(), far = test::open_port();
  const auto name = to_socket_address({far->address(), 0}, 0);
  ASSERT_EQ(bind(raw.fd(), &name.generic, name.size), 0);
  std::size_t counted = 0;
  for (std::uint32_t i = 0; i < kManyCalls; ++i) {
    std::array<OutFrame, 3> frames;
    std::array<Outgoing, 3> out;
    const std::size_t count = i % 5 == 0 ? 3 : 1;
    for (std::size_t k = 0; k < count; ++k) {
      test::make_send(frames[k], i);
      out[k] = {&frames[k], flow_to(far->address())};
    }
    ASSERT_EQ(near->send(std::span(out).first(count)).taken, count);
    std::array<std::byte, 2048> whole;
    const ssize_t got = recv(raw.fd(), whole.data(), whole.size(), 0);
    ASSERT_GT(got, 28);
    if (count > 1) continue;  // it is still in one piece
    const auto datagram = std::span<const std::byte>(whole).first(static_cast<std::size_t>(got));
    EXPECT_TRUE(wire::check_datagram(datagram).has_value()) << i;
    counted += whole[4] != std::byte{0} || whole[5] != std::byte{0} ? 1 : 0;
  }
  EXPECT_GT(counted, 100u) << "it never got the line";
}

TEST(UdpLine, is_given_up_when_the_peer_goes_and_what_follows_arrives) {
  // B2.5
  const auto near = test::open_port();
  auto far = test::open_port();
  const Gid there = far->address();
  Collector collector;
  const auto send_one = [&](std::uint32_t psn) {
    OutFrame frame;
    test::make_send(frame, psn);
    const Outgoing out{&frame, flow_to(there)};
    EXPECT_EQ(near->send({&out, 1}).taken, 1u);
  };
  for (std::uint32_t i = 0; i < kManyCalls; ++i) {
    send_one(i);
    test::receive(*far, collector, i + 1);
  }
  const auto on_line = collector.frames.back().flow.source_port;
  far = nullptr;
  for (std::uint32_t i = 0; i < 10; ++i) send_one(i);  // refused, which is a loss like any other
  auto again = UdpPort::open(there);
  ASSERT_TRUE(again.has_value());
  Collector later;
  for (std::uint32_t i = 0; i < 50; ++i) send_one(i);
  test::receive(**again, later, 50);
  EXPECT_EQ(later.frames.size(), 50u);
  EXPECT_EQ(later.bad_checksums, 0u);
  EXPECT_NE(later.frames.back().flow.source_port, on_line);
}

}  // namespace
}  // namespace weft::port
