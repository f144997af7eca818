// The unreliable services over every path: connection and datagram, what arrives and what is lost.
#include <array>

#include "obs/counters.h"
#include "support/path_suite.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kGrh = 40;
constexpr QKey kQKey{0x1234};

QueuePairOptions of(Service service) {
  QueuePairOptions options;
  options.service = service;
  return options;
}

class PathUnreliable : public PathSuite {
 protected:
  Link connect_uc(const QueuePairAttributes& attributes = {}) {
    return connect(of(Service::kUnreliableConnection), attributes);
  }
  Link activate_ud() {
    const QueuePairOptions options = of(Service::kUnreliableDatagram);
    Link link{a.create(options), b.create(options)};
    must(link.a.activate(kQKey));
    must(link.b.activate(kQKey));
    return link;
  }
  SendRequest datagram(const Link& link, std::uint64_t wr_id) const {
    SendRequest request{.wr_id = wr_id};
    request.destination = must(a.pd.create_address_handle({.gid = b.device.address()})).vector();
    request.destination_qpn = link.b.number();
    request.destination_qkey = kQKey;
    return request;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PathUnreliable, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathUnreliable, connection_carries_sends_and_writes) {
  QueuePairAttributes attributes;
  attributes.path_mtu = Mtu::k1024;
  Link link = connect_uc(attributes);
  Memory near(a, 20'000), far(b, 20'000), inbox(b, 20'000);
  std::uint64_t wr_id = 0;
  for (const std::uint32_t size : {0u, 1u, 1023u, 1024u, 1025u, 20'000u}) {
    SCOPED_TRACE(size);
    near.fill(size);
    post_receive(link.b, 50, {inbox.sge()});
    post_receive(link.b, 51, {inbox.sge()});
    post(link.a, {.wr_id = ++wr_id, .op = SendOp::kSend}, {near.sge(0, size)});
    EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, size));
    EXPECT_TRUE(is_done(next(a.sends), wr_id, CompletionOp::kSend, size));
    EXPECT_TRUE(inbox.holds(size, 0, size));
    post(link.a,
         {.wr_id = ++wr_id,
          .op = SendOp::kWriteImmediate,
          .immediate = size,
          .remote = far.remote()},
         {near.sge(0, size)});
    const Completion received = next(b.receives);
    EXPECT_TRUE(is_done(received, 51, CompletionOp::kReceiveWriteImmediate, size));
    EXPECT_EQ(received.immediate, size);
    EXPECT_TRUE(is_done(next(a.sends), wr_id, CompletionOp::kWrite, size));
    EXPECT_TRUE(far.holds(size, 0, size));
  }
}

TEST_P(PathUnreliable, connection_reports_a_bad_gather_list_although_nobody_listens) {
  Link link = connect_uc();
  Memory near(a, 64);
  Sge bad = near.sge();
  bad.lkey.value ^= 1;
  post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {bad});  // and the peer has no buffer
  const Completion completion = next(a.sends);
  EXPECT_EQ(completion.wr_id, 1u);
  EXPECT_EQ(completion.status, CompletionStatus::kLocalProtectionError);
}

TEST_P(PathUnreliable, connection_drops_what_the_peer_refuses_and_goes_on) {
  // B4.9: memory untouched, no harm to either queue pair.
  Link link = connect_uc();
  Memory near(a, 64), far(b, 64), inbox(b, 64);
  near.fill(1);
  post_receive(link.b, 50, {inbox.sge()});
  post(link.a, {.wr_id = 1, .op = SendOp::kWrite, .remote = far.remote(1)}, {near.sge()});
  post(link.a, {.wr_id = 2, .op = SendOp::kWriteImmediate, .remote = {0, RemoteKey(77)}},
       {near.sge()});
  post(link.a, {.wr_id = 3, .op = SendOp::kSend}, {near.sge()});
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(next(a.sends).wr_id, i);
  EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 64));
  EXPECT_TRUE(inbox.holds(1));
  EXPECT_TRUE(far.is_zero());
  EXPECT_EQ(link.b.state(), QpState::kReadyToSend);
  EXPECT_EQ(b.device.controller()->counters().get(obs::Counter::kRefusedAccesses), 2u);
}

TEST_P(PathUnreliable, connection_drops_sends_that_find_no_buffer) {
  Link link = connect_uc();
  Memory near(a, 8), inbox(b, 8);
  near.fill(2);
  post(link.a, {.wr_id = 1, .op = SendOp::kSendImmediate, .immediate = 1}, {near.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 8));
  pump_a_while();
  const auto dropped = [&] {
    return b.device.controller()->counters().get(obs::Counter::kDroppedMessages) == 1;
  };
  EXPECT_TRUE(!framed() || wait_until(dropped));
  post_receive(link.b, 50, {inbox.sge()});
  post(link.a, {.wr_id = 2, .op = SendOp::kSendImmediate, .immediate = 2}, {near.sge()});
  EXPECT_EQ(next(b.receives).immediate, 2u);
  EXPECT_TRUE(dropped());
}

