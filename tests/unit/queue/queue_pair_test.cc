// Posting to a send queue, with each way of doing it wrong, and the flush.
#include "queue/queue_pair.h"

#include <gtest/gtest.h>

#include <string>

#include "support/queue_end.h"

namespace weft::test {
namespace {

using queue::QpEvent;

class Post : public testing::Test {
 protected:
  /// The request is refused like this, and the queue is as it was.
  void expect_refused(QueueEnd& on, const SendRequest& request, Errc code,
                      const std::string& message) {
    const std::uint32_t before = on.qp.sq.tail();
    const auto posted = on.post_send(request);
    ASSERT_FALSE(posted);
    EXPECT_EQ(posted.error().code, code);
    EXPECT_EQ(posted.error().message, message);
    EXPECT_EQ(on.qp.sq.tail(), before);
  }
  static EndSetup with(Service service) {
    EndSetup setup;
    setup.service = service;
    setup.limits = {3, 3, 2, 2, 64};
    setup.attributes.path_mtu = Mtu::k1024;
    return setup;
  }

  QueueEnd end{with(Service::kReliableConnection)};
  QueueEnd datagrams{with(Service::kUnreliableDatagram)};
  QueueEnd unreliable{with(Service::kUnreliableConnection)};
};

TEST_F(Post, keeps_what_the_request_says) {
  const Sge list[] = {end.sge(0, 10), end.sge(100, 20)};
  SendRequest request{.wr_id = 5, .op = SendOp::kWriteImmediate, .sges = list, .immediate = 9};
  request.remote = {0x123, RemoteKey(0x456)};
  ASSERT_TRUE(end.post_send(request));
  const queue::SendWqe& wqe = end.qp.sq.front();
  EXPECT_EQ(wqe.wr_id, 5u);
  EXPECT_EQ(wqe.length, 30u);
  EXPECT_EQ(wqe.immediate, 9u);
  EXPECT_EQ(wqe.rdma.remote.address, 0x123u);
  EXPECT_EQ(wqe.sge_list().size(), 2u);
  EXPECT_EQ(wqe.sge_list()[1].length, 20u);
  EXPECT_TRUE(wqe.signaled());
}

TEST_F(Post, signals_everything_on_a_queue_pair_that_does) {
  end.qp.signal_all = true;
  ASSERT_TRUE(end.post_send({.wr_id = 1, .flags = SendFlags::kNone}));
  EXPECT_TRUE(end.qp.sq.front().signaled());
}

TEST_F(Post, copies_inline_data_at_once_and_needs_no_key) {
  fill_pattern(end.memory().first(64), 1);
  const Sge list[] = {{end.address(), 30, LocalKey(0xBAD)},
                      {end.address(30), 0, LocalKey(0)},
                      {end.address(30), 34, LocalKey(0)}};
  ASSERT_TRUE(end.post_send({.flags = SendFlags::kInline, .sges = list}));
  const auto expected = end.copy_of(0, 64);
  fill_pattern(end.memory().first(64), 2);
  const queue::SendWqe& wqe = end.qp.sq.front();
  EXPECT_EQ(std::vector(wqe.inline_bytes(), wqe.inline_bytes() + 64), expected);
}

TEST_F(Post, refuses_what_the_service_does_not_have) {
  const std::pair<SendOp, std::string> rdma[] = {{SendOp::kSendInvalidate, "send with invalidate"},
                                                 {SendOp::kRead, "read"},
                                                 {SendOp::kCompareSwap, "compare and swap"},
                                                 {SendOp::kFetchAdd, "fetch and add"}};
  for (const auto& [op, name] : rdma) {
    expect_refused(unreliable, {.op = op}, Errc::kNotSupported,
                   "op: the UC service has no " + name);
    expect_refused(datagrams, {.op = op}, Errc::kNotSupported, "op: the UD service has no " + name);
  }
  const std::pair<SendOp, std::string> connected[] = {
      {SendOp::kWrite, "write"},
      {SendOp::kWriteImmediate, "write with immediate"},
      {SendOp::kBind, "bind"},
      {SendOp::kLocalInvalidate, "local invalidate"}};
  for (const auto& [op, name] : connected) {
    expect_refused(datagrams, {.op = op}, Errc::kNotSupported, "op: the UD service has no " + name);
    EXPECT_TRUE(unreliable.post_send({.op = op}));
    unreliable.qp.sq.pop();
  }
  for (QueueEnd* any : {&end, &unreliable, &datagrams}) {
    EXPECT_TRUE(any->post_send({.op = SendOp::kDelay, .delay_ns = 1}));
  }
}

TEST_F(Post, refuses_a_list_that_is_too_long) {
  const Sge list[3] = {};
  expect_refused(end, {.sges = list}, Errc::kInvalidArgument,
                 "sges: 3 elements, but the queue pair was created with at most 2");
}

TEST_F(Post, refuses_too_many_inline_bytes) {
  const Sge list[] = {end.sge(0, 60), end.sge(0, 5)};
  expect_refused(end, {.flags = SendFlags::kInline, .sges = list}, Errc::kInvalidArgument,
                 "sges: 65 bytes inline, but the queue pair was created with at most 64");
}

TEST_F(Post, refuses_inline_data_with_operations_that_send_none) {
  const Sge one = end.sge(0, 8);
  expect_refused(end, {.op = SendOp::kRead, .flags = SendFlags::kInline, .sges = {&one, 1}},
                 Errc::kInvalidArgument,
                 "flags: inline data goes with send and write, not with read");
  expect_refused(end, {.op = SendOp::kFetchAdd, .flags = SendFlags::kInline, .sges = {&one, 1}},
                 Errc::kInvalidArgument,
                 "flags: inline data goes with send and write, not with fetch and add");
}

TEST_F(Post, refuses_inline_data_that_cannot_be_read) {
  const Sge list[] = {end.sge(0, 8), Sge{0x10, 8, LocalKey(0)}};
  expect_refused(end, {.flags = SendFlags::kInline, .sges = list}, Errc::kBadAddress,
                 "sges[1]: 8 bytes at 0x10 cannot be read");
}

TEST_F(Post, takes_a_message_of_2_31_bytes_and_refuses_one_more) {
  const Sge list[] = {end.sge(0, 1u << 30), end.sge(0, 1u << 30)};
  EXPECT_TRUE(end.post_send({.op = SendOp::kWrite, .sges = list}));
  EXPECT_EQ(end.qp.sq.front().length, 1u << 31);
  const Sge more[] = {end.sge(0, 1u << 31), end.sge(0, 1)};
  expect_refused(end, {.op = SendOp::kWrite, .sges = more}, Errc::kInvalidArgument,
                 "sges: 2147483649 bytes, but a message has at most 2147483648");
  const Sge wraps[] = {end.sge(0, 0xFFFFFFFF), end.sge(0, 1)};
  expect_refused(end, {.op = SendOp::kRead, .sges = wraps}, Errc::kInvalidArgument,
                 "sges: 4294967296 bytes, but a message has at most 2147483648");
}

TEST_F(Post, refuses_a_datagram_longer_than_the_mtu) {
  const Sge fits = datagrams.sge(0, 1024);
  EXPECT_TRUE(datagrams.post_send({.sges = {&fits, 1}}));
  const Sge over = datagrams.sge(0, 1025);
  expect_refused(datagrams, {.sges = {&over, 1}}, Errc::kInvalidArgument,
                 "sges: 1025 bytes, but a datagram has at most 1024 (the path MTU)");
}

TEST_F(Post, refuses_an_atomic_with_another_result_than_8_bytes) {
  for (const std::uint32_t length : {0u, 7u, 9u}) {
    const Sge one = end.sge(0, length);
    expect_refused(end, {.op = SendOp::kCompareSwap, .sges = {&one, 1}}, Errc::kInvalidArgument,
                   "sges: an atomic returns 8 bytes, the list has " + std::to_string(length));
  }
  const Sge list[] = {end.sge(0, 3), end.sge(10, 5)};
  EXPECT_TRUE(end.post_send({.op = SendOp::kFetchAdd, .sges = list}));
}

TEST_F(Post, refuses_more_than_the_queue_holds) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(end.post_send({}));
  expect_refused(end, {}, Errc::kQueueFull, "send queue full: all 3 elements are outstanding");
  end.qp.sq.pop();
  EXPECT_TRUE(end.post_send({}));
}

class Flush : public Post {
 protected:
  void SetUp() override {
    for (std::uint64_t i = 1; i <= 2; ++i) {
      ASSERT_TRUE(end.post_send({.wr_id = i, .flags = SendFlags::kNone}));
      end.post_receive(10 + i, 0, 8);
    }
  }
};

TEST_F(Flush, completes_everything_once_signaled_or_not) {
  queue::fail_queue_pair(end.qp);
  EXPECT_EQ(end.scheduler.soon, 1);
  queue::fail_queue_pair(end.qp);
  EXPECT_EQ(end.scheduler.soon, 1) << "it fails once";
  EXPECT_EQ(end.send_cq.size(), 0u) << "the flush is the scheduler's";
  queue::flush(end.qp);
  queue::flush(end.qp);
  const auto sends = end.take_sends();
  const auto receives = end.take_receives();
  ASSERT_EQ(sends.size(), 2u);
  ASSERT_EQ(receives.size(), 2u);
  for (std::uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sends[i].wr_id, i + 1);
    EXPECT_EQ(sends[i].status, CompletionStatus::kFlushed);
    EXPECT_EQ(receives[i].wr_id, i + 11);
    EXPECT_EQ(receives[i].status, CompletionStatus::kFlushed);
    EXPECT_EQ(receives[i].qpn, end.qp.qpn);
  }
}

