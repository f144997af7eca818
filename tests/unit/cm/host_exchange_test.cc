#include "cm/host_exchange.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <optional>

namespace weft::cm {
namespace {

const Gid kHere = Gid::ipv4(127, 0, 0, 1), kOther = Gid::ipv4(127, 0, 0, 9);

/// A port that no other test uses at the same time.
Port own_port() {
  static std::uint16_t next = 0;
  return Port(static_cast<std::uint16_t>(1024 + (getpid() * 64 + next++) % 60'000));
}

Place at(const Gid& address, Port port) {
  return {kTcpSpace, port, Place::Kind::kAddress, address};
}
Place everywhere(Place::Kind kind, Port port) { return {kTcpSpace, port, kind}; }

Packet packet_with(std::uint32_t number) {
  ReadyToUse body;
  body.local = CommId(number);
  return {kHere, kOther, {TransactionId(number), body}};
}

std::optional<Arrival> next(HostExchange& exchange) {
  for (int i = 0; i < 100; ++i) {
    pollfd entry{exchange.fd(), POLLIN, 0};
    if (poll(&entry, 1, 50) != 1) continue;
    auto arrivals = exchange.collect();
    if (!arrivals.empty()) return arrivals.front();
  }
  return {};
}

TEST(HostExchange, carries_messages_both_ways) {
  auto server = HostExchange::create().value(), client = HostExchange::create().value();
  const Port port = own_port();
  ASSERT_TRUE(server.bind(at(kHere, port), {}));
  const auto route = client.reach(kTcpSpace, port, kHere, false);
  ASSERT_TRUE(route);
  EXPECT_TRUE(route->fresh);
  client.send(route->link, packet_with(1));
  const auto arrived = next(server);
  ASSERT_TRUE(arrived && arrived->packet);
  EXPECT_EQ(*arrived->packet, packet_with(1));
  server.send(arrived->link, packet_with(2));
  const auto answer = next(client);
  ASSERT_TRUE(answer && answer->packet);
  EXPECT_EQ(answer->link, route->link);
  EXPECT_EQ(*answer->packet, packet_with(2));
}

TEST(HostExchange, a_port_has_one_owner_at_each_place) {
  auto first = HostExchange::create().value(), second = HostExchange::create().value();
  const Port port = own_port();
  const std::vector neighbours{kHere, kOther};
  const auto binding = first.bind(at(kHere, port), neighbours);
  ASSERT_TRUE(binding);
  EXPECT_EQ(second.bind(at(kHere, port), neighbours).error().code, Errc::kBusy);
  EXPECT_EQ(second.bind(everywhere(Place::Kind::kAnyIpv4, port), neighbours).error().code,
            Errc::kBusy);
  EXPECT_EQ(second.bind(everywhere(Place::Kind::kAnywhere, port), neighbours).error().code,
            Errc::kBusy);
  EXPECT_TRUE(second.bind(everywhere(Place::Kind::kAnyIpv6, port), neighbours));
  EXPECT_TRUE(second.bind(at(kOther, port), neighbours));
  EXPECT_TRUE(second.bind({kUdpSpace, port, Place::Kind::kAddress, kHere}, neighbours));
  first.unbind(*binding);
  EXPECT_TRUE(second.bind(at(kHere, port), neighbours));
}

TEST(HostExchange, who_binds_everywhere_keeps_others_out) {
  auto first = HostExchange::create().value(), second = HostExchange::create().value();
  const Port port = own_port();
  ASSERT_TRUE(first.bind(everywhere(Place::Kind::kAnywhere, port), {}));
  EXPECT_EQ(second.bind(at(kHere, port), {}).error().code, Errc::kBusy);
  EXPECT_EQ(second.bind(everywhere(Place::Kind::kAnyIpv6, port), {}).error().code, Errc::kBusy);
  EXPECT_TRUE(second.reach(kTcpSpace, port, kHere, false));
  Gid six;
  six.raw[15] = 1;
  EXPECT_TRUE(second.reach(kTcpSpace, port, six, false));
}

TEST(HostExchange, nobody_there_is_told_at_once) {
  auto client = HostExchange::create().value();
  EXPECT_EQ(client.reach(kTcpSpace, own_port(), kHere, false).error().code, Errc::kNotFound);
}

TEST(HostExchange, a_link_is_shared_until_a_fresh_one_is_wanted) {
  auto server = HostExchange::create().value(), client = HostExchange::create().value();
  const Port port = own_port();
  ASSERT_TRUE(server.bind(at(kHere, port), {}));
  const auto first = client.reach(kTcpSpace, port, kHere, false);
  const auto second = client.reach(kTcpSpace, port, kHere, false);
  const auto third = client.reach(kTcpSpace, port, kHere, true);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->link, second->link);
  EXPECT_FALSE(second->fresh);
  EXPECT_NE(first->link, third->link);
  client.release(first->link);
  client.send(first->link, packet_with(1));  // still in use once
  const auto arrived = next(server);
  ASSERT_TRUE(arrived && arrived->packet);
  client.release(first->link);
  const auto gone = next(server);
  ASSERT_TRUE(gone);
  EXPECT_FALSE(gone->packet);
  EXPECT_EQ(gone->link, arrived->link);
}

TEST(HostExchange, the_end_of_a_peer_is_seen_after_its_last_message) {
  auto client = HostExchange::create().value();
  const Port port = own_port();
  std::optional<HostExchange> server(HostExchange::create().value());
  ASSERT_TRUE(server->bind(at(kHere, port), {}));
  const auto route = client.reach(kTcpSpace, port, kHere, false);
  client.send(route->link, packet_with(1));
  const auto arrived = next(*server);
  server->send(arrived->link, packet_with(2));
  server.reset();
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 100 && (arrivals.empty() || arrivals.back().packet); ++i) {
    pollfd entry{client.fd(), POLLIN, 0};
    poll(&entry, 1, 50);
    for (auto& each : client.collect()) arrivals.push_back(std::move(each));
  }
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].packet, packet_with(2));
  EXPECT_FALSE(arrivals[1].packet);
  client.send(route->link, packet_with(3));  // into nowhere
  client.release(route->link);
}

