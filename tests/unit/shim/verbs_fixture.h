// A program of two queue pairs that talks to weft through libibverbs' ABI alone, in one process.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

namespace weft::test {

struct VerbsProgram : testing::Test {
  static constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

  void SetUp() override {
    ibv_device** list = ibv_get_device_list(nullptr);
    ASSERT_NE(list, nullptr);
    ASSERT_NE(list[0], nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    memory.resize(8192);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(), kRights);
    ASSERT_TRUE(pd != nullptr && cq != nullptr && mr != nullptr);
    for (ibv_qp*& qp : qps) {
      qp = make_qp();
      ASSERT_NE(qp, nullptr);
    }
  }

  void TearDown() override {
    for (ibv_qp* qp : qps) {
      if (qp == nullptr) continue;
      EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }

  ibv_qp* make_qp(ibv_qp_type type = IBV_QPT_RC, ibv_srq* srq = nullptr) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.cap = {.max_send_wr = 8,
                .max_recv_wr = 8,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 64};
    init.qp_type = type;
    return ibv_create_qp(pd, &init);
  }

  int to_init(ibv_qp* qp, int access = kRights) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = static_cast<unsigned>(access);
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
  }
  int to_rtr(ibv_qp* qp, std::uint32_t peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    EXPECT_EQ(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int to_rts(ibv_qp* qp, std::uint8_t timeout = 8) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = timeout;
    attr.retry_cnt = 1;
    attr.rnr_retry = 0;
    attr.max_rd_atomic = 4;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  void connect(int access = kRights) {
    for (ibv_qp* qp : qps) ASSERT_EQ(to_init(qp, access), 0);
    ASSERT_EQ(to_rtr(qps[0], qps[1]->qp_num), 0);
    ASSERT_EQ(to_rtr(qps[1], qps[0]->qp_num), 0);
    for (ibv_qp* qp : qps) ASSERT_EQ(to_rts(qp), 0);
  }

  ibv_sge part(std::size_t offset, std::uint32_t length) {
    return {reinterpret_cast<std::uint64_t>(memory.data() + offset), length, mr->lkey};
  }
  /// A request of one element from the first queue pair.
  int post(ibv_wr_opcode op, ibv_sge sge, std::uint64_t remote = 0, std::uint32_t rkey = 0,
           unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = 7;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = op;
    wr.send_flags = flags;
    if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = remote;
      wr.wr.atomic.rkey = rkey;
      wr.wr.atomic.compare_add = 1;
    } else {
      wr.wr.rdma.remote_addr = remote;
      wr.wr.rdma.rkey = rkey;
    }
    return ibv_post_send(qps[0], &wr, &bad);
  }
  int post_recv(ibv_sge sge) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = 8;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_recv(qps[1], &wr, &bad);
  }
  std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data() + offset);
  }

  /// The next completion; a status that no completion has when none came in time.
  ibv_wc next() {
    ibv_wc wc{};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      if (ibv_poll_cq(cq, 1, &wc) == 1) return wc;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no completion";
    wc.status = IBV_WC_GENERAL_ERR;
    return wc;
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  std::vector<std::byte> memory;
  ibv_mr* mr = nullptr;
  std::array<ibv_qp*, 2> qps{};
};

}  // namespace weft::test
