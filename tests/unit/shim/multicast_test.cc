// Multicast groups through libibverbs' ABI, inside one process.
#include <unistd.h>

#include "unit/shim/verbs_fixture.h"

namespace weft::test {
namespace {

constexpr std::uint32_t kKey = 0x11111111;
constexpr std::uint32_t kEverybody = 0xFFFFFF;
constexpr std::uint32_t kHeader = 40;

struct ShimMulticast : VerbsProgram {
  void SetUp() override {
    VerbsProgram::SetUp();
    for (ibv_qp*& qp : members) {
      qp = make_qp(IBV_QPT_UD);
      ASSERT_NE(qp, nullptr);
      activate(qp);
    }
    group.raw[0] = 0xFF;
    group.raw[1] = 0x0E;
    // A group of its own: processes with the same address share their groups, and other tests run
    // at the same time.
    const pid_t process = getpid();
    std::memcpy(&group.raw[8], &process, sizeof process);
    group.raw[15] = 1;
    ibv_ah_attr attr{};
    attr.port_num = 1;
    attr.is_global = 1;
    attr.grh.dgid = group;
    ah = ibv_create_ah(pd, &attr);
    ASSERT_NE(ah, nullptr);
  }
  void TearDown() override {
    for (ibv_qp* qp : members) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    VerbsProgram::TearDown();
  }

  static void activate(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = kKey;
    attr.qp_state = IBV_QPS_INIT;
    ASSERT_EQ(
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  int give(std::size_t member, std::size_t offset) {
    ibv_sge sge = part(offset, kHeader + 8);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = offset;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_recv(members[member], &wr, &bad);
  }
  int send() {
    ibv_sge sge = part(0, 8);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = kEverybody;
    wr.wr.ud.remote_qkey = kKey;
    return ibv_post_send(members[0], &wr, &bad);
  }

  std::array<ibv_qp*, 2> members{};
  ibv_gid group{};
  ibv_ah* ah = nullptr;
};

TEST_F(ShimMulticast, every_member_gets_a_copy_its_sender_too) {
  for (ibv_qp* qp : members) ASSERT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  ASSERT_EQ(give(0, 1000), 0);
  ASSERT_EQ(give(1, 2000), 0);
  memory[0] = std::byte{7};
  ASSERT_EQ(send(), 0);
  int received = 0;
  for (int i = 0; i < 3; ++i) {
    const ibv_wc wc = next();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.opcode != IBV_WC_RECV) continue;
    ++received;
    EXPECT_EQ(wc.byte_len, kHeader + 8);
    EXPECT_EQ(wc.src_qp, members[0]->qp_num);
    EXPECT_EQ(memory[wc.wr_id + kHeader], std::byte{7});
    // The header before the data names the group.
    EXPECT_EQ(std::memcmp(&memory[wc.wr_id + 24], group.raw, sizeof group.raw), 0);
  }
  EXPECT_EQ(received, 2);
}

TEST_F(ShimMulticast, who_has_left_gets_nothing) {
  for (ibv_qp* qp : members) ASSERT_EQ(ibv_attach_mcast(qp, &group, 0), 0);
  ASSERT_EQ(ibv_detach_mcast(members[1], &group, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(members[1], &group, 0), EINVAL);
  ASSERT_EQ(give(0, 1000), 0);
  ASSERT_EQ(give(1, 2000), 0);
  ASSERT_EQ(send(), 0);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc wc = next();
    EXPECT_EQ(wc.qp_num, members[0]->qp_num);
  }
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &none), 0);
}

TEST_F(ShimMulticast, only_datagrams_have_groups_and_only_groups_are_joined) {
  EXPECT_EQ(ibv_attach_mcast(qps[0], &group, 0), EINVAL);
  ibv_gid own{};
  ASSERT_EQ(ibv_query_gid(context, 1, 0, &own), 0);
  EXPECT_EQ(ibv_attach_mcast(members[0], &own, 0), EINVAL);
}

TEST_F(ShimMulticast, a_member_that_is_destroyed_is_no_member) {
  ASSERT_EQ(ibv_attach_mcast(members[1], &group, 0), 0);
  ASSERT_EQ(ibv_destroy_qp(members[1]), 0);
  ASSERT_EQ(send(), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  members[1] = make_qp(IBV_QPT_UD);
}

}  // namespace
}  // namespace weft::test