TEST(HostExchange, nothing_is_lost_when_the_peer_is_slow) {
  auto server = HostExchange::create().value(), client = HostExchange::create().value();
  const Port port = own_port();
  ASSERT_TRUE(server.bind(at(kHere, port), {}));
  const auto route = client.reach(kTcpSpace, port, kHere, false);
  constexpr std::uint32_t kMany = 5000;  // more than a socket holds
  for (std::uint32_t i = 0; i < kMany; ++i) client.send(route->link, packet_with(i));
  std::uint32_t seen = 0;
  for (int round = 0; round < 10'000 && seen < kMany; ++round) {
    client.collect();
    for (const auto& arrival : server.collect()) {
      ASSERT_EQ(arrival.packet, packet_with(seen));
      ++seen;
    }
  }
  EXPECT_EQ(seen, kMany);
}

bool readable(const HostExchange& exchange, int timeout_ms) {
  pollfd entry{exchange.fd(), POLLIN, 0};
  return poll(&entry, 1, timeout_ms) == 1;
}

TEST(HostExchange, a_time_to_wake_is_kept_whoever_collects) {
  auto exchange = HostExchange::create().value();
  const auto now = static_cast<Nanoseconds>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  exchange.wake_at(now + 20'000'000);
  exchange.collect();
  EXPECT_TRUE(readable(exchange, 20'000));
  exchange.collect();
  EXPECT_TRUE(readable(exchange, 0)) << "until somebody has done what was due";
  exchange.wake_at(now + 3'600'000'000'000);
  EXPECT_FALSE(readable(exchange, 0));
  exchange.wake_at(0);
  EXPECT_TRUE(readable(exchange, 20'000));
  exchange.wake_at(kNever);
  EXPECT_FALSE(readable(exchange, 0));
}

/// From a socket of its own, as those do who hand over what came from the network.
host::LocalSocket call(Port port) {
  return host::LocalSocket::connect(name_of(kTcpSpace, port, "127.0.0.1")).value();
}

TEST(HostExchange, who_calls_and_says_nothing_keeps_nobody_waiting) {
  auto server = HostExchange::create().value();
  const Port port = own_port();
  ASSERT_TRUE(server.bind(at(kHere, port), {}));
  const auto silent = call(port), second = call(port), third = call(port);
  server.collect();
  EXPECT_FALSE(readable(server, 0));
  ASSERT_TRUE(third.send(emit_packet(packet_with(3)), {}));
  auto arrived = next(server);
  ASSERT_TRUE(arrived && arrived->packet);
  EXPECT_EQ(*arrived->packet, packet_with(3));
  ASSERT_TRUE(third.send(emit_packet(packet_with(4)), {}));
  arrived = next(server);
  ASSERT_TRUE(arrived && arrived->packet);
  EXPECT_EQ(*arrived->packet, packet_with(4));
  ASSERT_TRUE(second.send(emit_packet(packet_with(2)), {}));
  arrived = next(server);
  ASSERT_TRUE(arrived && arrived->packet);
  EXPECT_EQ(*arrived->packet, packet_with(2));
  EXPECT_FALSE(readable(server, 0));
}

TEST(HostExchange, garbage_is_dropped) {
  auto server = HostExchange::create().value();
  const Port port = own_port();
  ASSERT_TRUE(server.bind(at(kHere, port), {}));
  const auto socket =
      host::LocalSocket::connect("weft/cm/106/" + std::to_string(port.value) + "/127.0.0.1");
  ASSERT_TRUE(socket);
  auto bytes = emit_packet(packet_with(4));
  ASSERT_TRUE(socket->send(std::vector<std::byte>(kPacketBytes + 1), {}));
  ASSERT_TRUE(socket->send(std::vector<std::byte>(kPacketBytes), {}));
  ASSERT_TRUE(socket->send(std::span(bytes).first(100), {}));
  ASSERT_TRUE(socket->send(bytes, {}));
  const auto arrived = next(server);
  ASSERT_TRUE(arrived && arrived->packet);
  EXPECT_EQ(*arrived->packet, packet_with(4));
}

}  // namespace
}  // namespace weft::cm
