// The connected receiving socket that a UDP port has for the peer that sends most.
#include "port/connected_receiver.h"

#include "support/kernel_filters.h"
#include "udp_fixture.h"

namespace weft::port {
namespace {

using network::OutFrame;
using test::Bytes;
using test::Collector;
using test::flow_to;

constexpr std::uint32_t kMany = 700;

class ConnectedReceiverTest : public testing::Test {
 protected:
  static std::unique_ptr<UdpPort> open_shared(const Gid& address) {
    auto port = UdpPort::open(address, Sharing::kShared);
    if (!port) ADD_FAILURE() << port.error().message;
    return port ? std::move(*port) : nullptr;
  }
  static int connected_fd(const UdpPort& port) {
    const auto fds = test::wait_fds(port);
    return fds.size() == 3 ? fds[2] : -1;
  }
  static Qpn number_of(const UdpPort& port) {
    return Qpn(*port.number_slot() << host::kBlockBits | 0x42 |
               host::kNumberSlots << host::kBlockBits);
  }
  /// To the queue pair of that number, at the address of `to`.
  static void send_one(UdpPort& from, const UdpPort& to, std::uint32_t psn, Qpn number) {
    Bytes payload = test::random_bytes(64, psn);
    const std::span<std::byte> piece(payload);
    OutFrame frame;
    test::make_send(frame, psn, {&piece, 1});
    frame.headers.bth.dest_qp = number;
    const Outgoing out{&frame, flow_to(to.address())};
    ASSERT_EQ(from.send({&out, 1}).taken, 1u);
  }
  static void poll_until(UdpPort& port, Collector& collector, std::size_t count) {
    const auto deadline = test::steady_clock::now() + test::kPatience;
    while (collector.all() < count && test::steady_clock::now() < deadline) {
      port.receive(collector, 16);
    }
    ASSERT_EQ(collector.all(), count);
  }
  /// One after another, as a program does that waits for each.
  static void send_many(UdpPort& from, UdpPort& to, Collector& collector) {
    for (std::uint32_t i = 0; i < kMany; ++i) {
      send_one(from, to, i, number_of(to));
      poll_until(to, collector, collector.all() + 1);
      to.receive(collector, 1);
    }
  }
  /// What comes from there comes to the connected socket, not to the port's own socket.
  static void expect_connected(UdpPort& from, UdpPort& to, Collector& collector) {
    send_one(from, to, 99, number_of(to));
    EXPECT_TRUE(test::readable(connected_fd(to), 20'000));
    EXPECT_FALSE(test::readable(test::wait_fds(to)[0], 0));
    poll_until(to, collector, collector.all() + 1);
  }

  /// `near` gets the connected socket of `far`.
  void connect_receiver() { send_many(*near, *far, collector); }

  const Gid here = test::random_ipv4();
  const std::unique_ptr<UdpPort> near = open_shared(test::random_ipv4()), far = open_shared(here);
  Collector collector;
};

TEST_F(ConnectedReceiverTest, is_for_who_sends_much_and_nothing_is_lost_or_overtaken) {
  // B2.3
  connect_receiver();
  ASSERT_EQ(collector.frames.size(), kMany);
  for (std::uint32_t i = 0; i < kMany; ++i) EXPECT_EQ(test::psn_of(collector.frames[i]), i);
  expect_connected(*near, *far, collector);
  EXPECT_EQ(collector.bad_checksums, 0u);
  EXPECT_EQ(collector.malformed, 0u);
}

TEST_F(ConnectedReceiverTest, does_not_keep_others_from_the_port) {
  const auto third = open_shared(test::random_ipv4());
  connect_receiver();
  for (std::uint32_t i = 0; i < 100; ++i) {  // in turns, and each is seen soon
    send_one(*near, *far, i, number_of(*far));
    send_one(*third, *far, 1000 + i, number_of(*far));
    const std::size_t before = collector.frames.size();
    for (int looks = 0; looks < 20; ++looks) far->receive(collector, 16);
    EXPECT_EQ(collector.frames.size(), before + 2);
  }
}

TEST_F(ConnectedReceiverTest, moves_to_another_that_sends_much_when_the_first_is_silent) {
  const auto third = open_shared(test::random_ipv4());
  connect_receiver();
  expect_connected(*near, *far, collector);
  send_many(*third, *far, collector);
  expect_connected(*third, *far, collector);
  send_one(*near, *far, 5, number_of(*far));
  EXPECT_TRUE(test::readable(test::wait_fds(*far)[0], 20'000));
  EXPECT_EQ(collector.bad_checksums, 0u);
}

TEST_F(ConnectedReceiverTest, leaves_another_process_of_the_address_alone) {
  // B2.5: the one that has the connected socket is stopped; the other does not notice.
  WEFT_NEEDS_KERNEL_FILTERS();
  const auto third = open_shared(test::random_ipv4());
  connect_receiver();
  const auto later = open_shared(here), last = open_shared(here);
  ASSERT_NE(later->number_slot(), far->number_slot());
  Collector later_got, last_got;
  for (std::uint32_t i = 0; i < 100; ++i) {
    send_one(*third, *later, i, number_of(*later));
    poll_until(*later, later_got, i + 1);
    send_one(*third, *last, i, number_of(*last));
    poll_until(*last, last_got, i + 1);
  }
  EXPECT_EQ(later_got.frames.size(), 100u);
  EXPECT_EQ(last_got.frames.size(), 100u);
}

TEST_F(ConnectedReceiverTest, hands_over_what_its_peer_sends_to_another_process) {
  connect_receiver();
  const auto other = open_shared(here);
  Collector other_got;
  // From the source port that has the connected socket.
  send_one(*near, *other, 7, number_of(*other));
  ASSERT_TRUE(test::readable(connected_fd(*far), 20'000));
  const auto deadline = test::steady_clock::now() + test::kPatience;
  while (other_got.frames.empty() && test::steady_clock::now() < deadline) {
    far->receive(collector, 16);
    other->receive(other_got, 16);
  }
  ASSERT_EQ(other_got.frames.size(), 1u);
  EXPECT_EQ(test::psn_of(other_got.frames[0]), 7u);
}

TEST_F(ConnectedReceiverTest, is_not_there_where_the_address_is_not_shared) {
  const auto alone = UdpPort::open(test::random_ipv4());
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(connected_fd(**alone), -1);
}

}  // namespace
}  // namespace weft::port
