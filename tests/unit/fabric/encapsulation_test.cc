// RoCE v2 packets as frames of the fabric, and back; and what routers do to them.
#include "fabric/encapsulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "network/roce.h"
#include "support/fabric_kit.h"
#include "wire/bth.h"

namespace weft::test {
namespace {

using Bytes = std::vector<std::byte>;

Gid ipv6(std::uint16_t subnet, std::uint8_t host) {
  Gid gid;
  gid.raw[0] = 0xFD;
  gid.raw[6] = static_cast<std::uint8_t>(subnet >> 8);
  gid.raw[7] = static_cast<std::uint8_t>(subnet);
  gid.raw[15] = host;
  return gid;
}

/// A packet from IP header to ICRC: a BTH and some payload.
Bytes roce_packet(const network::Flow& flow, std::size_t payload) {
  const std::size_t transport = wire::Bth::kSize + payload + wire::kIcrcSize;
  Bytes bytes(network::kMaxNetworkHeaderBytes + transport);
  const std::size_t headers = network::emit_headers(flow, transport, bytes);
  bytes.resize(headers + transport);
  for (std::size_t i = 0; i < transport; ++i) bytes[headers + i] = static_cast<std::byte>(i * 7);
  const auto packet = std::span(bytes).subspan(headers, transport - wire::kIcrcSize);
  network::start_icrc(flow, transport)
      .add_first(packet)
      .store(std::span(bytes).last<wire::kIcrcSize>());
  return bytes;
}

network::Flow flow_between(const Gid& source, const Gid& destination) {
  network::Flow flow;
  flow.source = source;
  flow.destination = destination;
  flow.source_port = 0xD123;
  flow.traffic_class = 2;
  return flow;
}

Bytes frame_of(const Bytes& packet, const fabric::LocalRoute& route) {
  Bytes frame(packet.size() + fabric::kFrameExtraBytes);
  frame.resize(fabric::to_frame(packet, route, frame).value());
  return frame;
}

// B3.1
TEST(Encapsulation, of_a_packet_with_ipv6_or_ipv4_headers_gives_it_back) {
  const Gid v4_source = Gid::ipv4(10, 0, 0, 1), v4_destination = Gid::ipv4(10, 0, 0, 2);
  for (const auto& flow :
       {flow_between(ipv6(1, 1), ipv6(2, 2)), flow_between(v4_source, v4_destination)}) {
    for (const std::size_t payload : {0, 4, 256, 4096}) {
      const Bytes packet = roce_packet(flow, payload);
      const Bytes frame = frame_of(packet, {Lid(5), Lid(9), 3});
      const auto lrh = wire::Lrh::parse(frame).value();
      EXPECT_EQ(lrh.source, Lid(5));
      EXPECT_EQ(lrh.destination, Lid(9));
      EXPECT_EQ(lrh.service_level, 3);
      EXPECT_EQ(lrh.virtual_lane, 0);
      EXPECT_EQ(lrh.words * 4u + fabric::kVcrcSize, frame.size());
      Bytes back(frame.size());
      back.resize(fabric::to_roce(frame, back).value());
      EXPECT_EQ(back, packet);
    }
  }
}

// B3.1
TEST(Encapsulation, refuses_damaged_bytes_wherever_they_are) {
  const Bytes packet = roce_packet(flow_between(ipv6(1, 1), ipv6(2, 2)), 64);
  const Bytes frame = frame_of(packet, {Lid(5), Lid(9), 0});
  Bytes back(frame.size());
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    Bytes damaged = frame;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(fabric::to_roce(damaged, back).has_value()) << bit;
  }
  for (std::size_t size = 0; size < frame.size(); ++size) {
    EXPECT_FALSE(fabric::to_roce(std::span(frame).first(size), back).has_value()) << size;
  }
}

/// Two subnets with a switch each, and a router between; a host in either.
struct TwoSubnets {
  TwoSubnets() {
    for (int i = 0; i < 2; ++i) {
      switches[i] = shape.add(NodeKind::kSwitch, 2);
      hosts[i] = shape.port(shape.add(NodeKind::kEndpoint, 1), 1);
    }
    router = shape.add(NodeKind::kRouter, 2);
    for (std::uint32_t i = 0; i < 2; ++i) {
      shape.connect(hosts[i], shape.port(switches[i], 1));
      shape.connect(shape.port(router, i + 1), shape.port(switches[i], 2));
    }
    net = std::make_unique<Fabric>(shape, LinkSettings{});
    auto& forwarding = net->forwarding();
    for (std::uint32_t i = 0; i < 2; ++i) {
      // The same LIDs in both subnets, which have nothing to do with each other.
      forwarding.set_lids(hosts[i], Lid(1), 0);
      forwarding.set_lids(shape.port(router, i + 1), Lid(2), 0);
      forwarding.set_route(switches[i], Lid(1), shape.port(switches[i], 1));
      forwarding.set_route(switches[i], Lid(2), shape.port(switches[i], 2));
      const Gid address = ipv6(static_cast<std::uint16_t>(i + 1), 1);
      forwarding.set_address(address, Lid(1));
      forwarding.set_prefix_route(router, fabric::prefix_of(address), shape.port(router, i + 1));
    }
  }
  std::vector<fabric::Dropped> drops_of(const fabric::Sending& what) {
    net->send(what);
    EXPECT_TRUE(net->run(1000));
    return net->take_drops();
  }

