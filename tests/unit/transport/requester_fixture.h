// A requester and a test that plays its peer and its clock. One thread.
#pragma once

#include <gtest/gtest.h>

#include "support/transport_end.h"
#include "transport/message.h"
#include "transport/timing.h"
#include "unit/transport/small_mtu.h"

namespace weft::test {

inline constexpr Psn kSendPsn{0xFFFFFD};  // every longer test wraps

inline EndSetup requester_setup() {
  EndSetup setup;
  setup.attributes.path_mtu = Mtu::k256;
  setup.attributes.send_psn = kSendPsn;
  setup.attributes.max_rd_atomic = 4;
  setup.attributes.timeout = 16;  // the shortest that counts as it is
  setup.attributes.retry_count = 3;
  setup.attributes.rnr_retry = 2;
  return setup;
}

class Requester : public testing::Test {
 protected:
  using Opcode = wire::Opcode;
  using NakCode = wire::NakCode;

  static constexpr Nanoseconds kTimeout = transport::ack_timeout_ns(16);

  void post(std::uint64_t wr_id, SendOp op, std::uint32_t length, SendRequest request = {}) {
    const Sge one = end.sge(0, length);
    request.wr_id = wr_id;
    request.op = op;
    if (!transport::is_local(op)) request.sges = {&one, 1};
    request.remote = {0x1000, RemoteKey(0x77)};
    ASSERT_TRUE(end.post_send(request).has_value());
  }

  Frame ack_frame(Psn psn, wire::Aeth aeth) {
    wire::Packet packet = headers_of(Opcode::kRcAcknowledge, psn);
    packet.aeth = aeth;
    return forge(packet);
  }
  void ack(std::uint32_t at) { end.deliver(ack_frame(kSendPsn + at, wire::Aeth::ack(0))); }
  void nak(std::uint32_t at, NakCode code) {
    end.deliver(ack_frame(kSendPsn + at, wire::Aeth::nak(0, code)));
  }
  void rnr(std::uint32_t at, std::uint8_t timer = 1) {
    end.deliver(ack_frame(kSendPsn + at, wire::Aeth::rnr_nak(0, timer)));
  }
  /// `opcode`: which of the read responses; requesters look at the length.
  void read_data(std::uint32_t at, std::size_t n, std::uint32_t seed = 1,
                 Opcode opcode = Opcode::kRcReadResponseMiddle) {
    std::vector<std::byte> bytes(n);
    fill_pattern(bytes, seed);
    wire::Packet packet = headers_of(opcode, kSendPsn + at);
    packet.aeth = wire::Aeth::ack(0);
    end.deliver(forge(packet, bytes));
  }
  void atomic_data(std::uint32_t at, std::uint64_t original) {
    wire::Packet packet = headers_of(Opcode::kRcAtomicAcknowledge, kSendPsn + at);
    packet.aeth = wire::Aeth::ack(0);
    packet.atomic_ack.original = original;
    end.deliver(forge(packet));
  }

  /// Sends everything that may go; the numbers of the frames, counted from the first one ever.
  std::vector<std::uint32_t> sent() {
    std::vector<std::uint32_t> numbers;
    for (const Frame& frame : end.requests()) {
      numbers.push_back(frame.psn().distance_from(kSendPsn));
    }
    return numbers;
  }
  /// The requests that completed since the last call; all must have succeeded.
  std::vector<std::uint64_t> completed() {
    std::vector<std::uint64_t> ids;
    for (const Completion& one : end.take_sends()) {
      EXPECT_TRUE(one.ok()) << to_string(one.status) << " of " << one.wr_id;
      ids.push_back(one.wr_id);
    }
    return ids;
  }
  /// The first one failed like this, the others are flushed, each once, and nothing goes out.
  void expect_failure(CompletionStatus status, std::vector<std::uint64_t> ids) {
    EXPECT_EQ(end.state(), QpState::kError);
    end.settle();
    const auto all = end.take_sends();
    ASSERT_EQ(all.size(), ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(all[i].wr_id, ids[i]);
      EXPECT_EQ(all[i].status, i == 0 ? status : CompletionStatus::kFlushed)
          << to_string(all[i].status);
    }
    EXPECT_TRUE(sent().empty());
    EXPECT_EQ(transport::next_deadline(end.requester), kNever);
  }
  void expect_failure(CompletionStatus status) { expect_failure(status, {1}); }

  using Numbers = std::vector<std::uint32_t>;
  using Ids = std::vector<std::uint64_t>;

  RcEnd end{requester_setup()};
};

}  // namespace weft::test
