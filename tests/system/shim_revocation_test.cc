// A program of libibverbs that takes memory back while another process writes to it, and uses it
// for something else at once: nothing is written there any more, on either path.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "support/hammered_memory.h"

namespace weft::test {
namespace {

constexpr int kShimTurns = 100;
constexpr auto kShimTime = 3s;
constexpr int kShimRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

struct ShimEnd {
  std::uint32_t qpn;
  ibv_gid gid;
};

/// One process's objects. Unreliable, as a refused write would end a reliable connection.
struct ShimSide {
  ShimSide() {
    ibv_device** list = ibv_get_device_list(nullptr);
    WEFT_REQUIRE(list != nullptr && list[0] != nullptr);
    context = ibv_open_device(list[0]);
    WEFT_REQUIRE(context);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 256, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_UC;
    init.send_cq = init.recv_cq = cq;
    init.sq_sig_all = 1;
    init.cap.max_send_wr = 64;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp = ibv_create_qp(pd, &init);
    WEFT_REQUIRE(qp);
  }

  void connect(const Wire& wire) const {
    ShimEnd mine{qp->qp_num, {}};
    WEFT_REQUIRE(ibv_query_gid(context, 1, 0, &mine.gid) == 0);
    wire.put(mine);
    const auto theirs = wire.get<ShimEnd>();
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = kShimRights;
    attr.qp_state = IBV_QPS_INIT;
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
    WEFT_REQUIRE(ibv_modify_qp(qp, &attr, kInit) == 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = theirs.qpn;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = theirs.gid;
    constexpr int kRtr =
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    WEFT_REQUIRE(ibv_modify_qp(qp, &attr, kRtr) == 0);
    attr.qp_state = IBV_QPS_RTS;
    WEFT_REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    wire.sync();
  }

  void poll() const {
    std::array<ibv_wc, 16> wc;
    WEFT_REQUIRE(ibv_poll_cq(cq, wc.size(), wc.data()) >= 0);
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
};

struct ShimSetting {
  const char* name;
  const char* path;
};

void use(const ShimSetting& setting, const char* device) {
  setenv("WEFT_PATH", setting.path, 1);
  setenv("WEFT_DEVICES", device, 1);
}

void write_for_ever(const Wire& wire, Mailbox<Anvil>& anvil) {
  const ShimSide side;
  std::vector<std::byte> source(kHammeredBytes, kHammer);
  ibv_mr* mr = ibv_reg_mr(side.pd, source.data(), source.size(), kShimRights);
  side.connect(wire);
  run_on_processor(1);
  while (!anvil->over.load(std::memory_order_relaxed)) {
    const std::uint32_t key = anvil->key.load(std::memory_order_acquire);
    if (key != 0) {
      ibv_sge sge{reinterpret_cast<std::uint64_t>(source.data()), kHammeredBytes, mr->lkey};
      ibv_send_wr wr{}, *bad = nullptr;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_RDMA_WRITE;
      wr.wr.rdma.remote_addr = anvil->address.load(std::memory_order_relaxed);
      wr.wr.rdma.rkey = key;
      static_cast<void>(ibv_post_send(side.qp, &wr, &bad));  // when it is full, the next one goes
    }
    side.poll();
  }
}

struct ShimOutcome {
  int turns, landed;
};

ShimOutcome take_back_again_and_again(const Wire& wire, Mailbox<Anvil>& anvil) {
  const ShimSide side;
  side.connect(wire);
  run_on_processor(0);
  ShimOutcome outcome{};
  std::mt19937 random{5};
  const auto end = Hammered::Clock::now() + kShimTime;
  while (outcome.turns < kShimTurns && Hammered::Clock::now() < end) {
    ++outcome.turns;
    void* memory = nullptr;
    WEFT_REQUIRE(posix_memalign(&memory, 4096, kHammeredBytes) == 0);
    const Hammered bytes(std::span(static_cast<std::byte*>(memory), kHammeredBytes));
    bytes.fill(std::byte{0});
    ibv_mr* mr = ibv_reg_mr(side.pd, memory, kHammeredBytes, kShimRights);
    WEFT_REQUIRE(mr);
    anvil->set({reinterpret_cast<std::uint64_t>(memory), RemoteKey(mr->rkey)});
    const volatile std::byte* at = bytes.data() + kHammeredBytes / 2;
    const auto give_up = Hammered::Clock::now() + 10s;
    while (*at != kHammer) {
      WEFT_REQUIRE(Hammered::Clock::now() < give_up);
      side.poll();
    }
    Hammered::spin(std::chrono::microseconds(random() % 100));
    WEFT_REQUIRE(ibv_dereg_mr(mr) == 0);
    // Freed, and given to somebody else: most often it is the same memory.
    free(memory);
    WEFT_REQUIRE(posix_memalign(&memory, 4096, kHammeredBytes) == 0);
    const Hammered again(std::span(static_cast<std::byte*>(memory), kHammeredBytes));
    if (!again.stays_as_it_is()) ++outcome.landed;
    free(memory);
  }
  anvil->over.store(true);
  return outcome;
}

class ShimRevocation : public testing::TestWithParam<ShimSetting> {};

TEST_P(ShimRevocation, lets_nothing_land_in_memory_that_was_freed) {
  Mailbox<Anvil> anvil;
  Partner writer([&](const Wire& wire) {
    use(GetParam(), "weft0=127.71.0.1");
    write_for_ever(wire, anvil);
  });
  Partner owner([&](const Wire& wire) {
    use(GetParam(), "weft0=127.71.0.2");
    wire.put(take_back_again_and_again(wire, anvil));
  });
  ShimEnd a{}, b{};
  ASSERT_TRUE(writer.wire().get(&a));
  ASSERT_TRUE(owner.wire().get(&b));
  writer.wire().put(b);
  owner.wire().put(a);
  writer.wire().sync();
  owner.wire().sync();
  ShimOutcome outcome{};
  ASSERT_TRUE(owner.wire().get(&outcome));
  EXPECT_EQ(outcome.landed, 0) << "of " << outcome.turns;
  EXPECT_GE(outcome.turns, 5);
  EXPECT_EQ(owner.join(), 0);
  EXPECT_EQ(writer.join(), 0);
}

INSTANTIATE_TEST_SUITE_P(Paths, ShimRevocation,
                         testing::Values(ShimSetting{"neighbour", "auto"},
                                         ShimSetting{"framed", "framed"}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weft::test
