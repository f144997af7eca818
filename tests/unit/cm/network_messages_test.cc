#include "cm/network_messages.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "cm/host_exchange.h"
#include "cm/provenance.h"
#include "cm/stray.h"

namespace weft::cm {
namespace {

const Gid kThisHost = Gid::ipv4(10, 1, 2, 3), kFarHost = Gid::ipv4(10, 1, 2, 4);

/// Above those that the other tests of this folder use at the same time.
Port unused_port() {
  static std::uint16_t next = 0;
  return Port(static_cast<std::uint16_t>(61'100 + (getpid() * 8 + next++) % 4000));
}

Packet from_far(Message message) { return {kFarHost, kThisHost, std::move(message), true}; }

template <class Question>
Packet question_for(Port port, const Gid& asked = kThisHost) {
  Question question;
  question.service = service_id(kUdpSpace, port);
  emit_ip_header({!asked.is_ipv4(), Port(1), kFarHost, asked}, question.private_data);
  return from_far({TransactionId(7), question});
}

Packet ready_for(CommId number) {
  ReadyToUse ready;
  ready.local = CommId(99);
  ready.remote = number;
  return from_far({TransactionId(8), ready});
}

std::optional<Packet> next_packet(HostExchange& exchange) {
  for (int i = 0; i < 100; ++i) {
    pollfd entry{exchange.fd(), POLLIN, 0};
    if (poll(&entry, 1, 50) != 1) continue;
    for (auto& arrival : exchange.collect()) {
      if (arrival.packet) return std::move(arrival.packet);
    }
  }
  return {};
}

TEST(ForwardLocally, brings_a_question_to_whoever_has_the_port) {
  auto server = HostExchange::create().value();
  const Port port = unused_port();
  ASSERT_TRUE(server.bind({kUdpSpace, port, Place::Kind::kAddress, kThisHost}, {}));
  ASSERT_EQ(forward_locally(question_for<Request>(port)), Forwarded::kTaken);
  EXPECT_EQ(next_packet(server), question_for<Request>(port));
  ASSERT_EQ(forward_locally(question_for<ServiceRequest>(port)), Forwarded::kTaken);
  EXPECT_EQ(next_packet(server), question_for<ServiceRequest>(port));
}

TEST(ForwardLocally, finds_a_port_that_is_bound_to_all_addresses) {
  auto server = HostExchange::create().value();
  const Port port = unused_port();
  ASSERT_TRUE(server.bind({kUdpSpace, port, Place::Kind::kAnyIpv4}, {}));
  ASSERT_EQ(forward_locally(question_for<Request>(port)), Forwarded::kTaken);
  EXPECT_EQ(next_packet(server), question_for<Request>(port));
  Gid ipv6;
  ipv6.raw[0] = 0xFD;
  Packet packet = question_for<Request>(port, ipv6);
  packet.destination = ipv6;
  EXPECT_EQ(forward_locally(packet), Forwarded::kNobody);
}

TEST(ForwardLocally, brings_an_answer_to_whoever_has_the_number) {
  auto first = HostExchange::create().value(), second = HostExchange::create().value();
  const auto one = first.claim_block(base::system_random()),
             other = second.claim_block(base::system_random());
  ASSERT_TRUE(one && other);
  ASSERT_NE(*one, *other);
  const Packet packet = ready_for(CommId(std::uint32_t{other->value} << 16 | 5));
  ASSERT_EQ(forward_locally(packet), Forwarded::kTaken);
  EXPECT_EQ(next_packet(second), packet);
}

TEST(ForwardLocally, keeps_the_order_of_messages) {
  auto server = HostExchange::create().value();
  const auto block = server.claim_block(base::system_random());
  ASSERT_TRUE(block);
  const auto numbered = [&](std::uint32_t i) {
    return ready_for(CommId(std::uint32_t{block->value} << 16 | i));
  };
  // In bursts as a disconnect right behind the begin makes them, and longer ones.
  std::uint32_t sent = 0, seen = 0;
  for (const std::uint32_t burst : {2, 3, 200}) {
    for (std::uint32_t i = 0; i < burst; ++i) {
      ASSERT_EQ(forward_locally(numbered(sent++)), Forwarded::kTaken);
    }
    for (int round = 0; round < 1000 && seen < sent; ++round) {
      // As the agent waits. It moves what it finds to the end of the kernel's list.
      epoll_event first;
      ASSERT_EQ(epoll_wait(server.fd(), &first, 1, 20'000), 1);
      for (const auto& arrival : server.collect()) {
        if (!arrival.packet) continue;
        ASSERT_EQ(arrival.packet, numbered(seen));
        ++seen;
      }
    }
    ASSERT_EQ(seen, sent);
  }
}

TEST(ForwardLocally, leaves_nothing_to_be_told_when_it_ends) {
  auto server = HostExchange::create().value();
  const auto block = server.claim_block(base::system_random());
  ASSERT_TRUE(block);
  const Packet packet = ready_for(CommId(std::uint32_t{block->value} << 16 | 5));
  ASSERT_EQ(forward_locally(packet), Forwarded::kTaken);
  std::vector<Arrival> arrivals;
  pollfd entry{server.fd(), POLLIN, 0};
  while (poll(&entry, 1, arrivals.empty() ? 20'000 : 0) == 1) {
    for (auto& each : server.collect()) arrivals.push_back(std::move(each));
  }
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].packet, packet);
}

TEST(ForwardLocally, says_when_it_is_for_nobody) {
  EXPECT_EQ(forward_locally(question_for<Request>(unused_port())), Forwarded::kNobody);
  EXPECT_EQ(forward_locally(ready_for(CommId(0))), Forwarded::kNobody);
  CommIdBlock gone;
  {
    auto exchange = HostExchange::create().value();
    gone = exchange.claim_block(base::system_random()).value();
  }
  EXPECT_EQ(forward_locally(ready_for(CommId(std::uint32_t{gone.value} << 16 | 5))),
            Forwarded::kNobody);
}

TEST(ForwardLocally, brings_a_question_to_the_address_where_its_frame_arrived) {
  auto server = HostExchange::create().value();
  const Gid loopback = Gid::ipv4(127, 0, 0, 1), other = Gid::ipv4(10, 1, 2, 9);
  const Port port = unused_port();
  ASSERT_TRUE(server.bind({kUdpSpace, port, Place::Kind::kAddress, loopback}, {}));
  ASSERT_TRUE(server.bind({kUdpSpace, port, Place::Kind::kAddress, other}, {}));
  // Whatever the private data claims.
  for (const Gid& claimed : {loopback, other}) {
    EXPECT_EQ(forward_locally(question_for<Request>(port, claimed)), Forwarded::kNobody);
    EXPECT_EQ(forward_locally(question_for<ServiceRequest>(port, claimed)), Forwarded::kNobody);
  }
}

template <class Question>
void expect_truth() {
  const Packet honest = question_for<Question>(Port(1));
  EXPECT_TRUE(is_credible(honest));
  const Gid other = Gid::ipv4(10, 1, 2, 9), loopback = Gid::ipv4(127, 0, 0, 1);
  for (const Gid& lie : {other, loopback, Gid{}, Gid::ipv4(255, 255, 255, 255)}) {
    EXPECT_FALSE(is_credible(question_for<Question>(Port(1), lie))) << "another destination";
    Packet packet = honest;
    packet.source = lie;
    EXPECT_FALSE(is_credible(packet)) << "another source";
  }
  Packet headless = honest;
  std::get<Question>(headless.message.body).private_data = {};
  std::get<Question>(headless.message.body).private_data[1] = std::byte{0x50};
  EXPECT_TRUE(is_credible(headless)) << "it claims nothing";
}

TEST(Provenance, what_a_question_claims_must_be_what_the_frame_says) {
  expect_truth<Request>();
  expect_truth<ServiceRequest>();
}

TEST(Provenance, an_ipv4_address_in_an_ipv6_header_is_the_same_address) {
  Packet packet = question_for<Request>(Port(1));
  emit_ip_header({true, Port(1), kFarHost, kThisHost},
                 std::get<Request>(packet.message.body).private_data);
  EXPECT_TRUE(is_credible(packet));
}

TEST(Provenance, no_frame_crosses_the_border_of_loopback_or_comes_to_a_group) {
  const Gid loopback = Gid::ipv4(127, 0, 0, 1), group = Gid::ipv4(239, 1, 2, 3);
  const auto credible = [](const Gid& from, const Gid& to) {
    return is_credible({from, to, {TransactionId(8), ReadyToUse{}}, true});
  };
  EXPECT_TRUE(credible(kFarHost, kThisHost));
  EXPECT_TRUE(credible(Gid::ipv4(127, 0, 0, 2), loopback));
  EXPECT_FALSE(credible(kFarHost, loopback));
  EXPECT_FALSE(credible(loopback, kThisHost));
  EXPECT_FALSE(credible(kFarHost, group));
  EXPECT_FALSE(credible(group, kThisHost));
}

template <class Body>
Body stray_answer(const Message& message) {
  const auto answer = answer_to_stray(message);
  EXPECT_TRUE(answer);
  if (!answer) return {};
  EXPECT_EQ(answer->transaction, message.transaction);
  EXPECT_TRUE(std::holds_alternative<Body>(answer->body));
  return std::get<Body>(answer->body);
}

TEST(Stray, questions_are_told_that_nobody_serves) {
  Request request;
  request.local = CommId(5);
  const auto reject = stray_answer<Reject>({TransactionId(1), request});
  EXPECT_EQ(reject.remote, CommId(5));
  EXPECT_EQ(reject.reason, RejectReason::kInvalidServiceId);
  ServiceRequest question;
  question.request = CommId(6);
  const auto reply = stray_answer<ServiceReply>({TransactionId(2), question});
  EXPECT_EQ(reply.request, CommId(6));
  EXPECT_EQ(reply.status, ServiceStatus::kUnsupported);
}

TEST(Stray, ends_of_unknown_connections_are_confirmed_and_their_begins_refused) {
  const auto confirmed = stray_answer<DisconnectReply>(
      {TransactionId(3), DisconnectRequest{CommId(7), CommId(8), Qpn(9), {}}});
  EXPECT_EQ(confirmed.local, CommId(8));
  EXPECT_EQ(confirmed.remote, CommId(7));
  Reply late;
  late.local = CommId(10);
  late.remote = CommId(11);
  const auto reject = stray_answer<Reject>({TransactionId(4), late});
  EXPECT_EQ(reject.remote, CommId(10));
  EXPECT_EQ(reject.about, About::kReply);
  EXPECT_EQ(reject.reason, RejectReason::kInvalidCommId);
}

TEST(Stray, what_answers_gets_no_answer) {
  EXPECT_FALSE(answer_to_stray({TransactionId(5), Reject{}}));
  EXPECT_FALSE(answer_to_stray({TransactionId(5), ReadyToUse{}}));
  EXPECT_FALSE(answer_to_stray({TransactionId(5), DisconnectReply{}}));
  EXPECT_FALSE(answer_to_stray({TransactionId(5), ServiceReply{}}));
}

}  // namespace
}  // namespace weft::cm