  Shape shape;
  std::array<NodeIndex, 2> switches;
  std::array<PortIndex, 2> hosts;
  NodeIndex router;
  std::unique_ptr<Fabric> net;
};

// B3.6
TEST(Router, goes_by_the_prefix_and_changes_nothing_but_the_network_header) {
  TwoSubnets two;
  const Bytes packet = roce_packet(flow_between(ipv6(1, 1), ipv6(2, 1)), 256);
  Bytes frame = frame_of(packet, {Lid(1), Lid(2), 0});
  const Bytes before = frame;
  fabric::Sending what;
  what.from = two.hosts[0];
  what.destination = Lid(2);
  what.flits = fabric::flits_for(frame.size());
  what.address = ipv6(2, 1);
  what.bytes = frame;
  EXPECT_TRUE(two.drops_of(what).empty());
  const auto arrivals = two.net->take_arrivals();
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(arrivals[0].port, two.hosts[1]);
  EXPECT_EQ(two.net->frame(arrivals[0].frame).hops, 3);
  // The LRH, the hop limit and the check of the hop are new; the rest is as it was sent.
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < frame.size(); ++i) {
    if (frame[i] != before[i]) changed.push_back(i);
  }
  EXPECT_EQ(changed, (std::vector<std::size_t>{3, 7, 8 + 7, frame.size() - 2, frame.size() - 1}));
  Bytes back(frame.size());
  back.resize(fabric::to_roce(frame, back).value());
  EXPECT_EQ(back.size(), packet.size());
  EXPECT_EQ(back[7], static_cast<std::byte>(63));
  back[7] = packet[7];
  EXPECT_EQ(back, packet);
}

// B3.5
TEST(Switch, changes_nothing_of_a_frame) {
  HostsAndSwitches net(4, 1, false, {});
  Bytes frame = frame_of(roce_packet(flow_between(ipv6(1, 1), ipv6(1, 2)), 1024),
                         {HostsAndSwitches::lid(0), HostsAndSwitches::lid(3), 0});
  const Bytes before = frame;
  fabric::Sending what;
  what.from = net.hosts[0];
  what.destination = HostsAndSwitches::lid(3);
  what.flits = fabric::flits_for(frame.size());
  what.bytes = frame;
  net.fabric->send(what);
  ASSERT_TRUE(net.run(1000));
  EXPECT_EQ(net.fabric->take_arrivals().size(), 1u);
  EXPECT_EQ(frame, before);
}

// B3.6
TEST(Router, drops_what_has_no_global_header_no_prefix_of_its_table_or_another_lid) {
  TwoSubnets two;
  fabric::Sending what;
  what.from = two.hosts[0];
  what.destination = Lid(2);
  auto drops = two.drops_of(what);
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].why, fabric::Drop::kNoGlobal);
  what.address = ipv6(7, 1);
  drops = two.drops_of(what);
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].why, fabric::Drop::kNoRoute);
  what.address = ipv6(2, 9);  // the prefix is known, the host is not
  drops = two.drops_of(what);
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].why, fabric::Drop::kNoRoute);
}

}  // namespace
}  // namespace weft::test
