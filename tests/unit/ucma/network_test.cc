#include <infiniband/verbs.h>

#include <cstdlib>
#include <variant>
#include <vector>

#include "cm/host_exchange.h"
#include "cm/names.h"
#include "cm/network_messages.h"
#include "cm/service_id.h"
#include "ucma_kit.h"

// Messages of other hosts, as they are handed over by whoever received them.
namespace weft::ucma::test {
namespace {

// Frames of loopback addresses: the only ones that may arrive at one.
const Gid kListening = Gid::ipv4(127, 0, 0, 1), kFar = Gid::ipv4(127, 99, 2, 1),
          kFarther = Gid::ipv4(127, 99, 2, 2);

cm::Packet request_from(const Gid& host, std::uint16_t port, std::uint32_t number) {
  cm::Request request;
  request.local = cm::CommId(number);
  request.service = cm::service_id(cm::kTcpSpace, cm::Port(port));
  request.qpn = Qpn(0x33);
  request.starting_psn = Psn(0x444);
  request.mtu_code = 3;
  request.pkey = kDefaultPKey;
  cm::emit_ip_header({false, cm::Port(9), host, kListening}, request.private_data);
  return {host, kListening, {cm::TransactionId(number), request}, true};
}

struct FarListener {
  Channel channel;
  Id listener = Id::create(channel, RDMA_PS_TCP, 0x51);

  void listen() {
    ASSERT_EQ(listener.bind("127.0.0.1", 0), 0);
    ASSERT_EQ(listener.listen(), 0);
  }
};

TEST(UcmaNetwork, a_request_of_another_host_reaches_the_listener) {
  FarListener server;
  ASSERT_NO_FATAL_FAILURE(server.listen());
  ASSERT_EQ(cm::forward_locally(request_from(kFar, server.listener.port(), 7)),
            cm::Forwarded::kTaken);
  const auto event = server.channel.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kConnectRequest);
  const Id child{&server.channel, event->id};
  const auto route = child.route();
  EXPECT_EQ(port_of(route.dst_addr), 9);
  ib_uverbs_qp_attr ready{};
  ASSERT_EQ(child.qp_attributes(IBV_QPS_RTR, ready), 0);
  EXPECT_EQ(ready.dest_qp_num, 0x33u);
  EXPECT_EQ(ready.path_mtu, 3u);
  ASSERT_EQ(child.qp_attributes(IBV_QPS_RTS, ready), 0);
  EXPECT_EQ(ready.sq_psn, 0x444u);
}

TEST(UcmaNetwork, the_same_request_again_is_no_second_one) {
  FarListener server;
  ASSERT_NO_FATAL_FAILURE(server.listen());
  const std::uint16_t port = server.listener.port();
  ASSERT_EQ(cm::forward_locally(request_from(kFar, port, 8)), cm::Forwarded::kTaken);
  ASSERT_EQ(cm::forward_locally(request_from(kFar, port, 8)), cm::Forwarded::kTaken);
  // Numbers are each host's own.
  ASSERT_EQ(cm::forward_locally(request_from(kFarther, port, 8)), cm::Forwarded::kTaken);
  const auto first = server.channel.next(), second = server.channel.next();
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->id, second->id);
  EXPECT_FALSE(server.channel.next(200));
}

TEST(UcmaNetwork, a_request_for_longer_frames_than_the_device_carries_is_refused) {
  FarListener server;
  ASSERT_NO_FATAL_FAILURE(server.listen());
  cm::Packet packet = request_from(kFar, server.listener.port(), 9);
  std::get<cm::Request>(packet.message.body).mtu_code = 6;  // 4096 has 5
  ASSERT_EQ(cm::forward_locally(packet), cm::Forwarded::kTaken);
  EXPECT_FALSE(server.channel.next(200)) << "the program never hears of it";
  std::get<cm::Request>(packet.message.body).mtu_code = 5;
  ASSERT_EQ(cm::forward_locally(packet), cm::Forwarded::kTaken);
  EXPECT_TRUE(server.channel.next()) << "nothing of it is left";
}

/// Into the hands of whoever has the name, as a process of this user can, whatever the packet says.
void deliver(const cm::Packet& packet, std::uint16_t port, const char* address) {
  const auto name = cm::name_of(cm::kTcpSpace, cm::Port(port), address);
  const auto socket = host::LocalSocket::connect(name);
  ASSERT_TRUE(socket);
  ASSERT_TRUE(socket->send(cm::emit_packet(packet), {}));
}

TEST(UcmaNetwork, a_listener_on_loopback_is_not_reached_from_another_host) {
  FarListener server;
  ASSERT_NO_FATAL_FAILURE(server.listen());
  const std::uint16_t port = server.listener.port();
  const Gid elsewhere = Gid::ipv4(192, 0, 2, 1), arrived_at = Gid::ipv4(192, 0, 2, 9);
  cm::Packet packet = request_from(elsewhere, port, 10);  // its private data say: to 127.0.0.1
  packet.destination = arrived_at;
  EXPECT_EQ(cm::forward_locally(packet), cm::Forwarded::kNobody);
  ASSERT_NO_FATAL_FAILURE(deliver(packet, port, "127.0.0.1"));
  packet.destination = kListening;
  ASSERT_NO_FATAL_FAILURE(deliver(packet, port, "127.0.0.1"));
  EXPECT_FALSE(server.channel.next(200));
}

