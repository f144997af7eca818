// The responder and remote memory: what it writes, what it refuses, and that a refusal leaves every
// byte as it was.
#include <atomic>
#include <chrono>
#include <thread>

#include "memory/flight.h"
#include "unit/transport/responder_fixture.h"

namespace weft::test {
namespace {

using obs::Counter;
using queue::QpEvent;

TEST_F(Responder, writes_what_the_peer_sends_and_nothing_else) {
  // B4.9
  end.deliver(write_frame(Opcode::kRcWriteFirst, 0, kMtu, kMtu + 3, end.remote(5)));
  end.deliver(write_frame(Opcode::kRcWriteLast, 1, 3, 0));
  expect_ack(1, 1);
  EXPECT_EQ(exposed(0, 5), std::vector(5, std::byte{0xEE}));
  EXPECT_EQ(exposed(5, kMtu), sent(kMtu));
  EXPECT_EQ(exposed(5 + kMtu, 3), sent(3));
  EXPECT_EQ(exposed(8 + kMtu, 5), std::vector(5, std::byte{0xEE}));
}

TEST_F(Responder, takes_an_empty_write_without_looking_at_the_key) {
  end.deliver(write_frame(Opcode::kRcWriteOnly, 0, 0, 0, {0, RemoteKey(0)}));
  expect_ack(0, 1);
}

struct Forbidden {
  const char* name;
  std::int64_t shift;    ///< of the address
  std::uint32_t length;  ///< announced
  std::uint32_t key_xor;
};

class ResponderAccess : public Responder, public testing::WithParamInterface<Forbidden> {
 protected:
  RemoteAddress target() const {
    const auto& p = GetParam();
    return {end.remote().address + static_cast<std::uint64_t>(p.shift),
            RemoteKey(end.exposed.rkey.value ^ p.key_xor)};
  }
  void expect_refused(const Frame& frame) {
    expect_fatal(frame, 0, NakCode::kRemoteAccess);
    EXPECT_EQ(end.counted(Counter::kRefusedAccesses), 1u);
    EXPECT_EQ(end.sink.count(QpEvent::kAccessError), 1u);
  }
};

TEST_P(ResponderAccess, refuses_the_write_before_its_first_byte) {
  // B4.9
  const std::uint32_t length = GetParam().length;
  const bool only = length <= kMtu;
  expect_refused(write_frame(only ? Opcode::kRcWriteOnly : Opcode::kRcWriteFirst, 0,
                             std::min(length, kMtu), length, target()));
}

TEST_P(ResponderAccess, refuses_the_read_before_its_first_byte) {
  // B4.9
  expect_refused(read_frame(0, GetParam().length, target()));
}

constexpr std::uint32_t kExposed = 64 * 1024 - 2 * QueueEnd::kMarginBytes;
const Forbidden kForbidden[] = {
    {"wrong_tag", 0, 8, 1},
    {"wrong_slot", 0, 8, 0x100},
    {"no_such_slot", 0, 8, 0xFFFFFF00},
    {"one_byte_before", -1, kExposed, 0},
    {"one_byte_behind", 0, kExposed + 1, 0},
    {"last_byte_outside", kExposed - 7, 8, 0},
    {"all_of_it_behind", kExposed, 8, 0},
    {"all_of_it_before", -8, 8, 0},
    {"long_way_round", 0, 0x80000000u, 0},
    {"wraps_the_address_space", -0x7000'0000'0000'0000, 8, 0},
};
INSTANTIATE_TEST_SUITE_P(Drill, ResponderAccess, testing::ValuesIn(kForbidden),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(Responder, refuses_atomics_that_are_not_all_inside) {
  // B4.9: a window of 12 bytes holds one aligned word and half of the next.
  const auto small = end.keys.register_region(
      {&end.vmm, kPd, end.remote().address, 12, Access::kLocalWrite | kAllRemote, std::nullopt});
  end.deliver(add_frame(0, 1, {end.remote().address, small->rkey}));
  end.answers();
  EXPECT_EQ(end.state(), QpState::kReadyToReceive);
  expect_fatal(add_frame(1, 1, {end.remote(8).address, small->rkey}), 1, NakCode::kRemoteAccess);
}

TEST_F(Responder, refuses_atomics_with_a_wrong_key) {
  // B4.9
  expect_fatal(add_frame(0, 1, {end.remote().address, RemoteKey(end.exposed.rkey.value ^ 1)}), 0,
               NakCode::kRemoteAccess);
}

TEST_F(Responder, refuses_what_the_key_does_not_allow) {
  // B4.9
  const auto read_only = end.expose(Access::kRemoteRead);
  expect_fatal(write_frame(Opcode::kRcWriteOnly, 0, 8, 8, {end.remote().address, read_only.rkey}),
               0, NakCode::kRemoteAccess);
}

TEST_F(Responder, refuses_atomics_on_a_key_for_reads_and_writes) {
  // B4.9
  const auto plain = end.expose(Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite);
  expect_fatal(add_frame(0, 1, {end.remote().address, plain.rkey}), 0, NakCode::kRemoteAccess);
}

TEST_F(Responder, refuses_what_the_queue_pair_does_not_allow) {
  end.qp.attributes.access = Access::kRemoteRead;
  expect_fatal(write_frame(Opcode::kRcWriteOnly, 0, 8, 8), 0, NakCode::kRemoteAccess);
}

TEST_F(Responder, refuses_all_rdma_on_an_adapter) {
  // B1.2
  end.shared.serves_rdma = false;
  expect_fatal(read_frame(0, 8), 0, NakCode::kRemoteAccess);
}

TEST_F(Responder, refuses_a_key_of_another_protection_domain) {
  // B4.9
  end.qp.pd = PdId(99);
  expect_fatal(write_frame(Opcode::kRcWriteOnly, 0, 8, 8), 0, NakCode::kRemoteAccess);
}

TEST_F(Responder, stops_a_write_whose_key_is_taken_back_half_way) {
  const auto key = end.expose(Access::kLocalWrite | Access::kRemoteWrite);
  const RemoteAddress to{end.remote().address, key.rkey};
  end.deliver(write_frame(Opcode::kRcWriteFirst, 0, kMtu, 2 * kMtu, to));
  expect_ack(0, 0);
  ASSERT_TRUE(end.keys.deregister_region(key.lkey));
  expect_fatal(write_frame(Opcode::kRcWriteLast, 1, kMtu, 0), 1, NakCode::kRemoteAccess);
}

class OneShot : public Responder {
 protected:
  memory::RegionKeys once = end.expose(Access::kLocalWrite | kAllRemote | Access::kOneShot);
  RemoteAddress at(std::size_t offset = 0) const { return {end.remote(offset).address, once.rkey}; }
};

TEST_F(OneShot, serves_one_write_of_many_frames_and_no_second) {
  // B4.10
  end.deliver(write_frame(Opcode::kRcWriteFirst, 0, kMtu, 2 * kMtu, at()));
  const Frame last = write_frame(Opcode::kRcWriteLast, 1, kMtu, 0);
  end.deliver(last);
  expect_ack(1, 1);
  end.deliver(last);
  expect_ack(1, 1);
  EXPECT_EQ(exposed(kMtu, kMtu), sent(kMtu));
  expect_fatal(write_frame(Opcode::kRcWriteOnly, 2, 8, 8, at()), 2, NakCode::kRemoteAccess);
}

TEST_F(OneShot, serves_the_retransmissions_of_its_read) {
  // B4.10
  const Frame read = read_frame(0, 2 * kMtu, at());
  end.deliver(read);
  EXPECT_EQ(end.answers().size(), 2u);
  end.deliver(read);
  EXPECT_EQ(end.answers().size(), 2u) << "the repeated read was refused";
  expect_fatal(read_frame(2, 8, at()), 2, NakCode::kRemoteAccess);
}

TEST_F(OneShot, serves_a_long_read_that_comes_in_pieces) {
  // B4.10: all but the last piece ask for no acknowledgement.
  for (std::uint32_t i = 0; i < 3; ++i) {
    wire::Packet packet = headers_of(Opcode::kRcReadRequest, kFirstPsn + 2 * i, i == 2);
    packet.reth = {at(2 * kMtu * i).address, once.rkey, 2 * kMtu};
    end.deliver(forge(packet));
    ASSERT_EQ(end.answers().size(), 2u) << "piece " << i;
  }
  expect_fatal(read_frame(6, 8, at(6 * kMtu)), 6, NakCode::kRemoteAccess);
}

TEST_F(OneShot, does_not_serve_a_second_read_that_only_looks_like_a_piece) {
  // B4.10
  wire::Packet packet = headers_of(Opcode::kRcReadRequest, kFirstPsn, false);
  packet.reth = {at().address, once.rkey, kMtu};
  end.deliver(forge(packet));
  end.answers();
  expect_fatal(read_frame(1, kMtu, at()), 1, NakCode::kRemoteAccess);
}

TEST_F(OneShot, is_not_used_up_by_a_refused_attempt) {
  // B4.10
  expect_fatal(write_frame(Opcode::kRcWriteOnly, 0, 8, 8, at(end.exposed_bytes() - 7)), 0,
               NakCode::kRemoteAccess);
  end.qp.state = QpState::kReadyToReceive;
  transport::start(end.responder, end.qp);
  end.deliver(write_frame(Opcode::kRcWriteOnly, 0, 8, 8, at()));
  expect_ack(0, 1);
}

TEST_F(OneShot, is_not_used_up_by_a_write_that_waits_for_a_buffer) {
  // B4.10
  const Frame write = write_frame(Opcode::kRcWriteOnlyWithImmediate, 0, 8, 8, at());
  end.deliver(write);
  EXPECT_EQ(answer().aeth.kind(), wire::AethKind::kRnrNak);
  end.post_receive(1, 0, 0);
  end.deliver(write);
  expect_ack(0, 1);
}

TEST_F(OneShot, is_not_used_up_by_one_read_too_many) {
  // B4.10
  end.qp.attributes.max_dest_rd_atomic = 1;
  end.deliver(read_frame(0, 8));
  end.deliver(read_frame(1, 8, at()));
  end.answers();
  ASSERT_EQ(end.state(), QpState::kError);
  end.qp.state = QpState::kReadyToReceive;
  transport::start(end.responder, end.qp);
  end.deliver(read_frame(0, 8, at()));
  EXPECT_EQ(answer().bth.opcode, Opcode::kRcReadResponseOnly);
}

TEST_F(Responder, keeps_the_key_of_an_answer_until_it_is_sent_although_the_next_one_is_refused) {
  // B4.9: the key dies while its answer is being built, frame by frame.
  end.deliver(read_frame(0, 2 * kMtu));
  network::OutFrame first, second;
  ASSERT_TRUE(transport::next_answer(end.responder, end.qp, first));
  std::atomic<bool> gone{false};
  std::thread owner([&] {
    EXPECT_TRUE(end.keys.deregister_region(end.exposed.lkey));
    gone = true;
  });
  while (end.keys.find(end.exposed.rkey)->is_live(end.exposed.rkey)) {
    std::this_thread::yield();
  }
  // It is refused: what comes is the NAK.
  ASSERT_TRUE(transport::next_answer(end.responder, end.qp, second));
  EXPECT_EQ(second.headers.bth.opcode, Opcode::kRcAcknowledge);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(gone) << "the first frame is yet to be sent";
  memory::Flight::release_kept();
  owner.join();
}

}  // namespace
}  // namespace weft::test