TEST_P(PathUnreliable, connection_has_no_reads_atomics_or_invalidating_sends) {
  Link link = connect_uc();
  Memory near(a, 8), far(b, 8);
  const Sge sge = near.sge();
  for (const SendOp op : {SendOp::kRead, SendOp::kRead, SendOp::kCompareSwap, SendOp::kFetchAdd,
                          SendOp::kSendInvalidate}) {
    const auto refused =
        link.a.post_send(SendRequest{.op = op, .sges = {&sge, 1}, .remote = far.remote()});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::kNotSupported);
  }
}

TEST_P(PathUnreliable, connection_binds_windows_in_order_with_its_sends) {
  // B4.6
  Link link = connect_uc();
  Memory far(b, 64), near(a, 8);
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  post_receive(link.a, 50);
  must(link.b.post_send(window.bind_request(far.region, 8, 8, Access::kRemoteWrite)));
  post(link.b, {.wr_id = 2, .op = SendOp::kSend});
  EXPECT_TRUE(is_done(next(b.sends), 0, CompletionOp::kBind, 0));
  EXPECT_TRUE(next(a.receives).ok());
  near.fill(3);
  post_receive(link.b, 51);
  post(link.a, {.op = SendOp::kWriteImmediate, .remote = {far.region.address() + 8, window.rkey()}},
       {near.sge()});
  EXPECT_TRUE(next(b.receives).ok());
  EXPECT_TRUE(far.holds(3, 8, 8));
}

TEST_P(PathUnreliable, datagrams_bring_their_header_along) {
  // B2.3
  Link link = activate_ud();
  Memory near(a, 100), inbox(b, 200);
  near.fill(4);
  post_receive(link.b, 50, {inbox.sge()});
  post(link.a, datagram(link, 1), {near.sge(0, 33), near.sge(33, 67)});
  const Completion received = next(b.receives);
  EXPECT_TRUE(is_done(received, 50, CompletionOp::kReceive, kGrh + 100));
  EXPECT_TRUE(received.has_grh);
  EXPECT_EQ(received.source_qp, link.a.number());
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 100));
  EXPECT_TRUE(inbox.holds(4, kGrh, 100));

  // BTH, DETH, payload and ICRC behind the UDP header.
  constexpr std::size_t kTransport = 12 + 8 + 100 + 4;
  const auto header = std::span(inbox.bytes).first(kGrh);
  if (a.device.address().is_ipv4()) {
    const auto ip = wire::Ipv4::parse(header.subspan(20)).value();
    EXPECT_EQ(ip.total_length, 20 + 8 + kTransport);
    EXPECT_EQ(ip.source_gid(), a.device.address());
    EXPECT_EQ(ip.destination_gid(), b.device.address());
  } else {
    const auto ip = wire::Ipv6::parse(header).value();
    EXPECT_EQ(ip.payload_length, 8 + kTransport);
    EXPECT_EQ(ip.source, a.device.address());
    EXPECT_EQ(ip.destination, b.device.address());
  }
}

TEST_P(PathUnreliable, datagrams_of_all_sizes_up_to_the_mtu_arrive) {
  Link link = activate_ud();
  Memory near(a, 4096), inbox(b, 4096 + kGrh);
  for (const std::uint32_t size : {0u, 1u, 2u, 3u, 4095u, 4096u}) {
    near.fill(size);
    post_receive(link.b, 50, {inbox.sge()});
    SendRequest request = datagram(link, 1);
    request.op = SendOp::kSendImmediate;
    request.immediate = size + 1;
    post(link.a, request, {near.sge(0, size)});
    const Completion received = next(b.receives);
    EXPECT_TRUE(is_done(received, 50, CompletionOp::kReceive, kGrh + size));
    EXPECT_TRUE(received.has_immediate);
    EXPECT_EQ(received.immediate, size + 1);
    EXPECT_TRUE(inbox.holds(size, kGrh, size));
    EXPECT_TRUE(next(a.sends).ok());
  }
}

