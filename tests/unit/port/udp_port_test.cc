#include "port/udp_port.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/udp.h>
#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "udp_fixture.h"
#include "unit/memory/pages.h"

namespace weft::port {
namespace {

using network::OutFrame;
using test::Bytes;
using test::Collector;
using test::flow_to;
using testing::HasSubstr;

class UdpPortOfFamily : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!ipv4() && !test::ipv6_available()) GTEST_SKIP() << "this machine has no IPv6";
    near_ = test::open_port(ipv4());
    ASSERT_NE(near_, nullptr);
    if (ipv4()) {
      other_ = test::open_port();
      ASSERT_NE(other_, nullptr);
    }
  }
  bool ipv4() const { return GetParam(); }
  UdpPort& near() { return *near_; }
  /// IPv6 has one loopback address, so the port talks to itself.
  UdpPort& far() { return ipv4() ? *other_ : *near_; }

 private:
  std::unique_ptr<UdpPort> near_, other_;
};
INSTANTIATE_TEST_SUITE_P(, UdpPortOfFamily, testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "ipv4" : "ipv6");
});

TEST_P(UdpPortOfFamily, delivers_payload_gathered_from_several_memory_areas) {
  // From an empty frame to a full one, with every pad.
  const std::array<std::array<std::size_t, 3>, 6> shapes{
      {{0, 0, 0}, {1, 0, 0}, {2, 3, 0}, {100, 1, 5}, {7, 4000, 0}, {4090, 1, 5}}};
  for (const auto& shape : shapes) {
    Bytes expected;
    std::array<Bytes, 3> areas;
    std::vector<std::span<std::byte>> pieces;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      areas[i] = test::random_bytes(shape[i], 10 * expected.size() + i);
      if (!areas[i].empty()) pieces.emplace_back(areas[i]);
      expected.insert(expected.end(), areas[i].begin(), areas[i].end());
    }
    OutFrame frame;
    frame.headers.bth.opcode = wire::Opcode::kRcWriteOnlyWithImmediate;
    frame.headers.bth.dest_qp = Qpn(0xABCDEF);
    frame.headers.reth = {0x1122334455667788, RemoteKey(0x99AABBCC), 4096};
    frame.headers.immediate = 0xDDEEFF00;
    for (const auto piece : pieces) frame.add_piece(nullptr, {piece.data(), piece.size(), 0});
    frame.finish();
    const Outgoing out{&frame, flow_to(far().address(), 0xC123)};
    const SendOutcome outcome = near().send({&out, 1});
    ASSERT_EQ(outcome.status, SendStatus::kTaken);
    ASSERT_EQ(outcome.taken, 1u);

    Collector collector;
    test::receive(far(), collector, 1);
    ASSERT_EQ(collector.frames.size(), 1u);
    const test::Received& received = collector.frames[0];
    EXPECT_EQ(received.flow.source, near().address());
    EXPECT_EQ(received.flow.destination, far().address());
    EXPECT_GE(received.flow.source_port, 0xC000);
    const auto packet = wire::parse_packet(received.packet);
    ASSERT_TRUE(packet.has_value());
    EXPECT_EQ(packet->bth.dest_qp, Qpn(0xABCDEF));
    EXPECT_EQ(packet->reth.address, 0x1122334455667788u);
    EXPECT_EQ(packet->immediate, 0xDDEEFF00u);
    EXPECT_EQ(Bytes(packet->payload.begin(), packet->payload.end()), expected);
  }
}

TEST_P(UdpPortOfFamily, keeps_the_order_of_a_long_batch) {
  constexpr std::size_t kFrames = 50;
  std::array<OutFrame, kFrames> frames;
  std::vector<Outgoing> out;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    test::make_send(frames[i], i);
    out.push_back({&frames[i], flow_to(far().address())});
  }
  EXPECT_EQ(near().send(out).taken, kFrames);
  Collector collector;
  test::receive(far(), collector, kFrames);
  for (std::uint32_t i = 0; i < kFrames; ++i) EXPECT_EQ(test::psn_of(collector.frames[i]), i);
}

TEST_P(UdpPortOfFamily, accepts_a_foreign_frame_and_counts_corrupted_ones) {
  const test::PlainSocket foreign(ipv4() ? test::random_ipv4() : near().address());
  const Bytes payload = test::random_bytes(37, 5);
  const Bytes good = test::good_datagram(foreign.own(), near().address(), payload);
  foreign.send({near().address(), 4791}, good);
  // One bit of: the queue pair number, the payload, the pad, the ICRC.
  const std::array<std::size_t, 4> places{5, 20, good.size() - 5, good.size() - 1};
  for (const std::size_t at : places) {
    Bytes bad = good;
    bad[at] ^= std::byte{0x10};
    foreign.send({near().address(), 4791}, bad);
  }
  Collector collector;
  test::receive(near(), collector, 1 + places.size());
  EXPECT_EQ(collector.bad_checksums, places.size());
  ASSERT_EQ(collector.frames.size(), 1u);
  EXPECT_EQ(collector.frames[0].packet, Bytes(good.begin(), good.end() - 4));
  EXPECT_EQ(collector.frames[0].flow.source, foreign.own().address);
  EXPECT_EQ(collector.frames[0].flow.source_port, foreign.own().port);
}

