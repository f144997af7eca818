// The GID table as programs ask for it, and queue pairs that use each of its entries.
#include <arpa/inet.h>

#include <cerrno>
#include <string>

#include "unit/shim/verbs_fixture.h"

// Used by librdmacm, and in no header.
extern "C" int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned int index,
                                  int* type);

namespace weft::test {
namespace {

constexpr int kEntries = 4;

struct ShimGids : VerbsProgram {
  ibv_gid gid(int index) {
    ibv_gid result{};
    EXPECT_EQ(ibv_query_gid(context, 1, index, &result), 0);
    return result;
  }
  static std::string text(const ibv_gid& gid) {
    char out[INET6_ADDRSTRLEN] = {};
    inet_ntop(AF_INET6, gid.raw, out, sizeof out);
    return out;
  }
  int to_rtr_by(ibv_qp* qp, std::uint32_t peer, std::uint8_t own_index, const ibv_gid& to) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = own_index;
    attr.ah_attr.grh.dgid = to;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int reset(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  }
};

TEST_F(ShimGids, are_the_same_to_every_function_that_asks) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  ASSERT_GT(port.gid_tbl_len, kEntries);
  std::array<ibv_gid_entry, 16> table{};
  ASSERT_EQ(ibv_query_gid_table(context, table.data(), table.size(), 0), kEntries);
  for (int i = 0; i < kEntries; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    const ibv_gid_entry& listed = table[index];
    ibv_gid_entry one{};
    ASSERT_EQ(ibv_query_gid_ex(context, 1, index, &one, 0), 0);
    EXPECT_EQ(std::memcmp(&one, &listed, sizeof one), 0) << i;
    EXPECT_EQ(listed.gid_index, index);
    EXPECT_EQ(listed.port_num, 1u);
    EXPECT_NE(listed.ndev_ifindex, 0u);
    EXPECT_EQ(text(gid(i)), text(listed.gid));
    int type = -1;
    ASSERT_EQ(ibv_query_gid_type(context, 1, index, &type), 0);
    EXPECT_EQ(type, i % 2);
    EXPECT_EQ(listed.gid_type,
              static_cast<std::uint32_t>(i % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2));
  }
  EXPECT_EQ(text(gid(0)), "::ffff:127.0.0.1");
  EXPECT_EQ(text(gid(1)), "fe80::5efe:7f00:1");
  EXPECT_EQ(text(gid(2)), text(gid(1)));
  EXPECT_EQ(text(gid(3)), text(gid(0)));
}

TEST_F(ShimGids, an_empty_index_is_a_gid_of_zeros_and_one_beyond_the_table_an_error) {
  EXPECT_EQ(text(gid(kEntries)), "::");
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(context, 1, kEntries, &entry, 0), ENODATA);
  int type = -1;
  EXPECT_EQ(ibv_query_gid_type(context, 1, kEntries, &type), 0);
  EXPECT_EQ(type, 0);
  ibv_gid none{};
  for (const int index : {8, 255, -1}) {
    EXPECT_EQ(ibv_query_gid(context, 1, index, &none), -1) << index;
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(ibv_query_gid(context, 2, 0, &none), -1);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 8, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_table(context, &entry, 1, 0), -EINVAL);
}

TEST_F(ShimGids, a_queue_pair_reaches_its_peer_by_every_pair_of_entries) {
  for (int here = 0; here < kEntries; ++here) {
    for (int there = 0; there < kEntries; ++there) {
      SCOPED_TRACE(std::to_string(here) + " to " + std::to_string(there));
      for (ibv_qp* qp : qps) ASSERT_EQ(to_init(qp), 0);
      ASSERT_EQ(to_rtr_by(qps[0], qps[1]->qp_num, static_cast<std::uint8_t>(here), gid(there)), 0);
      ASSERT_EQ(to_rtr_by(qps[1], qps[0]->qp_num, static_cast<std::uint8_t>(there), gid(here)), 0);
      for (ibv_qp* qp : qps) ASSERT_EQ(to_rts(qp), 0);
      ibv_qp_attr attr{};
      ibv_qp_init_attr init{};
      ASSERT_EQ(ibv_query_qp(qps[0], &attr, IBV_QP_AV, &init), 0);
      EXPECT_EQ(text(attr.ah_attr.grh.dgid), text(gid(there)));
      EXPECT_EQ(attr.ah_attr.grh.sgid_index, here);
      ASSERT_EQ(post_recv(part(4096, 64)), 0);
      ASSERT_EQ(post(IBV_WR_SEND, part(0, 64)), 0);
      for (int i = 0; i < 2; ++i) EXPECT_EQ(next().status, IBV_WC_SUCCESS);
      for (ibv_qp* qp : qps) ASSERT_EQ(reset(qp), 0);
    }
  }
}

