#include <infiniband/verbs.h>

#include "ucma_kit.h"

namespace weft::ucma::test {
namespace {

TEST(Ucma, connects_with_private_data_both_ways) {
  Pair pair;
  const auto request = pair.request("hello");
  EXPECT_EQ(request.uid, 0x51U);
  EXPECT_EQ(data_of(request.param.conn), padded("hello", 56));
  EXPECT_EQ(request.param.conn.qp_num, 0x11U);
  // What one end gives, the other takes.
  EXPECT_EQ(request.param.conn.responder_resources, 2);
  EXPECT_EQ(request.param.conn.initiator_depth, 3);
  EXPECT_EQ(request.param.conn.retry_count, 5);
  EXPECT_EQ(request.param.conn.rnr_retry_count, 6);
  EXPECT_EQ(request.ece.vendor_id, 0x123456U);
  EXPECT_EQ(request.ece.attr_mod, 0x77U);

  ASSERT_EQ(pair.passive.accept("welcome"), 0);
  const auto response = pair.client.next();
  ASSERT_TRUE(response);
  ASSERT_EQ(static_cast<EventCode>(response->event), EventCode::kConnectResponse);
  EXPECT_EQ(response->uid, 0xC1U);
  EXPECT_EQ(response->id, pair.active.handle);
  EXPECT_EQ(data_of(response->param.conn), padded("welcome", 196));
  EXPECT_EQ(response->param.conn.qp_num, 0x22U);
  EXPECT_EQ(response->ece.attr_mod, 0x88U);

  ASSERT_EQ(pair.active.confirm(), 0);
  const auto established = pair.server.next();
  ASSERT_TRUE(established);
  EXPECT_EQ(static_cast<EventCode>(established->event), EventCode::kEstablished);
  EXPECT_EQ(established->uid, 0x2000U);
  EXPECT_EQ(established->id, pair.passive.handle);
}

TEST(Ucma, both_ends_agree_on_queue_pair_attributes) {
  Pair pair;
  pair.request();
  ib_uverbs_qp_attr here{}, there{};
  // The passive end sets its queue pair up before it accepts.
  ASSERT_EQ(pair.passive.qp_attributes(IBV_QPS_INIT, there), 0);
  EXPECT_EQ(there.qp_access_flags,
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  EXPECT_EQ(there.port_num, 1);
  ASSERT_EQ(pair.passive.qp_attributes(IBV_QPS_RTR, there), 0);
  EXPECT_EQ(there.dest_qp_num, 0x11U);
  EXPECT_EQ(there.path_mtu, std::uint32_t{IBV_MTU_4096});
  EXPECT_EQ(there.max_dest_rd_atomic, 2);
  EXPECT_EQ(there.ah_attr.is_global, 1);
  const auto psn_of_active = there.rq_psn;
  EXPECT_EQ(pair.active.qp_attributes(IBV_QPS_RTR, here), EINVAL);

  ASSERT_EQ(pair.passive.accept(), 0);
  ASSERT_EQ(pair.client.next_code(), EventCode::kConnectResponse);
  ASSERT_EQ(pair.active.qp_attributes(IBV_QPS_RTS, here), 0);
  EXPECT_EQ(here.sq_psn, psn_of_active);
  EXPECT_EQ(here.retry_cnt, 5);
  EXPECT_EQ(here.rnr_retry, 6);
  EXPECT_EQ(here.max_rd_atomic, 3);
  ASSERT_EQ(pair.active.qp_attributes(IBV_QPS_RTR, here), 0);
  EXPECT_EQ(here.dest_qp_num, 0x22U);
  const Gid device = files::shown_devices().front().address;
  EXPECT_EQ(std::memcmp(here.ah_attr.grh.dgid, device.raw.data(), 16), 0);
  EXPECT_EQ(here.ah_attr.grh.sgid_index, 3) << "the address as RoCE v2";
  ASSERT_EQ(pair.passive.qp_attributes(IBV_QPS_RTS, there), 0);
  EXPECT_EQ(here.rq_psn, there.sq_psn);
}

TEST(Ucma, reject_carries_reason_and_data) {
  Pair pair;
  pair.request();
  EXPECT_EQ(pair.passive.reject(std::string(149, 'x')), EINVAL);
  EXPECT_EQ(pair.passive.reject("", 3), EINVAL);
  ASSERT_EQ(pair.passive.reject("no"), 0);
  const auto event = pair.client.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kRejected);
  EXPECT_EQ(event->status, 28U);
  EXPECT_EQ(data_of(event->param.conn), padded("no", 148));
  EXPECT_EQ(pair.passive.accept(), EINVAL);
}

TEST(Ucma, destroying_a_request_rejects_it) {
  Pair pair;
  pair.request();
  EXPECT_EQ(pair.passive.destroy(), 0);
  const auto event = pair.client.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kRejected);
  EXPECT_EQ(event->status, 28U);
}

TEST(Ucma, who_comes_between_bind_and_listen_is_not_rejected) {
  const Channel server, client;
  const Id listener = Id::create(server), active = Id::create(client);
  ASSERT_EQ(listener.bind("127.0.0.1", 0), 0);
  active.resolve_all("127.0.0.1", listener.port());
  ASSERT_EQ(active.connect(), 0);
  EXPECT_FALSE(client.next(50));
  ASSERT_EQ(listener.listen(), 0);
  EXPECT_EQ(server.next_code(), EventCode::kConnectRequest);
}

TEST(Ucma, a_port_without_listener_is_rejected_with_the_reason) {
  const Channel channel;
  const Id reserved = Id::create(channel), id = Id::create(channel);
  ASSERT_EQ(reserved.bind("127.0.0.1", 0), 0);
  const std::uint16_t port = reserved.port();
  id.resolve_all("127.0.0.1", port);
  ASSERT_EQ(id.connect(), 0);  // bound, but nobody listens
  auto event = channel.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kRejected);
  EXPECT_EQ(event->status, 8U);
  EXPECT_EQ(reserved.destroy(), 0);