TEST_P(UdpPortOfFamily, carries_traffic_class_and_hop_limit) {
  OutFrame frame;
  test::make_send(frame, 0);
  network::Flow marked = flow_to(far().address());
  marked.traffic_class = 0x68;
  marked.hop_limit = 9;
  network::Flow link_only = flow_to(far().address());
  link_only.hop_limit = 0;
  const std::array<Outgoing, 3> out{
      {{&frame, flow_to(far().address())}, {&frame, marked}, {&frame, link_only}}};
  far().report_all_headers();
  ASSERT_EQ(near().send(out).taken, 3u);
  Collector collector;
  test::receive(far(), collector, 3);
  ASSERT_EQ(collector.frames.size(), 3u);
  EXPECT_EQ(collector.frames[0].flow.traffic_class, 0);
  EXPECT_EQ(collector.frames[0].flow.hop_limit, 64);
  EXPECT_EQ(collector.frames[1].flow.traffic_class, 0x68);
  EXPECT_EQ(collector.frames[1].flow.hop_limit, 9);
  EXPECT_EQ(collector.frames[2].flow.hop_limit, 1);
}

TEST_P(UdpPortOfFamily, counts_a_frame_for_the_other_family_as_lost) {
  OutFrame frame;
  test::make_send(frame, 3);
  const Gid other = network::parse_address(ipv4() ? "::1" : "127.0.0.1").value();
  const std::array<Outgoing, 3> out{
      {{&frame, flow_to(other)}, {&frame, flow_to(far().address())}, {&frame, flow_to(other)}}};
  const SendOutcome outcome = near().send(out);
  EXPECT_EQ(outcome.status, SendStatus::kTaken);
  EXPECT_EQ(outcome.taken, 3u);
  Collector collector;
  test::receive(far(), collector, 1);
  EXPECT_EQ(far().receive(collector, 8), 0u);
}

TEST(UdpPort, accepts_ipv6_frames_without_udp_checksum) {
  if (!test::ipv6_available()) GTEST_SKIP() << "this machine has no IPv6";
  const auto port = test::open_port(false);
  ASSERT_NE(port, nullptr);
  const test::PlainSocket foreign(port->address());
  const int yes = 1;
  ASSERT_EQ(setsockopt(foreign.fd(), IPPROTO_UDP, UDP_NO_CHECK6_TX, &yes, sizeof yes), 0);
  foreign.send({port->address(), 4791}, test::good_datagram(foreign.own(), port->address(), {}));
  Collector collector;
  test::receive(*port, collector, 1);
  EXPECT_EQ(collector.frames.size(), 1u);
}

class UdpPorts : public testing::Test {
 protected:
  void SetUp() override {
    a = test::open_port();
    b = test::open_port();
    ASSERT_TRUE(a != nullptr && b != nullptr);
  }
  SendOutcome send(const OutFrame& frame, const network::Flow& flow) {
    const Outgoing out{&frame, flow};
    return a->send({&out, 1});
  }
  std::unique_ptr<UdpPort> a, b;
};

TEST_F(UdpPorts, emit_bytes_whose_icrc_an_independent_check_confirms) {
  const test::PlainSocket listener(test::random_ipv4(), 4791);
  ASSERT_TRUE(listener.bound());
  for (const std::size_t size : {0u, 1u, 2u, 3u, 4u, 1024u, 4096u}) {
    Bytes payload = test::random_bytes(size, size);
    const std::span<std::byte> piece(payload);
    OutFrame frame;
    test::make_send(frame, 1, {&piece, 1});
    ASSERT_EQ(send(frame, flow_to(listener.own().address, 0xFFFE)).taken, 1u);
    const auto [from, bytes] = listener.receive();
    EXPECT_EQ(from.address, a->address());
    EXPECT_GE(from.port, 0xC000);
    const Bytes whole = test::with_ip_headers(from, listener.own().address, bytes);
    const auto checked = wire::check_datagram(whole);
    ASSERT_TRUE(checked.has_value()) << size << ": " << to_string(checked.error());
    const auto packet = wire::parse_packet(checked->packet);
    ASSERT_TRUE(packet.has_value()) << size;
    EXPECT_EQ(Bytes(packet->payload.begin(), packet->payload.end()), payload);
    const auto pad = checked->packet.last(wire::pad_for(size));
    EXPECT_THAT(pad, testing::Each(std::byte{0}));
  }
}