TEST_F(Flush, takes_what_is_posted_after_the_error_too) {
  queue::fail_queue_pair(end.qp);
  queue::flush(end.qp);
  end.take_sends(), end.take_receives();
  ASSERT_TRUE(end.post_send({.wr_id = 3}));
  end.post_receive(13, 0, 8);
  queue::flush(end.qp);
  EXPECT_EQ(end.take_sends().size(), 1u);
  EXPECT_EQ(end.take_receives().size(), 1u);
}

TEST_F(Flush, does_nothing_in_states_without_an_error) {
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kReadyToReceive,
                              QpState::kReadyToSend, QpState::kSendQueueDrained}) {
    end.qp.state = state;
    queue::flush(end.qp);
    EXPECT_TRUE(end.take_sends().empty()) << to_string(state);
    EXPECT_TRUE(end.take_receives().empty()) << to_string(state);
  }
}

TEST_F(Flush, leaves_the_receives_alone_when_only_the_send_queue_failed) {
  end.qp.state = QpState::kSendQueueError;
  queue::flush(end.qp);
  EXPECT_EQ(end.take_sends().size(), 2u);
  EXPECT_TRUE(end.take_receives().empty());
  EXPECT_EQ(end.qp.rq->posted(), 2u);
}

TEST_F(Flush, leaves_a_shared_queue_alone_and_tells_once_that_no_more_is_taken) {
  queue::ReceiveQueue srq;
  srq.configure(4, 1);
  ASSERT_TRUE(srq.post({1, {}}));
  end.qp.shared_receive = &srq;
  queue::fail_queue_pair(end.qp);
  queue::flush(end.qp);
  queue::flush(end.qp);
  EXPECT_EQ(srq.posted(), 1u);
  EXPECT_EQ(end.sink.count(QpEvent::kLastReceiveReached), 1u);
}

