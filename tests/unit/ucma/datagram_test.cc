#include <infiniband/verbs.h>

#include "ucma_kit.h"

namespace weft::ucma::test {
namespace {

constexpr std::uint32_t kUdpKey = 0x01234567;

struct Datagrams {
  Channel server, client;
  Id listener = Id::create(server, RDMA_PS_UDP), active = Id::create(client, RDMA_PS_UDP);

  void ask(rdma_ucm_event_resp& request) {
    ASSERT_EQ(listener.bind("127.0.0.1", 0), 0);
    ASSERT_EQ(listener.listen(), 0);
    active.resolve_all("127.0.0.1", listener.port());
    ASSERT_EQ(active.connect("who?"), 0);
    const auto event = server.next();
    ASSERT_TRUE(event);
    ASSERT_EQ(static_cast<EventCode>(event->event), EventCode::kConnectRequest);
    request = *event;
  }
};

TEST(UcmaDatagram, the_service_tells_its_queue_pair) {
  Datagrams pair;
  rdma_ucm_event_resp request{};
  pair.ask(request);
  EXPECT_EQ(request.param.ud.private_data_len, 180);
  EXPECT_EQ(std::memcmp(request.param.ud.private_data, "who?", 4), 0);
  const Id passive{&pair.server, request.id};
  ASSERT_EQ(passive.accept("me", 0x77), 0);
  const auto event = pair.client.next();
  ASSERT_TRUE(event);
  ASSERT_EQ(static_cast<EventCode>(event->event), EventCode::kEstablished);
  const auto& ud = event->param.ud;
  EXPECT_EQ(ud.qp_num, 0x77U);
  EXPECT_EQ(ud.qkey, kUdpKey);
  EXPECT_EQ(ud.private_data_len, 136);
  EXPECT_EQ(std::memcmp(ud.private_data, "me", 2), 0);
  EXPECT_EQ(ud.ah_attr.is_global, 1);
  EXPECT_EQ(ud.ah_attr.port_num, 1);
  const Gid device = files::shown_devices().front().address;
  EXPECT_EQ(std::memcmp(ud.ah_attr.grh.dgid, device.raw.data(), 16), 0);
  EXPECT_EQ(ud.ah_attr.grh.sgid_index, 3);
  EXPECT_EQ(passive.accept("again"), EINVAL);
  EXPECT_FALSE(pair.server.next(50));  // who answers hears nothing more
}

TEST(UcmaDatagram, a_refusal_is_unreachable) {
  Datagrams pair;
  rdma_ucm_event_resp request{};
  pair.ask(request);
  const Id passive{&pair.server, request.id};
  ASSERT_EQ(passive.reject("no"), 0);
  const auto event = pair.client.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kUnreachable);
  EXPECT_EQ(event->status, 2U);
}

TEST(UcmaDatagram, a_service_that_is_not_there_is_unreachable) {
  const Channel channel;
  const Id id = Id::create(channel, RDMA_PS_UDP);
  id.resolve_all("127.0.0.1", 3);
  ASSERT_EQ(id.connect(), 0);
  const auto event = channel.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kUnreachable);
  EXPECT_EQ(event->status, 1U);
}

TEST(UcmaDatagram, port_spaces_are_apart) {
  const Channel channel;
  const Id tcp = Id::create(channel), udp = Id::create(channel, RDMA_PS_UDP);
  ASSERT_EQ(tcp.bind("127.0.0.1", 0), 0);
  EXPECT_EQ(udp.bind("127.0.0.1", tcp.port()), 0);
}

TEST(UcmaDatagram, queue_pair_gets_the_key_of_the_port_space) {
  const Channel channel;
  const Id id = Id::create(channel, RDMA_PS_UDP);
  ib_uverbs_qp_attr attributes{};
  EXPECT_EQ(id.qp_attributes(IBV_QPS_INIT, attributes), EINVAL);  // no device yet
  id.resolve_all("127.0.0.1", 3);
  ASSERT_EQ(id.qp_attributes(IBV_QPS_INIT, attributes), 0);
  EXPECT_EQ(attributes.qkey, kUdpKey);
  EXPECT_EQ(attributes.qp_attr_mask,
            std::uint32_t{IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY});
}

