// Frames one at a time: the connected socket that a flow gets, and the short call that takes them.
#include "port/connected_sender.h"

#include <netinet/udp.h>

#include <array>
#include <span>

#include "udp_fixture.h"

namespace weft::port {
namespace {

using network::OutFrame;
using test::Bytes;
using test::Collector;
using test::flow_to;

constexpr std::size_t kManyCalls = 700;

class ConnectedSenderOfFamily : public testing::TestWithParam<bool> {
 protected:
  ConnectedSenderOfFamily() {
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
INSTANTIATE_TEST_SUITE_P(, ConnectedSenderOfFamily, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "ipv4" : "ipv6");
});

TEST_P(ConnectedSenderOfFamily, carries_a_flow_that_sends_much_without_losing_a_frame) {
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
  EXPECT_NE(first, last) << "it never got the connected socket";
  EXPECT_EQ(near->flow_on_wire(flow_to(target().address())).source_port, last);
}

TEST_P(ConnectedSenderOfFamily, carries_runs_too_and_they_are_cut_where_they_were_joined) {
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

/// A sender that counts, as others do, and may send two frames that arrive as one.
class CountingSender {
 public:
  explicit CountingSender(const Gid& to) : to_(to) {}

  void skip(std::uint16_t numbers) { next_ = static_cast<std::uint16_t>(next_ + numbers); }
  void send_one() { socket_.send({to_, 4791}, frame()); }
  void send_joined() {
    Bytes both = frame();
    const int each = static_cast<int>(both.size());
    const Bytes second = frame();
    both.insert(both.end(), second.begin(), second.end());
    ASSERT_EQ(setsockopt(socket_.fd(), IPPROTO_UDP, UDP_SEGMENT, &each, sizeof each), 0);
    socket_.send({to_, 4791}, both);
    const int none = 0;
    ASSERT_EQ(setsockopt(socket_.fd(), IPPROTO_UDP, UDP_SEGMENT, &none, sizeof none), 0);
  }

 private:
  Bytes frame() {
    const Bytes payload = test::random_bytes(64, next_);
    return test::good_datagram(socket_.own(), to_, payload, next_++);
  }

  const Gid to_;
  const test::PlainSocket socket_{test::random_ipv4()};
  std::uint16_t next_ = 1000;
};

/// As a program does that waits for one frame at a time, until the port takes the short call.
template <class Send>
void ping(UdpPort& port, Collector& collector, Send send) {
  for (int i = 0; i < 100; ++i) {
    send();
    test::receive(port, collector, collector.all() + 1);
    port.receive(collector, 1);
  }
}

TEST(UdpShortCall, finds_where_to_cut_what_a_sender_that_counts_sent_behind_a_gap) {
  // B2.3
  const auto port = test::open_port();
  CountingSender sender(port->address());
  Collector collector;
  ping(*port, collector, [&] { sender.send_one(); });
  for (int i = 0; i < 3; ++i) {
    sender.skip(50);  // what was lost, or went to others
    sender.send_joined();
    test::receive(*port, collector, collector.all() + 2);
  }
  EXPECT_EQ(collector.bad_checksums, 0u);
}

TEST(UdpShortCall, follows_a_sender_that_counts_beyond_the_last_number) {
  const auto port = test::open_port();
  CountingSender sender(port->address());
  Collector collector;
  ping(*port, collector, [&] { sender.send_one(); });
  for (int i = 0; i < 70'000; ++i) {
    sender.send_one();
    port->receive(collector, 16);
    port->receive(collector, 16);
  }
  test::receive(*port, collector, 70'100);
  EXPECT_EQ(collector.bad_checksums, 0u);
  sender.skip(20);  // and where it has come to is known
  sender.send_one();
  test::receive(*port, collector, 70'101);
  EXPECT_EQ(collector.bad_checksums, 0u);
}

TEST(UdpShortCall, finds_where_to_cut_the_first_of_a_new_sender_that_counts) {
  const auto port = test::open_port(), near = test::open_port();
  Collector collector;
  OutFrame frame;
  test::make_send(frame, 1);
  const Outgoing out{&frame, flow_to(port->address())};
  ping(*port, collector, [&] { near->send({&out, 1}); });
  CountingSender sender(port->address());
  sender.send_joined();
  test::receive(*port, collector, collector.all() + 2);
  EXPECT_EQ(collector.bad_checksums, 0u);
}

TEST(UdpShortCall, is_left_once_it_found_nothing_good) {
  const auto port = test::open_port();
  CountingSender sender(port->address());
  Collector collector;
  ping(*port, collector, [&] { sender.send_one(); });
  sender.skip(1000);  // too many for a guess where to cut
  sender.send_joined();
  test::receive(*port, collector, collector.all() + 1);
  EXPECT_EQ(collector.bad_checksums, 1u) << "as one, and bad";
  sender.skip(1000);
  sender.send_joined();
  test::receive(*port, collector, collector.all() + 2);
  EXPECT_EQ(collector.bad_checksums, 1u);
}

TEST(ConnectedSender, counts_as_the_kernel_does) {
  // B2.3: whoever sees the headers finds the right code, which is what other makes look at.
  const host::Fd raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP));
  if (raw.get() < 0) GTEST_SKIP() << "no permission to look at headers";
  const auto near = test::open_port(), far = test::open_port();
  const auto name = to_socket_address({far->address(), 0}, 0);
  ASSERT_EQ(bind(raw.get(), &name.generic, name.size), 0);
  std::array<std::byte, 2048> whole;
  while (recv(raw.get(), whole.data(), whole.size(), MSG_DONTWAIT) > 0) {
  }  // it heard everything until it was bound
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
    const ssize_t got = recv(raw.get(), whole.data(), whole.size(), 0);
    ASSERT_GT(got, 28);
    if (count > 1) continue;  // it is still in one piece
    const auto datagram = std::span<const std::byte>(whole).first(static_cast<std::size_t>(got));
    EXPECT_TRUE(wire::check_datagram(datagram).has_value()) << i;
    counted += whole[4] != std::byte{0} || whole[5] != std::byte{0} ? 1 : 0;
  }
  EXPECT_GT(counted, 100u) << "it never got the connected socket";
}

TEST(ConnectedSender, is_given_up_when_the_peer_goes_and_what_follows_arrives) {
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

TEST(ConnectedSender, that_was_given_up_takes_twice_as_many_calls) {
  // B2.5
  if (!test::ipv6_available()) GTEST_SKIP() << "no IPv6 here";
  Gid here{};
  here.raw[15] = 1;  // ::1
  ConnectedSender sender(here, 0);
  const network::Flow flow = flow_to(here);
  const auto calls_until_it_is_there = [&] {
    int calls = 0;
    while (!sender.turn(flow)) ++calls;
    return calls;
  };
  EXPECT_EQ(calls_until_it_is_there(), 256);
  EXPECT_TRUE(sender.source_port(flow).has_value());
  sender.turn(flow)->on_failed();
  EXPECT_FALSE(sender.source_port(flow).has_value());
  EXPECT_EQ(calls_until_it_is_there(), 512);
}

TEST(ConnectedSender, of_another_flow_has_another_source_port) {
  // B2.5: whoever listens for what the first flow's socket sends does not hear the second's.
  ConnectedSender sender(test::random_ipv4(), 0);
  const Gid there = test::random_ipv4();
  const auto port_of_line = [&](const network::Flow& flow) {
    for (int calls = 0; calls < 2000 && !sender.turn(flow); ++calls) {
    }
    return sender.source_port(flow);
  };
  const network::Flow first = flow_to(there, 0xC001), second = flow_to(there, 0xC002);
  const auto one = port_of_line(first), other = port_of_line(second);
  ASSERT_TRUE(one && other);
  EXPECT_TRUE(is_connected_port(*one) && is_connected_port(*other));
  EXPECT_NE(*one, *other);
  EXPECT_FALSE(sender.source_port(first).has_value());
}

}  // namespace
}  // namespace weft::port