  const Id second = Id::create(channel);
  second.resolve_all("127.0.0.1", port);
  ASSERT_EQ(second.connect(), 0);  // not even bound
  event = channel.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kRejected);
  EXPECT_EQ(event->status, 8U);
}

TEST(Ucma, disconnect_is_seen_at_both_ends_and_ends_in_timewait) {
  Pair pair;
  pair.establish();
  ASSERT_EQ(pair.active.disconnect(), 0);
  EXPECT_EQ(pair.server.next_code(), EventCode::kDisconnected);
  EXPECT_FALSE(pair.client.next(50));  // not before the peer has answered
  ASSERT_EQ(pair.passive.disconnect(), 0);
  EXPECT_EQ(pair.client.next_code(), EventCode::kDisconnected);
  EXPECT_EQ(pair.client.next_code(), EventCode::kTimewaitExit);
  EXPECT_EQ(pair.server.next_code(), EventCode::kTimewaitExit);
}

TEST(Ucma, both_ends_may_disconnect_at_once) {
  Pair pair;
  pair.establish();
  ASSERT_EQ(pair.active.disconnect(), 0);
  ASSERT_EQ(pair.passive.disconnect(), 0);
  EXPECT_EQ(pair.server.next_code(), EventCode::kDisconnected);
  EXPECT_EQ(pair.client.next_code(), EventCode::kDisconnected);
}

TEST(Ucma, destroying_or_closing_one_end_disconnects_the_other) {
  {
    Pair pair;
    pair.establish();
    // CONNECT_REQUEST is the listener's; ESTABLISHED is this one's.
    EXPECT_EQ(pair.passive.destroy(), 1);
    EXPECT_EQ(pair.client.next_code(), EventCode::kDisconnected);
    EXPECT_EQ(pair.listener.destroy(), 1);
  }
  Pair pair;
  pair.establish();
  pair.client.close();
  EXPECT_EQ(pair.server.next_code(), EventCode::kDisconnected);
}