TEST_F(Flush, does_not_bring_a_reset_queue_pair_into_error) {
  end.qp.state = QpState::kReset;
  queue::fail_queue_pair(end.qp);
  EXPECT_EQ(end.state(), QpState::kReset);
  EXPECT_EQ(end.scheduler.soon, 0);
}

TEST_F(Flush, tells_the_operation_of_each_request) {
  const std::pair<SendOp, CompletionOp> kinds[] = {
      {SendOp::kSend, CompletionOp::kSend},
      {SendOp::kSendImmediate, CompletionOp::kSend},
      {SendOp::kSendInvalidate, CompletionOp::kSend},
      {SendOp::kWrite, CompletionOp::kWrite},
      {SendOp::kWriteImmediate, CompletionOp::kWrite},
      {SendOp::kRead, CompletionOp::kRead},
      {SendOp::kCompareSwap, CompletionOp::kCompareSwap},
      {SendOp::kFetchAdd, CompletionOp::kFetchAdd},
      {SendOp::kBind, CompletionOp::kBind},
      {SendOp::kLocalInvalidate, CompletionOp::kLocalInvalidate},
      {SendOp::kDelay, CompletionOp::kDelay}};
  const Sge one = end.sge(0, 8);
  for (const auto& [op, expected] : kinds) {
    QueueEnd other(with(Service::kReliableConnection));
    ASSERT_TRUE(other.post_send({.op = op, .sges = {&one, 1}})) << to_string(op);
    queue::complete_front(other.qp, CompletionStatus::kSuccess, 3);
    const auto done = other.take_sends();
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].op, expected) << to_string(op);
    EXPECT_EQ(done[0].byte_count, 3u);
  }
}

}  // namespace
}  // namespace weft::test
