// Raw packet queue pairs, rules and receive work queues through libibverbs' ABI, over the loopback
// interface. Without the capability for that nothing but its refusal is tested (B2.4).
#include <cerrno>

#include "support/raw_packets.h"
#include "unit/shim/verbs_fixture.h"

namespace weft::test {
namespace {

struct ShimRaw : VerbsProgram {
  void SetUp() override {
    VerbsProgram::SetUp();
    errno = 0;
    raw[0] = make_qp(IBV_QPT_RAW_PACKET);
    if (raw[0] == nullptr) {
      ASSERT_EQ(errno, EPERM);
      GTEST_SKIP() << "needs the capability CAP_NET_RAW";
    }
    raw[1] = make_qp(IBV_QPT_RAW_PACKET);
    ASSERT_NE(raw[1], nullptr);
    for (ibv_qp* qp : raw) {
      ibv_qp_attr attr{};
      attr.port_num = 1;
      attr.qp_state = IBV_QPS_INIT;
      ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
      attr.qp_state = IBV_QPS_RTR;
      ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
      attr.qp_state = IBV_QPS_RTS;
      ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    }
  }
  void TearDown() override {
    for (ibv_qp* qp : raw) {
      EXPECT_EQ(qp == nullptr ? 0 : ibv_destroy_qp(qp), 0);
    }
    VerbsProgram::TearDown();
  }

  /// A rule with one specification behind an Ethernet one that masks nothing.
  template <class Spec>
  struct Rule {
    ibv_flow_attr attr{};
    ibv_flow_spec_eth eth{};
    Spec spec{};
  };
  template <class Spec>
  static Rule<Spec> rule(ibv_flow_spec_type type) {
    Rule<Spec> out;
    out.attr.size = sizeof out;
    out.attr.port = 1;
    out.attr.num_of_specs = 2;
    out.eth.type = IBV_FLOW_SPEC_ETH;
    out.eth.size = sizeof out.eth;
    out.spec.type = type;
    out.spec.size = sizeof out.spec;
    return out;
  }
  /// The key of a raw datagram: next header and destination.
  static Rule<ibv_flow_spec_ipv6> key(std::uint8_t next_header, const Gid& destination) {
    auto out = rule<ibv_flow_spec_ipv6>(IBV_FLOW_SPEC_IPV6);
    std::memcpy(out.spec.val.dst_ip, destination.raw.data(), 16);
    std::memset(out.spec.mask.dst_ip, 0xFF, 16);
    out.spec.val.next_hdr = next_header;
    out.spec.mask.next_hdr = 0xFF;
    return out;
  }

  void give(ibv_qp* qp, std::uint64_t id) {
    ibv_sge sge = part(4096, 1024);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  }
  /// Sends the frame, and says whose buffer it came to.
  std::uint64_t taker(const Bytes& sent) {
    std::memcpy(memory.data(), sent.data(), sent.size());
    ibv_sge sge = part(0, static_cast<std::uint32_t>(sent.size()));
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    EXPECT_EQ(ibv_post_send(raw[0], &wr, &bad), 0);
    std::uint64_t id = 0;
    for (int i = 0; i < 2; ++i) {
      const ibv_wc wc = next();
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      if (wc.opcode == IBV_WC_RECV) {
        id = wc.wr_id;
        EXPECT_EQ(wc.byte_len, sent.size());
        EXPECT_EQ(std::memcmp(memory.data() + 4096, sent.data(), sent.size()), 0);
      }
    }
    return id;
  }