TEST_F(UdpPorts, keep_a_flow_at_one_source_port_and_use_several_for_several_flows) {
  std::map<std::uint16_t, std::set<std::uint16_t>> real_ports;
  OutFrame frame;
  test::make_send(frame, 0);
  for (int round = 0; round < 3; ++round) {
    for (std::uint16_t asked = 0xC000; asked < 0xC010; ++asked) {
      ASSERT_EQ(send(frame, flow_to(b->address(), asked)).taken, 1u);
      Collector collector;
      test::receive(*b, collector, 1);
      ASSERT_EQ(collector.frames.size(), 1u);
      real_ports[asked].insert(collector.frames[0].flow.source_port);
    }
  }
  std::set<std::uint16_t> all;
  for (const auto& [asked, real] : real_ports) {
    EXPECT_EQ(real.size(), 1u) << asked;
    all.insert(*real.begin());
  }
  EXPECT_EQ(all.size(), kSendSockets);
  EXPECT_GE(*all.begin(), 0xC000);
}

TEST_F(UdpPorts, stay_at_the_first_source_port_when_no_other_socket_can_be_opened) {
  OutFrame frame;
  test::make_send(frame, 0);
  // Before there is a limit: a sanitizer that meets an object for the first time opens a pipe.
  EXPECT_EQ(send(frame, flow_to(b->address(), 0xC000)).taken, 1u);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const SendOutcome outcome = send(frame, flow_to(b->address(), 0xC001));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(outcome.taken, 1u);
  // Also later, when there would be room: a flow does not move.
  EXPECT_EQ(send(frame, flow_to(b->address(), 0xC001)).taken, 1u);
  Collector collector;
  test::receive(*b, collector, 3);
  ASSERT_EQ(collector.frames.size(), 3u);
  EXPECT_EQ(collector.frames[1].flow.source_port, collector.frames[0].flow.source_port);
  EXPECT_EQ(collector.frames[2].flow.source_port, collector.frames[0].flow.source_port);
}

/// Bytes that wait in the socket bound to this endpoint, or -1 when there is no such socket.
long waiting_bytes(const Endpoint& endpoint) {
  std::uint32_t address = 0;
  std::memcpy(&address, &endpoint.address.raw[12], 4);
  std::array<char, 32> wanted;
  std::snprintf(wanted.data(), wanted.size(), "%08X:%04X", address, endpoint.port);
  std::ifstream table("/proc/net/udp");
  for (std::string line; std::getline(table, line);) {
    // "  sl: local remote state tx:rx ..."
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues;
    fields >> slot >> local >> remote >> state >> queues;
    if (local == wanted.data()) return std::stol(queues.substr(queues.find(':') + 1), nullptr, 16);
  }
  return -1;
}

TEST_F(UdpPorts, collect_little_of_what_is_sent_to_their_sending_sockets) {
  OutFrame frame;
  test::make_send(frame, 0);
  for (std::uint16_t asked = 0xC000; asked < 0xC000 + kSendSockets; ++asked) {
    ASSERT_EQ(send(frame, flow_to(b->address(), asked)).taken, 1u);
  }
  Collector collector;
  test::receive(*b, collector, kSendSockets);
  const test::PlainSocket flooder(test::random_ipv4());
  const Bytes junk(1000);
  for (const auto& received : collector.frames) {
    const Endpoint sender{a->address(), received.flow.source_port};
    for (int i = 0; i < 100; ++i) flooder.send(sender, junk);
    EXPECT_LT(waiting_bytes(sender), 16 * 1024) << sender.port;
  }
  // The measure itself works: the receiving socket does collect.
  flooder.send({a->address(), 4791}, junk);
  EXPECT_GT(waiting_bytes({a->address(), 4791}), 0);
}

TEST_F(UdpPorts, count_datagrams_that_are_too_short_or_too_long_as_malformed) {
  const test::PlainSocket foreign(test::random_ipv4());
  const Bytes longest = test::good_datagram(foreign.own(), a->address(), Bytes(4096));
  for (std::size_t size = 0; size < 16; ++size) {
    foreign.send({a->address(), 4791}, std::span(longest).first(size));
  }
  foreign.send({a->address(), 4791},
               test::good_datagram(foreign.own(), a->address(), Bytes(4096 + 512)));
  foreign.send({a->address(), 4791}, longest);
  Collector collector;
  test::receive(*a, collector, 18);
  EXPECT_EQ(collector.malformed, 17u);
  EXPECT_EQ(collector.bad_checksums, 0u);
  EXPECT_EQ(collector.frames.size(), 1u);
}