TEST_F(ShimGids, an_index_without_a_gid_and_a_link_local_gid_of_nobody_are_refused) {
  for (ibv_qp* qp : qps) ASSERT_EQ(to_init(qp), 0);
  const std::uint32_t peer = qps[1]->qp_num;
  EXPECT_EQ(to_rtr_by(qps[0], peer, kEntries, gid(0)), EINVAL);
  EXPECT_EQ(to_rtr_by(qps[0], peer, 255, gid(0)), EINVAL);
  ibv_gid foreign{};
  ASSERT_EQ(inet_pton(AF_INET6, "fe80::5054:ff:fe12:3456", foreign.raw), 1);
  EXPECT_EQ(to_rtr_by(qps[0], peer, 1, foreign), EINVAL);
  EXPECT_EQ(to_rtr_by(qps[0], peer, 1, gid(1)), 0);
}

TEST_F(ShimGids, a_gid_of_another_host_is_answered_by_a_hint_once) {
  for (ibv_qp* qp : qps) ASSERT_EQ(to_init(qp), 0);
  ibv_gid foreign{};
  ASSERT_EQ(inet_pton(AF_INET6, "::ffff:192.0.2.1", foreign.raw), 1);
  testing::internal::CaptureStderr();
  to_rtr_by(qps[0], qps[1]->qp_num, 0, gid(0));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  for (const bool first : {true, false}) {
    testing::internal::CaptureStderr();
    to_rtr_by(qps[1], qps[0]->qp_num, 0, foreign);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(
        said.find("to reach 192.0.2.1 run: weft run --device weft0=auto") != std::string::npos,
        first)
        << said;
  }
}

TEST_F(ShimGids, a_datagram_finds_its_way_and_its_answer_back) {
  std::array<ibv_qp*, 2> datagrams{make_qp(IBV_QPT_UD), make_qp(IBV_QPT_UD)};
  for (ibv_qp* qp : datagrams) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = 0x11;
    ASSERT_EQ(
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  const auto send = [&](ibv_qp* from, ibv_qp* to, ibv_ah* ah) {
    ibv_sge into = part(4096, 512), of = part(0, 64);
    ibv_recv_wr receive{}, *bad_receive = nullptr;
    receive.sg_list = &into;
    receive.num_sge = 1;
    ASSERT_EQ(ibv_post_recv(to, &receive, &bad_receive), 0);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &of;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = to->qp_num;
    wr.wr.ud.remote_qkey = 0x11;
    ASSERT_EQ(ibv_post_send(from, &wr, &bad), 0);
  };
  for (int index = 0; index < kEntries; ++index) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.sgid_index = static_cast<std::uint8_t>(index);
    attr.grh.dgid = gid(index);
    ibv_ah* ah = ibv_create_ah(pd, &attr);
    ASSERT_NE(ah, nullptr);
    send(datagrams[0], datagrams[1], ah);
    ibv_wc wc = next();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    auto* header = reinterpret_cast<ibv_grh*>(memory.data() + 4096);
    ibv_ah_attr answer{};
    ASSERT_EQ(ibv_init_ah_from_wc(context, 1, &wc, header, &answer), 0);
    EXPECT_EQ(answer.grh.sgid_index, 3);
    EXPECT_EQ(text(answer.grh.dgid), text(gid(3)));
    ibv_ah* back = ibv_create_ah_from_wc(pd, &wc, header, 1);
    ASSERT_NE(back, nullptr);
    send(datagrams[1], datagrams[0], back);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_destroy_ah(back), 0);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
  }
  for (ibv_qp* qp : datagrams) EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

}  // namespace
}  // namespace weft::test
