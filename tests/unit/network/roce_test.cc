#include "network/roce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.h"
#include "network/address.h"
#include "wire/datagram.h"

namespace weft::network {
namespace {

Flow example_flow(bool ipv4) {
  Flow flow;
  flow.source = parse_address(ipv4 ? "10.0.0.1" : "fd00::1").value();
  flow.destination = parse_address(ipv4 ? "10.0.0.2" : "fd00::2").value();
  flow.source_port = 0xD123;
  flow.traffic_class = 0x6A;
  flow.hop_limit = 17;
  flow.flow_label = 0xABCDE;
  return flow;
}

/// A datagram whose headers come from emit_headers() and whose ICRC starts from start_icrc().
std::vector<std::byte> make_datagram(const Flow& headers, const Flow& icrc_flow, std::size_t body) {
  base::SeededRandom random(body);
  const std::size_t transport_bytes = body + wire::kIcrcSize;
  std::vector<std::byte> out(kMaxNetworkHeaderBytes);
  out.resize(emit_headers(headers, transport_bytes, out));
  const std::size_t at = out.size();
  out.resize(at + transport_bytes);
  const auto packet = std::span(out).subspan(at, body);
  random.fill(packet);
  start_icrc(icrc_flow, transport_bytes)
      .add_first(packet)
      .store(std::span(out).last<wire::kIcrcSize>());
  return out;
}

class FlowOfFamily : public testing::TestWithParam<bool> {
 protected:
  bool ipv4() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(, FlowOfFamily, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "ipv4" : "ipv6");
});

TEST_P(FlowOfFamily, emits_headers_that_its_icrc_covers) {
  for (const std::size_t body : {12u, 13u, 16u, 64u, 1036u, 4148u}) {
    const auto datagram = make_datagram(example_flow(ipv4()), example_flow(ipv4()), body);
    const auto checked = wire::check_datagram(datagram);
    ASSERT_TRUE(checked.has_value()) << body << ": " << to_string(checked.error());
    EXPECT_EQ(checked->is_ipv4(), ipv4());
    EXPECT_EQ(checked->packet.size(), body);
  }
}

TEST_P(FlowOfFamily, has_another_icrc_for_another_address_or_port) {
  const Flow flow = example_flow(ipv4());
  std::vector<Flow> others(3, flow);
  others[0].source.raw[15] ^= 1;
  others[1].destination.raw[15] ^= 1;
  others[2].source_port ^= 1;
  for (const Flow& other : others) {
    const auto checked = wire::check_datagram(make_datagram(flow, other, 64));
    ASSERT_FALSE(checked.has_value());
    EXPECT_EQ(checked.error(), wire::ParseError::kBadIcrc);
  }
}

TEST_P(FlowOfFamily, has_the_same_icrc_for_another_quality) {
  Flow other = example_flow(ipv4());
  other.traffic_class = 0;
  other.hop_limit = 64;
  other.flow_label = 0;
  EXPECT_TRUE(wire::check_datagram(make_datagram(example_flow(ipv4()), other, 64)).has_value());
}

TEST(Flow, emits_an_ipv4_header_with_its_fields_and_a_right_checksum) {
  const Flow flow = example_flow(true);
  std::array<std::byte, kMaxNetworkHeaderBytes> out;
  ASSERT_EQ(emit_headers(flow, 100, out), 28u);
  const auto ip = wire::Ipv4::parse(out).value();
  EXPECT_EQ(ip.total_length, 128);
  EXPECT_EQ(ip.identification, 0);
  EXPECT_TRUE(ip.dont_fragment);
  EXPECT_EQ(ip.type_of_service, 0x6A);
  EXPECT_EQ(ip.time_to_live, 17);
  EXPECT_EQ(ip.source_gid(), flow.source);
  EXPECT_EQ(ip.destination_gid(), flow.destination);
  EXPECT_EQ(ip.checksum, ip.compute_checksum());
  const auto udp = wire::Udp::parse(std::span(out).subspan(20)).value();
  EXPECT_EQ(udp.source_port, 0xD123);
  EXPECT_EQ(udp.destination_port, 4791);
  EXPECT_EQ(udp.length, 108);
}

TEST(Flow, emits_an_ipv6_header_with_its_fields) {
  const Flow flow = example_flow(false);
  std::array<std::byte, kMaxNetworkHeaderBytes> out;
  ASSERT_EQ(emit_headers(flow, 100, out), 48u);
  const auto ip = wire::Ipv6::parse(out).value();
  EXPECT_EQ(ip.payload_length, 108);
  EXPECT_EQ(ip.traffic_class, 0x6A);
  EXPECT_EQ(ip.flow_label, 0xABCDEu);
  EXPECT_EQ(ip.hop_limit, 17);
  EXPECT_EQ(ip.source, flow.source);
  EXPECT_EQ(ip.destination, flow.destination);
  EXPECT_EQ(wire::Udp::parse(std::span(out).subspan(40))->length, 108);
}

TEST(Flow, draws_source_ports_from_the_upper_quarter_and_spreads_queue_pairs) {
  std::set<std::uint16_t> seen;
  base::SeededRandom random(7);
  for (int i = 0; i < 4096; ++i) {
    const Qpn local(static_cast<std::uint32_t>(random.below(kMask24 + 1)));
    const Qpn remote(static_cast<std::uint32_t>(random.below(kMask24 + 1)));
    const std::uint16_t port = source_port_for(local, remote);
    ASSERT_GE(port, 0xC000);
    ASSERT_EQ(port, source_port_for(local, remote));
    seen.insert(port);
  }
  // Of 16384 ports, 4096 throws at random hit about 3624.
  EXPECT_GT(seen.size(), 3000u);
}

TEST(Flow, spreads_neighbouring_queue_pairs_over_the_sockets_of_a_port) {
  std::array<int, 4> by_remainder{};
  for (std::uint32_t n = 0; n < 400; ++n) ++by_remainder[source_port_for(Qpn(n), Qpn(n)) % 4];
  for (const int count : by_remainder) EXPECT_GT(count, 50);
}

TEST(Grh, holds_an_ipv4_header_in_its_last_20_bytes) {
  const Flow flow = example_flow(true);
  const wire::GrhBytes grh = make_grh(flow, 100);
  EXPECT_TRUE(std::all_of(grh.begin(), grh.begin() + 20, [](auto b) { return b == std::byte{0}; }));
  std::array<std::byte, kMaxNetworkHeaderBytes> headers;
  emit_headers(flow, 100, headers);
  EXPECT_TRUE(std::equal(grh.begin() + 20, grh.end(), headers.begin()));
}

TEST(Grh, is_the_ipv6_header) {
  const Flow flow = example_flow(false);
  const wire::GrhBytes grh = make_grh(flow, 100);
  std::array<std::byte, kMaxNetworkHeaderBytes> headers;
  emit_headers(flow, 100, headers);
  EXPECT_TRUE(std::equal(grh.begin(), grh.end(), headers.begin()));
}

}  // namespace
}  // namespace weft::network