TEST_F(UdpPorts, report_vanished_payload_after_sending_what_came_before) {
  for (const std::size_t size : {64, 1024, 4096}) {
    for (const bool unmapped : {true, false}) {
      const memory::test::Pages pages(2);
      const std::span<std::byte> whole(pages.data(), size);
      const std::span<std::byte> gone(pages.page(1) - 32, size);
      unmapped ? pages.unmap(1) : pages.protect(1, PROT_NONE);
      std::array<OutFrame, 4> frames;
      test::make_send(frames[0], 0, {&whole, 1});
      test::make_send(frames[1], 1, {&whole, 1});
      test::make_send(frames[2], 2, {&gone, 1});
      test::make_send(frames[3], 3, {&whole, 1});
      std::vector<Outgoing> out;
      for (const auto& frame : frames) out.push_back({&frame, flow_to(b->address())});
      const SendOutcome outcome = a->send(out);
      EXPECT_EQ(outcome.status, SendStatus::kFaulted);
      EXPECT_EQ(outcome.taken, 2u);
      Collector collector;
      test::receive(*b, collector, 2);
      EXPECT_EQ(b->receive(collector, 8), 0u);
    }
  }
}

TEST_F(UdpPorts, go_on_when_the_network_does_not_take_a_frame) {
  // More than a UDP datagram holds, and nobody at the other end: neither is the caller's fault.
  Bytes huge(70'000);
  const std::span<std::byte> piece(huge);
  std::array<OutFrame, 2> frames;
  test::make_send(frames[0], 0, {&piece, 1});
  test::make_send(frames[1], 1);
  const std::array<Outgoing, 4> out{{{&frames[0], flow_to(b->address())},
                                     {&frames[1], flow_to(test::random_ipv4())},
                                     {&frames[1], flow_to(test::random_ipv4())},
                                     {&frames[1], flow_to(b->address())}}};
  for (int round = 0; round < 3; ++round) {
    const SendOutcome outcome = a->send(out);
    EXPECT_EQ(outcome.status, SendStatus::kTaken);
    EXPECT_EQ(outcome.taken, out.size());
    Collector collector;
    test::receive(*b, collector, 1);
    EXPECT_EQ(collector.frames.size(), 1u);
    EXPECT_EQ(b->receive(collector, 8), 0u);
  }
}

TEST_F(UdpPorts, hand_up_no_more_than_asked_for_and_never_block) {
  OutFrame frame;
  test::make_send(frame, 0);
  const std::vector<Outgoing> out(40, Outgoing{&frame, flow_to(b->address())});
  Collector collector;
  EXPECT_EQ(b->receive(collector, 8), 0u);
  EXPECT_FALSE(test::readable(test::wait_fds(*b)[0], 0));
  ASSERT_EQ(a->send(out).taken, 40u);
  EXPECT_TRUE(test::readable(test::wait_fds(*b)[0], 20'000));
  EXPECT_EQ(b->receive(collector, 0), 0u);
  EXPECT_EQ(b->receive(collector, 3), 3u);
  EXPECT_EQ(b->receive(collector, 100), 37u);
  EXPECT_EQ(collector.frames.size(), 40u);
  EXPECT_FALSE(test::readable(test::wait_fds(*b)[0], 0));
}

TEST_F(UdpPorts, offer_the_largest_mtu_on_loopback) { EXPECT_EQ(a->max_mtu(), Mtu::k4096); }

TEST_F(UdpPorts, keep_their_descriptors_from_programs_that_the_process_starts) {
  EXPECT_NE(fcntl(test::wait_fds(*a)[0], F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(test::wait_fds(*a)[0], F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(UdpPorts, refuse_an_address_in_use_and_name_the_cure_until_it_is_free) {
  const Gid address = a->address();
  const auto second = UdpPort::open(address);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::kBusy);
  EXPECT_THAT(second.error().message, HasSubstr(network::to_string(address)));
  EXPECT_THAT(second.error().message, HasSubstr("use another address"));
  a.reset();
  EXPECT_TRUE(UdpPort::open(address).has_value());
}

TEST(UdpPort, refuses_an_address_of_another_machine_and_names_the_cure) {
  const auto port = UdpPort::open(Gid::ipv4(203, 0, 113, 7));
  ASSERT_FALSE(port.has_value());
  EXPECT_EQ(port.error().code, Errc::kNotFound);
  EXPECT_THAT(port.error().message, HasSubstr("203.0.113.7"));
  EXPECT_THAT(port.error().message, HasSubstr("`ip address`"));
}

TEST(UdpPort, refuses_addresses_that_name_no_single_port) {
  for (const char* text : {"0.0.0.0", "::", "224.0.0.1", "ff02::1"}) {
    const auto port = UdpPort::open(network::parse_address(text).value());
    ASSERT_FALSE(port.has_value()) << text;
    EXPECT_EQ(port.error().code, Errc::kInvalidArgument) << text;
    EXPECT_THAT(port.error().message, HasSubstr(text));
  }
}

}  // namespace
}  // namespace weft::port