TEST(UcmaNetwork, a_request_that_claims_another_source_is_dropped) {
  FarListener server;
  ASSERT_NO_FATAL_FAILURE(server.listen());
  cm::Packet packet = request_from(kFar, server.listener.port(), 11);
  packet.source = kFarther;
  ASSERT_EQ(cm::forward_locally(packet), cm::Forwarded::kTaken);
  EXPECT_FALSE(server.channel.next(200));
}

TEST(UcmaNetwork, a_listener_on_all_addresses_is_told_where_the_frame_came_from_and_arrived) {
  const Channel channel;
  const Id listener = Id::create(channel, RDMA_PS_TCP, 0x53);
  ASSERT_EQ(listener.bind("0.0.0.0", 0), 0);
  ASSERT_EQ(listener.listen(), 0);
  const std::uint16_t port = listener.port();
  cm::Packet lie = request_from(kFar, port, 12);  // its private data say: to 127.0.0.1
  lie.destination = Gid::ipv4(127, 0, 0, 5);
  ASSERT_EQ(cm::forward_locally(lie), cm::Forwarded::kTaken);
  EXPECT_FALSE(channel.next(200));
  ASSERT_EQ(cm::forward_locally(request_from(kFar, port, 13)), cm::Forwarded::kTaken);
  const auto event = channel.next();
  ASSERT_TRUE(event);
  const auto route = Id{&channel, event->id}.route();
  const auto from = address_of("127.99.2.1", 9), to = address_of("127.0.0.1", port);
  EXPECT_EQ(std::memcmp(&route.dst_addr, &from, sizeof(sockaddr_in)), 0);
  EXPECT_EQ(std::memcmp(&route.src_addr, &to, sizeof(sockaddr_in)), 0);
}

TEST(UcmaNetwork, a_request_on_a_link_to_one_port_is_for_no_other) {
  FarListener called, other;
  ASSERT_NO_FATAL_FAILURE(called.listen());
  ASSERT_NO_FATAL_FAILURE(other.listen());
  cm::Packet packet = request_from(kListening, other.listener.port(), 14);
  packet.from_network = false;
  ASSERT_NO_FATAL_FAILURE(deliver(packet, called.listener.port(), "127.0.0.1"));
  EXPECT_FALSE(other.channel.next(200));
}

TEST(UcmaNetwork, a_process_of_this_host_cannot_claim_to_be_another_host) {
  FarListener server;
  ASSERT_NO_FATAL_FAILURE(server.listen());
  cm::Packet packet = request_from(Gid::ipv4(192, 0, 2, 1), server.listener.port(), 15);
  packet.from_network = false;
  packet.source = kListening;
  ASSERT_NO_FATAL_FAILURE(deliver(packet, server.listener.port(), "127.0.0.1"));
  EXPECT_FALSE(server.channel.next(200));
}

TEST(UcmaNetwork, numbers_of_connections_are_not_in_sequence) {
  // Whoever has one connection, and so knows its number, must not know those of the others.
  FarListener server;
  ASSERT_NO_FATAL_FAILURE(server.listen());
  auto peer = cm::HostExchange::create().value();
  const auto route = peer.reach(cm::kTcpSpace, cm::Port(server.listener.port()), kListening, false);
  ASSERT_TRUE(route);
  constexpr std::uint32_t kConnections = 8;
  for (std::uint32_t i = 1; i <= kConnections; ++i) {
    cm::Packet packet = request_from(kListening, server.listener.port(), 100 + i);
    packet.from_network = false;
    peer.send(route->link, packet);
  }
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 200 && numbers.size() < kConnections; ++i) {
    pollfd entry{peer.fd(), POLLIN, 0};
    poll(&entry, 1, 50);
    for (const auto& arrival : peer.collect()) {
      if (!arrival.packet) continue;
      const auto* asked = std::get_if<cm::Acknowledgement>(&arrival.packet->message.body);
      if (asked != nullptr) numbers.push_back(asked->local.value);
    }
  }
  ASSERT_EQ(numbers.size(), kConnections);
  int near = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    near += std::abs(static_cast<std::int32_t>(numbers[i] - numbers[i - 1])) < 1000 ? 1 : 0;
  }
  EXPECT_LT(near, 2);
}

TEST(UcmaNetwork, a_host_that_no_device_has_a_route_to_is_unreachable) {
  const Channel channel;
  const Id id = Id::create(channel, RDMA_PS_TCP, 0x52);
  ASSERT_EQ(id.resolve("192.0.2.1", 5000), 0);
  const auto event = channel.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kAddressError);
  EXPECT_EQ(event->status, static_cast<std::uint32_t>(-EHOSTUNREACH));
}

}  // namespace
}  // namespace weft::ucma::test