  std::array<ibv_qp*, 2> raw{};
  const Gid there = gid("fd00:57ef::2");
  const Bytes frame = frame_of(udp_packet(gid("fd00:57ef::1"), there));
};

TEST_F(ShimRaw, a_rule_of_next_header_and_address_brings_what_it_names) {
  // B2.4
  auto udp_there = key(17, there);
  ibv_flow* const flow = ibv_create_flow(raw[1], &udp_there.attr);
  ASSERT_NE(flow, nullptr);
  give(raw[1], 5);
  EXPECT_EQ(taker(frame), 5U);
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
}

TEST_F(ShimRaw, of_two_rules_the_one_of_lower_priority_value_counts) {
  auto ports = rule<ibv_flow_spec_ipv6>(IBV_FLOW_SPEC_IPV6);
  auto exact = key(17, there);
  exact.attr.priority = 2;
  ports.attr.priority = 1;
  ibv_flow* const first = ibv_create_flow(raw[0], &exact.attr);
  ibv_flow* const second = ibv_create_flow(raw[1], &ports.attr);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  give(raw[0], 1);
  give(raw[1], 2);
  EXPECT_EQ(taker(frame), 2U);
  EXPECT_EQ(ibv_destroy_flow(second), 0);
  EXPECT_EQ(taker(frame), 1U);
  EXPECT_EQ(ibv_destroy_flow(first), 0);
}

TEST_F(ShimRaw, what_a_rule_cannot_say_is_refused) {
  auto good = key(17, there);
  EXPECT_EQ(ibv_create_flow(qps[0], &good.attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  auto cut = good;
  cut.spec.size -= 4;
  EXPECT_EQ(ibv_create_flow(raw[0], &cut.attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  auto nothing = good;
  nothing.eth.size = 0;
  EXPECT_EQ(ibv_create_flow(raw[0], &nothing.attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  auto port = good;
  port.attr.port = 2;
  EXPECT_EQ(ibv_create_flow(raw[0], &port.attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  auto drop = rule<ibv_flow_spec_action_drop>(IBV_FLOW_SPEC_ACTION_DROP);
  EXPECT_EQ(ibv_create_flow(raw[0], &drop.attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(ShimRaw, packets_of_one_flow_stay_in_one_of_several_receive_queues) {
  std::array<ibv_wq*, 2> queues{};
  for (ibv_wq*& wq : queues) {
    ibv_wq_init_attr init{};
    init.wq_type = IBV_WQT_RQ;
    init.max_wr = init.max_sge = 4;
    init.pd = pd;
    init.cq = cq;
    wq = ibv_create_wq(context, &init);
    ASSERT_NE(wq, nullptr);
    ibv_wq_attr ready{};
    ready.attr_mask = IBV_WQ_ATTR_STATE;
    ready.wq_state = IBV_WQS_RDY;
    ASSERT_EQ(ibv_modify_wq(wq, &ready), 0);
  }
  ibv_rwq_ind_table_init_attr of{};
  of.log_ind_tbl_size = 1;
  of.ind_tbl = queues.data();
  ibv_rwq_ind_table* const table = ibv_create_rwq_ind_table(context, &of);
  ASSERT_NE(table, nullptr);
  std::array<std::uint8_t, 40> hash_key{};
  for (std::size_t i = 0; i < hash_key.size(); ++i) {
    hash_key[i] = static_cast<std::uint8_t>(0x6D + 37 * i);
  }
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_RAW_PACKET;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
  init.pd = pd;
  init.rwq_ind_tbl = table;
  init.rx_hash_conf.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
  init.rx_hash_conf.rx_hash_key_len = 39;
  init.rx_hash_conf.rx_hash_key = hash_key.data();
  init.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV6;
  EXPECT_EQ(ibv_create_qp_ex(context, &init), nullptr);
  init.rx_hash_conf.rx_hash_key_len = 40;
  ibv_qp* const spread = ibv_create_qp_ex(context, &init);
  ASSERT_NE(spread, nullptr);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table), EBUSY);
  auto rule_there = key(17, there);
  ibv_flow* const flow = ibv_create_flow(spread, &rule_there.attr);
  ASSERT_NE(flow, nullptr);
  std::array<int, 2> came{};
  for (int source = 0; source < 16; ++source) {
    for (std::uint64_t i = 0; i < queues.size(); ++i) {
      ibv_sge sge = part(4096, 1024);
      ibv_recv_wr wr{}, *bad = nullptr;
      wr.wr_id = i;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      const int posted = ibv_post_wq_recv(queues[i], &wr, &bad);
      EXPECT_TRUE(posted == 0 || posted == ENOMEM);  // those of the other queue are still there
    }
    Bytes from = frame;
    from[14 + 23] = static_cast<std::byte>(source);
    const std::uint64_t first = taker(from);
    ++came[first];
  }
  EXPECT_GT(came[0], 0);
  EXPECT_GT(came[1], 0);
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
  EXPECT_EQ(ibv_destroy_qp(spread), 0);
  EXPECT_EQ(ibv_destroy_wq(queues[0]), EBUSY);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
  for (ibv_wq* wq : queues) EXPECT_EQ(ibv_destroy_wq(wq), 0);
}

}  // namespace
}  // namespace weft::test
