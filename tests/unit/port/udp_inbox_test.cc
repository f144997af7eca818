// What the receiving end of a UDP port makes of the bytes of a datagram.
#include "port/udp_inbox.h"

#include <algorithm>
#include <cstring>
#include <tl/expected.hpp>

#include "udp_fixture.h"

namespace weft::port {
namespace {

using test::Bytes;

/// A frame of a datagram, or why it is none.
tl::expected<Incoming, Drop> take(UdpInbox& inbox, Arrival arrival, const Bytes& bytes) {
  std::ranges::copy(bytes, inbox.buffer().begin());
  arrival.bytes = bytes.size();
  inbox.take(arrival);
  if (const Incoming* frame = inbox.next()) return *frame;
  return tl::unexpected(inbox.dropped());
}

class DatagramOfFamily : public testing::TestWithParam<bool> {
 protected:
  Gid address(const char* v4, const char* v6) const {
    return network::parse_address(GetParam() ? v4 : v6).value();
  }
  static Arrival from(const Endpoint& sender) {
    Arrival arrival;
    arrival.from = to_socket_address(sender, 0);
    return arrival;
  }
  /// At a port that has not heard of the sender.
  Drop refusal(const Arrival& arrival, const Bytes& bytes, const Gid& to) const {
    UdpInbox inbox(to);
    const auto frame = take(inbox, arrival, bytes);
    EXPECT_FALSE(frame.has_value());
    return frame ? Drop::kProbe : frame.error();
  }

  const Gid local = address("10.0.0.2", "fd00::2");
  const Endpoint peer{address("10.0.0.1", "fd00::1"), 0xD00D};
  const Bytes good = test::good_datagram(peer, local, test::random_bytes(21, 3));
};
INSTANTIATE_TEST_SUITE_P(, DatagramOfFamily, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "ipv4" : "ipv6");
});

TEST_P(DatagramOfFamily, becomes_a_frame_with_its_flow) {
  UdpInbox inbox(local);
  Arrival arrival = from(peer);
  arrival.traffic_class = 3;
  arrival.hop_limit = 5;
  const auto incoming = take(inbox, arrival, good);
  ASSERT_TRUE(incoming.has_value());
  EXPECT_EQ(incoming->flow.source, peer.address);
  EXPECT_EQ(incoming->flow.source_port, peer.port);
  EXPECT_EQ(incoming->flow.destination, local);
  EXPECT_EQ(incoming->flow.traffic_class, 3);
  EXPECT_EQ(incoming->flow.hop_limit, 5);
  EXPECT_EQ(incoming->packet.data(), inbox.buffer().data());
  EXPECT_TRUE(std::ranges::equal(incoming->packet, std::span(good).first(good.size() - 4)));
  EXPECT_FALSE(inbox.has_frames());
}

TEST_P(DatagramOfFamily, is_refused_after_any_change_of_one_bit) {
  UdpInbox inbox(local);
  ASSERT_TRUE(take(inbox, from(peer), good).has_value());  // a sender that does not count
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto incoming = take(inbox, from(peer), bad);
    if (bit / 8 == 4) {
      EXPECT_TRUE(incoming.has_value()) << "switches may write the BTH's congestion bits";
      continue;
    }
    ASSERT_FALSE(incoming.has_value()) << bit;
    EXPECT_EQ(incoming.error(), Drop::kBadChecksum);
  }
}

TEST_P(DatagramOfFamily, is_refused_from_or_to_another_address) {
  const Endpoint other_port{peer.address, 0xD00E};
  const Endpoint other_peer{address("10.0.0.3", "fd00::3"), peer.port};
  EXPECT_EQ(refusal(from(other_port), good, local), Drop::kBadChecksum);
  EXPECT_EQ(refusal(from(other_peer), good, local), Drop::kBadChecksum);
  EXPECT_EQ(refusal(from(peer), good, address("10.0.0.3", "fd00::3")), Drop::kBadChecksum);
}

TEST_P(DatagramOfFamily, is_malformed_when_too_short_too_long_or_from_a_strange_sender) {
  for (int size = 0; size < 16; ++size) {
    EXPECT_EQ(refusal(from(peer), Bytes(good.begin(), good.begin() + size), local),
              Drop::kMalformed);
  }
  const Bytes long_one = test::good_datagram(peer, local, test::random_bytes(5000, 3));
  EXPECT_EQ(refusal(from(peer), long_one, local), Drop::kMalformed);
  Arrival strange = from(peer);
  strange.from.generic.sa_family = AF_UNIX;
  EXPECT_EQ(refusal(strange, good, local), Drop::kMalformed);
}

TEST(Datagram, is_malformed_when_an_ipv6_header_names_a_mapped_sender) {
  Endpoint mapped{Gid::ipv4(10, 0, 0, 1), 0xD00D};
  const Gid local = network::parse_address("fd00::2").value();
  const Bytes good = test::good_datagram(mapped, local, {});
  Arrival arrival;
  std::memset(&arrival.from, 0, sizeof arrival.from);
  arrival.from.v6.sin6_family = AF_INET6;
  arrival.from.v6.sin6_port = htons(mapped.port);
  std::memcpy(&arrival.from.v6.sin6_addr, mapped.address.raw.data(), 16);
  arrival.from.size = sizeof arrival.from.v6;
  UdpInbox inbox(local);
  EXPECT_EQ(take(inbox, arrival, good).error(), Drop::kMalformed);
}

}  // namespace
}  // namespace weft::port