TEST_P(PathUnreliable, datagrams_under_another_q_key_are_dropped) {
  // B2.3
  Link link = activate_ud();
  Memory near(a, 8), inbox(b, 48);
  post_receive(link.b, 50, {inbox.sge()});
  SendRequest wrong = datagram(link, 1);
  wrong.destination_qkey = QKey(kQKey.value + 1);
  post(link.a, wrong, {near.sge()});
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 8));
  SendRequest right = datagram(link, 2);
  right.op = SendOp::kSendImmediate, right.immediate = 2;
  post(link.a, right, {near.sge()});
  EXPECT_EQ(next(b.receives).immediate, 2u);
  EXPECT_EQ(b.device.controller()->counters().get(obs::Counter::kBadQKey), 1u);
}

TEST_P(PathUnreliable, one_datagram_queue_pair_hears_many) {
  // B2.3
  Link link = activate_ud();
  const Node c(open());
  QueuePair third = c.create(of(Service::kUnreliableDatagram));
  must(third.activate(kQKey));
  Memory at_a(a, 8), at_c(c, 8), inbox(b, 96);
  post_receive(link.b, 50, {inbox.sge(0, 48)});
  post(link.a, datagram(link, 1), {at_a.sge()});
  EXPECT_EQ(next(b.receives).source_qp, link.a.number());
  post_receive(link.b, 51, {inbox.sge(48, 48)});
  post(third, datagram(link, 2), {at_c.sge()});
  EXPECT_EQ(next(b.receives).source_qp, third.number());
}

TEST_P(PathUnreliable, a_datagram_too_long_for_its_buffer_fails_that_buffer_only) {
  Link link = activate_ud();
  Memory near(a, 100), inbox(b, 300);
  near.fill(5);
  post_receive(link.b, 50, {inbox.sge(0, 139)});
  post(link.a, datagram(link, 1), {near.sge()});
  EXPECT_TRUE(has_failed(next(b.receives), 50, CompletionStatus::kLocalLengthError));
  EXPECT_TRUE(inbox.is_zero(139, 161));
  EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, 100));
}

TEST_P(PathUnreliable, an_error_of_its_own_stops_the_send_queue_until_it_is_resumed) {
  for (const Service service : {Service::kUnreliableConnection, Service::kUnreliableDatagram}) {
    SCOPED_TRACE(to_string(service));
    const bool datagrams = service == Service::kUnreliableDatagram;
    Link link = datagrams ? activate_ud() : connect_uc();
    Memory near(a, 8), inbox(b, 64);
    near.fill(6);
    const std::uint32_t shift = datagrams ? kGrh : 0;
    post_receive(link.b, 50, {inbox.sge()});
    post_receive(link.b, 51, {inbox.sge()});
    post_receive(link.a, 60, {near.sge()});
    const Sge good = near.sge(), bad{good.address, 8, LocalKey(good.lkey.value ^ 0x100)};
    std::array<SendRequest, 3> requests;
    for (std::size_t i = 0; i < 3; ++i) {
      requests[i] = datagrams ? datagram(link, i) : SendRequest{.wr_id = i};
      requests[i].sges = {i == 1 ? &bad : &good, 1};
    }
    std::size_t posted = 0;
    must(link.a.post_send(requests, &posted));
    EXPECT_TRUE(is_done(next(a.sends), 0, CompletionOp::kSend, 8));
    EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kLocalProtectionError));
    EXPECT_TRUE(has_failed(next(a.sends), 2, CompletionStatus::kFlushed));
    EXPECT_EQ(link.a.state(), QpState::kSendQueueError);
    EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, 8 + shift));
    EXPECT_TRUE(is_quiet(b.receives)) << "the failed one was never sent";
    EXPECT_TRUE(is_quiet(a.receives)) << "receiving goes on";

    must(link.a.modify(QpState::kReadyToSend));
    requests[2].wr_id = 3;
    must(link.a.post_send(requests[2]));
    EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kSend, 8));
    EXPECT_TRUE(is_done(next(b.receives), 51, CompletionOp::kReceive, 8 + shift));
    EXPECT_TRUE(inbox.holds(6, shift, 8));
  }
}

TEST_P(PathUnreliable, delay_holds_these_queues_too) {
  for (const bool datagrams : {false, true}) {
    Link link = datagrams ? activate_ud() : connect_uc();
    Memory near(a, 8), inbox(b, 64);
    post_receive(link.b, 50, {inbox.sge()});
    const auto start = Steady::now();
    post(link.a, {.wr_id = 1, .op = SendOp::kDelay, .delay_ns = 10'000'000});
    post(link.a, datagrams ? datagram(link, 2) : SendRequest{.wr_id = 2}, {near.sge()});
    EXPECT_TRUE(next(b.receives).ok());
    EXPECT_GE(Steady::now() - start, std::chrono::milliseconds(10));
    EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kDelay, 0));
    EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kSend, 8));
  }
}

}  // namespace
}  // namespace weft::test
