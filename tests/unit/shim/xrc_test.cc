// Extended reliable connections through libibverbs' ABI: one target queue pair, several shared
// receive queues, and the request says which.
#include <fcntl.h>

#include "unit/shim/verbs_fixture.h"

namespace weft::test {
namespace {

struct ShimXrc : VerbsProgram {
  void SetUp() override {
    VerbsProgram::SetUp();
    xrcd = open_domain(-1);
    ASSERT_NE(xrcd, nullptr);
    for (Receiver& each : receivers) make(each, pd);
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcd;
    target = ibv_create_qp_ex(context, &init);
    init = {};
    init.qp_type = IBV_QPT_XRC_SEND;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd;
    init.send_cq = cq;
    init.cap.max_send_wr = 8;
    init.cap.max_send_sge = 1;
    initiator = ibv_create_qp_ex(context, &init);
    ASSERT_TRUE(target != nullptr && initiator != nullptr);
  }

  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(initiator), 0);
    EXPECT_EQ(ibv_destroy_qp(target), 0);
    for (const Receiver& each : receivers) {
      EXPECT_EQ(each.srq == nullptr ? 0 : ibv_destroy_srq(each.srq), 0);
      EXPECT_EQ(ibv_destroy_cq(each.cq), 0);
    }
    EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
    VerbsProgram::TearDown();
  }

  struct Receiver {
    ibv_cq* cq = nullptr;
    ibv_srq* srq = nullptr;
    std::uint32_t number = 0;
  };

  ibv_xrcd* open_domain(int fd) {
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    init.fd = fd;
    init.oflags = O_CREAT;
    return ibv_open_xrcd(context, &init);
  }

  void make(Receiver& receiver, ibv_pd* of) {
    receiver.cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);
    ibv_srq_init_attr_ex init{};
    init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = of;
    init.xrcd = xrcd;
    init.cq = receiver.cq;
    receiver.srq = ibv_create_srq_ex(context, &init);
    ASSERT_NE(receiver.srq, nullptr);
    ASSERT_EQ(ibv_get_srq_num(receiver.srq, &receiver.number), 0);
  }

  void connect_extended() {
    for (ibv_qp* qp : {initiator, target}) ASSERT_EQ(to_init(qp), 0);
    ASSERT_EQ(to_rtr(target, initiator->qp_num), 0);
    ASSERT_EQ(to_rtr(initiator, target->qp_num), 0);
    for (ibv_qp* qp : {initiator, target}) ASSERT_EQ(to_rts(qp), 0);
  }

  static int give(const Receiver& to, ibv_sge sge, std::uint64_t id) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_srq_recv(to.srq, &wr, &bad);
  }

  int send(std::uint32_t srq, ibv_sge sge, ibv_wr_opcode op = IBV_WR_SEND, std::uint64_t remote = 0,
           std::uint32_t rkey = 0) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = op;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    wr.qp_type.xrc.remote_srqn = srq;
    return ibv_post_send(initiator, &wr, &bad);
  }

  ibv_wc next_of(ibv_cq* queue) {
    std::swap(cq, queue);
    const ibv_wc wc = next();
    std::swap(cq, queue);
    return wc;
  }

  ibv_xrcd* xrcd = nullptr;
  std::array<Receiver, 2> receivers;
  ibv_qp* target = nullptr;
  ibv_qp* initiator = nullptr;
};

TEST_F(ShimXrc, a_message_goes_to_the_receive_queue_that_it_names) {
  connect_extended();
  ASSERT_EQ(give(receivers[0], part(1000, 8), 10), 0);
  ASSERT_EQ(give(receivers[1], part(2000, 8), 20), 0);
  ASSERT_EQ(give(receivers[0], part(3000, 8), 11), 0);
  const std::array<std::size_t, 3> order{1, 0, 0};
  const std::array<std::uint64_t, 3> ids{20, 10, 11};
  const std::array<std::size_t, 3> places{2000, 1000, 3000};
  for (std::size_t i = 0; i < order.size(); ++i) {
    memory[0] = static_cast<std::byte>(i + 1);
    const Receiver& to = receivers[order[i]];
    ASSERT_EQ(send(to.number, part(0, 8)), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    const ibv_wc wc = next_of(to.cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, ids[i]);
    EXPECT_EQ(wc.qp_num, target->qp_num);
    EXPECT_EQ(wc.byte_len, 8U);
    EXPECT_EQ(memory[places[i]], static_cast<std::byte>(i + 1));
  }
}

TEST_F(ShimXrc, a_receive_queue_that_is_not_there_is_an_invalid_request) {
  connect_extended();
  ASSERT_EQ(give(receivers[0], part(1000, 8), 10), 0);
  ASSERT_EQ(ibv_destroy_srq(receivers[0].srq), 0);
  receivers[0].srq = nullptr;
  ASSERT_EQ(send(receivers[0].number, part(0, 8)), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(ShimXrc, the_receive_queue_brings_its_protection_domain_along) {
  connect_extended();
  ibv_pd* other = ibv_alloc_pd(context);
  Receiver stranger;
  make(stranger, other);
  memory[0] = std::byte{42};
  ASSERT_EQ(send(receivers[1].number, part(0, 8), IBV_WR_RDMA_WRITE, at(4000), mr->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(memory[4000], std::byte{42});
  ASSERT_EQ(send(stranger.number, part(0, 8), IBV_WR_RDMA_WRITE, at(5000), mr->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(memory[5000], std::byte{0});
  EXPECT_EQ(ibv_destroy_srq(stranger.srq), 0);
  EXPECT_EQ(ibv_destroy_cq(stranger.cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(ShimXrc, a_domain_stays_while_something_stands_on_it) {
  EXPECT_EQ(ibv_close_xrcd(xrcd), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(receivers[0].cq), EBUSY);
}

TEST_F(ShimXrc, a_domain_is_known_by_its_file) {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ibv_xrcd* first = open_domain(fd);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(open_domain(fd), first);
  EXPECT_NE(first, xrcd);
  EXPECT_EQ(ibv_close_xrcd(first), 0);
  EXPECT_EQ(ibv_close_xrcd(first), 0);
  close(fd);
}

TEST_F(ShimXrc, a_target_can_be_opened_again_and_goes_with_the_last) {
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = target->qp_num;
  open.xrcd = xrcd;
  open.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* again = ibv_open_qp(context, &open);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->qp_num, target->qp_num);
  ASSERT_EQ(ibv_destroy_qp(again), 0);
  connect_extended();  // it is still there
  open.qp_num = initiator->qp_num;
  EXPECT_EQ(ibv_open_qp(context, &open), nullptr);
}

TEST_F(ShimXrc, an_ordinary_queue_pair_does_not_reach_a_target) {
  for (ibv_qp* qp : {qps[0], target}) ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(to_rtr(target, qps[0]->qp_num), 0);
  ASSERT_EQ(to_rtr(qps[0], target->qp_num), 0);
  ASSERT_EQ(to_rts(qps[0]), 0);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), at(4000), mr->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace weft::test