TEST(Ucma, commands_in_the_wrong_state_are_refused) {
  const Channel channel;
  const Id id = Id::create(channel);
  EXPECT_EQ(id.connect(), EINVAL);
  EXPECT_EQ(id.resolve_route(), EINVAL);
  EXPECT_EQ(id.accept(), EINVAL);
  EXPECT_EQ(id.confirm(), EINVAL);
  EXPECT_EQ(id.reject(""), EINVAL);
  EXPECT_EQ(id.disconnect(), EINVAL);
  ASSERT_EQ(id.listen(), 0);
  EXPECT_EQ(id.listen(), EINVAL);
  EXPECT_EQ(id.bind("127.0.0.1", 0), EINVAL);
  EXPECT_EQ(id.resolve("127.0.0.1", 1), EINVAL);
  const Id other{&channel, id.handle + 1000};
  EXPECT_EQ(other.listen(), ENOENT);
  const Channel second;
  const Id foreign{&second, id.handle};
  EXPECT_EQ(foreign.destroy(), -EINVAL);
  EXPECT_EQ(id.destroy(), 0);
  EXPECT_EQ(id.destroy(), -ENOENT);
}

TEST(Ucma, private_data_that_does_not_fit_is_refused) {
  Pair pair;
  const Id id = Id::create(pair.client);
  id.resolve_all("127.0.0.1", 1);
  EXPECT_EQ(id.connect(std::string(57, 'x')), EINVAL);
  EXPECT_EQ(id.connect(std::string(56, 'x')), 0);
  pair.client.next();
  pair.request();
  EXPECT_EQ(pair.passive.accept(std::string(197, 'x')), EINVAL);
  EXPECT_EQ(pair.passive.accept(std::string(196, 'x')), 0);
}

TEST(Ucma, data_before_the_confirmation_establishes) {
  Pair pair;
  pair.request();
  const auto notify = [&](std::uint32_t event) {
    return pair.server.command(RDMA_USER_CM_CMD_NOTIFY,
                               rdma_ucm_notify{pair.passive.handle, event});
  };
  EXPECT_EQ(notify(IBV_EVENT_COMM_EST), EINVAL);
  ASSERT_EQ(pair.passive.accept(), 0);
  ASSERT_EQ(notify(IBV_EVENT_COMM_EST), 0);
  EXPECT_EQ(pair.server.next_code(), EventCode::kEstablished);
  EXPECT_EQ(notify(IBV_EVENT_COMM_EST), EISCONN);
  ASSERT_EQ(pair.client.next_code(), EventCode::kConnectResponse);
  ASSERT_EQ(pair.active.confirm(), 0);
  EXPECT_FALSE(pair.server.next(50));  // told once
}

TEST(Ucma, requests_beyond_the_backlog_wait) {
  const Channel server, client;
  const Id listener = Id::create(server);
  ASSERT_EQ(listener.bind("127.0.0.1", 0), 0);
  ASSERT_EQ(listener.listen(1), 0);
  const Id first = Id::create(client), second = Id::create(client);
  first.resolve_all("127.0.0.1", listener.port());
  second.resolve_all("127.0.0.1", listener.port());
  ASSERT_EQ(first.connect("1"), 0);
  ASSERT_EQ(second.connect("2"), 0);
  usleep(150'000);
  const auto event = server.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(data_of(event->param.conn)[0], '1');
  // Room again: the second one is asked once more by itself.
  const auto later = server.next(2000);
  ASSERT_TRUE(later);
  EXPECT_EQ(data_of(later->param.conn)[0], '2');
}

TEST(Ucma, listener_that_ends_rejects_what_waits) {
  const Channel client;
  const Id id = Id::create(client);
  {
    const Channel server;
    const Id listener = Id::create(server);
    ASSERT_EQ(listener.bind("127.0.0.1", 0), 0);
    ASSERT_EQ(listener.listen(), 0);
    id.resolve_all("127.0.0.1", listener.port());
    ASSERT_EQ(id.connect(), 0);
    pollfd entry{server.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 5000), 1);
    EXPECT_EQ(listener.destroy(), 0);  // the event was never reported
    EXPECT_EQ(poll(&entry, 1, 0), 0);  // and never will be
  }
  EXPECT_EQ(client.next_code(), EventCode::kRejected);
}

}  // namespace
}  // namespace weft::ucma::test
