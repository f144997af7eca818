// The unreliable datagram: Q_Key, the 40 bytes of global header, buffers that are too small.
#include <gtest/gtest.h>

#include "memory/flight.h"
#include "support/transport_end.h"

namespace weft::test {
namespace {

using obs::Counter;
using wire::kGrhSize;
using enum wire::Opcode;

constexpr QKey kQKey{0x11223344};

EndSetup ud_setup() {
  EndSetup setup;
  setup.service = Service::kUnreliableDatagram;
  setup.attributes.path_mtu = Mtu::k1024;
  setup.attributes.qkey = kQKey;
  setup.attributes.send_psn = Psn(0xFFFFFF);
  return setup;
}

class Ud : public testing::Test {
 protected:
  Ud() {
    transport::start(requester, end.qp);
    fill_pattern(data, 4);
    for (std::size_t i = 0; i < grh.size(); ++i) grh[i] = static_cast<std::byte>(0xA0 + i);
  }

  void deliver(std::size_t n, QKey qkey = kQKey, wire::Opcode opcode = kUdSendOnly) {
    wire::Packet packet = headers_of(opcode, Psn(5), false);
    packet.deth = {qkey, Qpn(0x345)};
    packet.immediate = 0xFEED;
    packet.bth.solicited = true;
    const Frame frame = forge(packet, std::span(data).first(n));
    transport::on_datagram(end.qp, frame.packet(), grh);
  }
  std::vector<Frame> requests() {
    std::vector<Frame> frames;
    network::OutFrame out;
    while (transport::next_request(requester, end.qp, end.scheduler.time_ns, out)) {
      frames.push_back(to_frame(out));
      out.release();
      memory::Flight::release_kept();
    }
    return frames;
  }

  QueueEnd end{ud_setup()};
  transport::UdRequester requester;
  wire::GrhBytes grh{};
  std::vector<std::byte> data = std::vector<std::byte>(1024);
};

TEST_F(Ud, puts_the_global_header_before_the_data) {
  // B2.3
  end.post_receive(1, 100, 1000);
  deliver(60, kQKey, kUdSendOnlyWithImmediate);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[0].byte_count, kGrhSize + 60);
  EXPECT_EQ(done[0].source_qp, Qpn(0x345));
  EXPECT_TRUE(done[0].has_grh);
  EXPECT_EQ(done[0].immediate, 0xFEEDu);
  EXPECT_EQ(end.copy_of(100, kGrhSize), std::vector(grh.begin(), grh.end()));
  EXPECT_EQ(end.copy_of(140, 60), std::vector(data.begin(), data.begin() + 60));
  EXPECT_EQ(end.memory()[200], std::byte{0xEE});
}

TEST_F(Ud, spreads_header_and_data_over_several_elements) {
  const Sge list[] = {end.sge(0, 16), end.sge(100, 30), end.sge(200, 100)};
  ASSERT_TRUE(end.qp.rq->post({1, list}));
  deliver(20);
  ASSERT_EQ(end.take_receives().size(), 1u);
  EXPECT_EQ(end.copy_of(0, 16), std::vector(grh.begin(), grh.begin() + 16));
  EXPECT_EQ(end.copy_of(124, 6), std::vector(data.begin(), data.begin() + 6));
  EXPECT_EQ(end.copy_of(200, 14), std::vector(data.begin() + 6, data.begin() + 20));
}

TEST_F(Ud, drops_a_datagram_with_another_qkey_and_keeps_the_buffer) {
  end.post_receive(1, 0, 1000);
  deliver(60, QKey(0x11223345));
  deliver(60, QKey(0));
  EXPECT_TRUE(end.take_receives().empty());
  EXPECT_EQ(end.counted(Counter::kBadQKey), 2u);
  EXPECT_EQ(end.qp.rq->posted(), 1u);
  EXPECT_EQ(end.memory()[0], std::byte{0xEE});
}

TEST_F(Ud, drops_a_datagram_for_which_there_is_no_buffer) {
  deliver(60);
  EXPECT_EQ(end.counted(Counter::kDroppedMessages), 1u);
  EXPECT_EQ(end.state(), QpState::kReadyToSend);
}

TEST_F(Ud, reports_a_buffer_that_is_too_small_and_stays_inside_it) {
  for (const std::uint32_t size : {0u, 39u, 40u, 40u + 59u}) {
    QueueEnd other(ud_setup());
    other.post_receive(7, 0, size);
    wire::Packet packet = headers_of(kUdSendOnly, Psn(5), false);
    packet.deth = {kQKey, Qpn(0x345)};
    const Frame frame = forge(packet, std::span(data).first(60));
    transport::on_datagram(other.qp, frame.packet(), grh);
    const auto done = other.take_receives();
    ASSERT_EQ(done.size(), 1u) << size;
    EXPECT_EQ(done[0].status, CompletionStatus::kLocalLengthError) << size;
    EXPECT_EQ(other.memory()[size], std::byte{0xEE}) << size;
  }
}

TEST_F(Ud, takes_an_empty_datagram_into_40_bytes) {
  end.post_receive(1, 0, 40);
  deliver(0);
  const auto done = end.take_receives();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[0].byte_count, kGrhSize);
}

TEST_F(Ud, hears_nothing_before_it_is_ready_to_receive) {
  end.post_receive(1, 0, 1000);
  end.qp.state = QpState::kInit;
  deliver(60);
  EXPECT_EQ(end.counted(Counter::kWrongState), 1u);
  EXPECT_EQ(end.qp.rq->posted(), 1u);
}

TEST_F(Ud, addresses_each_datagram_by_itself) {
  const Sge one = end.sge(0, 33);
  for (std::uint32_t i = 0; i < 2; ++i) {
    SendRequest request{.wr_id = i, .op = SendOp::kSendImmediate, .sges = {&one, 1}};
    request.immediate = i;
    request.destination_qpn = Qpn(0x500 + i);
    request.destination_qkey = QKey(0x600 + i);
    ASSERT_TRUE(end.post_send(request));
  }
  const auto frames = requests();
  ASSERT_EQ(frames.size(), 2u);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const wire::Packet packet = frames[i].packet();
    EXPECT_EQ(packet.bth.opcode, kUdSendOnlyWithImmediate);
    EXPECT_EQ(packet.bth.dest_qp, Qpn(0x500 + i));
    EXPECT_EQ(packet.bth.psn, Psn(0xFFFFFF) + i);
    EXPECT_EQ(packet.deth.qkey, QKey(0x600 + i));
    EXPECT_EQ(packet.deth.source_qp, end.qp.qpn);
    EXPECT_EQ(packet.payload.size(), 33u);
  }
  EXPECT_TRUE(end.take_sends().empty());
  transport::on_sent(requester, end.qp);
  EXPECT_EQ(end.take_sends().size(), 2u);
}

TEST_F(Ud, stops_its_send_queue_at_a_bad_buffer) {
  const Sge bad{end.address(), 10, LocalKey(0x999)};
  ASSERT_TRUE(end.post_send({.wr_id = 1, .sges = {&bad, 1}}));
  EXPECT_TRUE(requests().empty());
  EXPECT_EQ(end.state(), QpState::kSendQueueError);
  EXPECT_EQ(end.take_sends().at(0).status, CompletionStatus::kLocalProtectionError);
}

}  // namespace
}  // namespace weft::test
