#include "port/udp_datagram.h"

#include <cstring>

#include "udp_fixture.h"

namespace weft::port {
namespace {

using test::Bytes;

class DatagramOfFamily : public testing::TestWithParam<bool> {
 protected:
  Gid address(const char* v4, const char* v6) const {
    return network::parse_address(GetParam() ? v4 : v6).value();
  }
  const Gid local = address("10.0.0.2", "fd00::2");
  const Endpoint peer{address("10.0.0.1", "fd00::1"), 0xD00D};
  const Bytes good = test::good_datagram(peer, local, test::random_bytes(21, 3));

  Arrival arrival(const Bytes& bytes) const {
    Arrival out;
    out.from = to_socket_address(peer, 0);
    out.bytes = bytes;
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(, DatagramOfFamily, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "ipv4" : "ipv6");
});

TEST_P(DatagramOfFamily, becomes_a_frame_with_its_flow) {
  Arrival from_peer = arrival(good);
  from_peer.traffic_class = 3;
  from_peer.hop_limit = 5;
  const auto incoming = to_incoming(from_peer, local);
  ASSERT_TRUE(incoming.has_value());
  EXPECT_EQ(incoming->flow.source, peer.address);
  EXPECT_EQ(incoming->flow.source_port, peer.port);
  EXPECT_EQ(incoming->flow.destination, local);
  EXPECT_EQ(incoming->flow.traffic_class, 3);
  EXPECT_EQ(incoming->flow.hop_limit, 5);
  EXPECT_EQ(incoming->packet.data(), good.data());
  EXPECT_EQ(incoming->packet.size(), good.size() - 4);
}

TEST_P(DatagramOfFamily, is_refused_after_any_change_of_one_bit) {
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto incoming = to_incoming(arrival(bad), local);
    if (bit / 8 == 4) {
      EXPECT_TRUE(incoming.has_value()) << "switches may write the BTH's congestion bits";
      continue;
    }
    ASSERT_FALSE(incoming.has_value()) << bit;
    EXPECT_EQ(incoming.error(), Drop::kBadChecksum);
  }
}

TEST_P(DatagramOfFamily, is_refused_from_or_to_another_address) {
  Arrival other_port = arrival(good);
  other_port.from = to_socket_address({peer.address, 0xD00E}, 0);
  Arrival other_peer = arrival(good);
  other_peer.from = to_socket_address({address("10.0.0.3", "fd00::3"), peer.port}, 0);
  EXPECT_EQ(to_incoming(other_port, local).error(), Drop::kBadChecksum);
  EXPECT_EQ(to_incoming(other_peer, local).error(), Drop::kBadChecksum);
  EXPECT_EQ(to_incoming(arrival(good), address("10.0.0.3", "fd00::3")).error(), Drop::kBadChecksum);
}

TEST_P(DatagramOfFamily, is_malformed_when_cut_or_from_a_strange_sender) {
  for (std::size_t size = 0; size < 16; ++size) {
    EXPECT_EQ(
        to_incoming(arrival(Bytes(good.begin(), good.begin() + static_cast<int>(size))), local)
            .error(),
        Drop::kMalformed);
  }
  Arrival truncated = arrival(good);
  truncated.truncated = true;
  EXPECT_EQ(to_incoming(truncated, local).error(), Drop::kMalformed);
  Arrival strange = arrival(good);
  strange.from.generic.sa_family = AF_UNIX;
  EXPECT_EQ(to_incoming(strange, local).error(), Drop::kMalformed);
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
  arrival.bytes = good;
  EXPECT_EQ(to_incoming(arrival, local).error(), Drop::kMalformed);
}

}  // namespace
}  // namespace weft::port