struct Joined {
  std::uint32_t handle = 0;
  int error = 0;
};

Joined join(const Id& id, const char* group, std::uint64_t uid) {
  rdma_ucm_create_id_resp answer{};
  rdma_ucm_join_ip_mcast command{};
  command.response = reinterpret_cast<std::uint64_t>(&answer);
  command.uid = uid;
  command.addr = address_of(group, 0);
  command.id = id.handle;
  const int error = id.channel->command(RDMA_USER_CM_CMD_JOIN_IP_MCAST, command, sizeof answer);
  return {answer.id, error};
}

int leave(const Channel& channel, std::uint32_t group, std::uint32_t& reported) {
  rdma_ucm_destroy_id_resp answer{~0U};
  rdma_ucm_destroy_id command{reinterpret_cast<std::uint64_t>(&answer), group, 0};
  const int error = channel.command(RDMA_USER_CM_CMD_LEAVE_MCAST, command, sizeof answer);
  reported = answer.events_reported;
  return error;
}

TEST(UcmaMulticast, join_tells_how_to_reach_the_group) {
  const Channel channel;
  const Id id = Id::create(channel, RDMA_PS_UDP);
  EXPECT_EQ(join(id, "239.1.2.3", 0x99).error, EINVAL);  // on which device?
  ASSERT_EQ(id.resolve("239.1.2.3", 0), 0);
  ASSERT_EQ(channel.next_code(), EventCode::kAddressResolved);
  const Joined joined = join(id, "239.1.2.3", 0x99);
  ASSERT_EQ(joined.error, 0);
  const auto event = channel.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kMulticastJoin);
  EXPECT_EQ(event->uid, 0x99U);
  EXPECT_EQ(event->param.ud.qp_num, 0xFFFFFFU);
  EXPECT_EQ(event->param.ud.qkey, kUdpKey);
  EXPECT_EQ(event->param.ud.ah_attr.dlid, 0xC000);
  const Gid group = Gid::ipv4(239, 1, 2, 3);
  EXPECT_EQ(std::memcmp(event->param.ud.ah_attr.grh.dgid, group.raw.data(), 16), 0);

  std::uint32_t reported = 0;
  EXPECT_EQ(leave(channel, joined.handle + 1, reported), ENOENT);
  const Channel other;
  EXPECT_EQ(leave(other, joined.handle, reported), EINVAL);
  ASSERT_EQ(leave(channel, joined.handle, reported), 0);
  EXPECT_EQ(reported, 1U);
  EXPECT_EQ(leave(channel, joined.handle, reported), ENOENT);
  EXPECT_EQ(id.destroy(), 2);
}

TEST(UcmaMulticast, leaving_takes_the_event_along) {
  const Channel channel;
  const Id id = Id::create(channel, RDMA_PS_UDP);
  ASSERT_EQ(id.bind("127.0.0.1", 0), 0);
  const Joined joined = join(id, "ff05::1234", 0x99);
  ASSERT_EQ(joined.error, 0);
  std::uint32_t reported = 9;
  ASSERT_EQ(leave(channel, joined.handle, reported), 0);
  EXPECT_EQ(reported, 0U);
  EXPECT_FALSE(channel.next(0));
}

TEST(UcmaMulticast, connections_cannot_join) {
  const Channel channel;
  const Id id = Id::create(channel);
  ASSERT_EQ(id.bind("127.0.0.1", 0), 0);
  EXPECT_EQ(join(id, "239.1.2.3", 1).error, EINVAL);
}

}  // namespace
}  // namespace weft::ucma::test
