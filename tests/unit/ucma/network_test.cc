#include <infiniband/verbs.h>

#include "cm/network_messages.h"
#include "cm/service_id.h"
#include "ucma_kit.h"

// Messages of other hosts, as they are handed over by whoever received them.
namespace weft::ucma::test {
namespace {

const Gid kListening = Gid::ipv4(127, 0, 0, 1), kFar = Gid::ipv4(192, 0, 2, 1),
          kFarther = Gid::ipv4(192, 0, 2, 2);

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
  ASSERT_EQ(cm::hand_over(request_from(kFar, server.listener.port(), 7)), cm::HandedOver::kTaken);
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
  ASSERT_EQ(cm::hand_over(request_from(kFar, port, 8)), cm::HandedOver::kTaken);
  ASSERT_EQ(cm::hand_over(request_from(kFar, port, 8)), cm::HandedOver::kTaken);
  // Numbers are each host's own.
  ASSERT_EQ(cm::hand_over(request_from(kFarther, port, 8)), cm::HandedOver::kTaken);
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
  ASSERT_EQ(cm::hand_over(packet), cm::HandedOver::kTaken);
  EXPECT_FALSE(server.channel.next(200)) << "the program never hears of it";
  std::get<cm::Request>(packet.message.body).mtu_code = 5;
  ASSERT_EQ(cm::hand_over(packet), cm::HandedOver::kTaken);
  EXPECT_TRUE(server.channel.next()) << "nothing of it is left";
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
