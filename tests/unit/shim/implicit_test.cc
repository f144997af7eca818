// Implicit on-demand paging through libibverbs' ABI: one region of the whole address space, and
// what the device says about it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "unit/shim/verbs_fixture.h"

namespace weft::test {
namespace {

struct ShimImplicit : VerbsProgram {
  static constexpr int kOnDemand = kRights | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND;

  void SetUp() override {
    VerbsProgram::SetUp();
    all = ibv_reg_mr(pd, nullptr, SIZE_MAX, kOnDemand);
    ASSERT_NE(all, nullptr);
    void* at =
        mmap(nullptr, kPages * page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    pages = static_cast<std::byte*>(at);
  }
  void TearDown() override {
    munmap(pages, kPages * page());
    if (all != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(all), 0);
    }
    VerbsProgram::TearDown();
  }
  static std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  ibv_sge of_pages(std::size_t offset, std::uint32_t n) const {
    return {number(offset), n, all->lkey};
  }
  std::uint64_t number(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(pages + offset);
  }
  int advise(ibv_advise_mr_advice advice, ibv_sge sge) const {
    return ibv_advise_mr(pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
  }

  static constexpr std::size_t kPages = 4;
  ibv_mr* all = nullptr;
  std::byte* pages = nullptr;
};

TEST_F(ShimImplicit, one_region_serves_memory_that_nobody_registered) {
  // B4.13
  connect();
  EXPECT_EQ(all->addr, nullptr);
  EXPECT_EQ(all->length, SIZE_MAX);
  std::memset(pages, 0x11, 100);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, of_pages(0, 100), number(page()), all->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(pages, pages + page(), 100), 0);
  ASSERT_EQ(post(IBV_WR_RDMA_READ, of_pages(200, 100), number(0), all->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(pages, pages + 200, 100), 0);
  ASSERT_EQ(post_recv(of_pages(2 * page(), 100)), 0);
  ASSERT_EQ(post(IBV_WR_SEND, of_pages(0, 100)), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(pages, pages + 2 * page(), 100), 0);
}

TEST_F(ShimImplicit, a_window_is_bound_to_memory_that_nobody_registered) {
  // B4.13
  connect();
  ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind bind{};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {all, number(10), 20, IBV_ACCESS_REMOTE_WRITE};
  ASSERT_EQ(ibv_bind_mw(qps[1], mw, &bind), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  std::memset(memory.data(), 0x22, 20);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 20), number(10), mw->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(pages + 10, memory.data(), 20), 0);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 20), number(11), mw->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(ShimImplicit, memory_that_is_not_mapped_is_an_error_of_the_request) {
  // B4.13
  connect();
  ASSERT_EQ(mprotect(pages + page(), page(), PROT_NONE), 0);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), number(page()), all->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimImplicit, the_device_says_so) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &attr), 0);
  EXPECT_EQ(attr.odp_caps.general_caps,
            std::uint64_t{IBV_ODP_SUPPORT} | std::uint64_t{IBV_ODP_SUPPORT_IMPLICIT});
  constexpr auto kAll = std::uint32_t{IBV_ODP_SUPPORT_SEND} | IBV_ODP_SUPPORT_RECV |
                        IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  EXPECT_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps & kAll, kAll);
}

TEST_F(ShimImplicit, only_on_demand_and_under_its_own_addresses) {
  EXPECT_EQ(ibv_reg_mr(pd, nullptr, SIZE_MAX, kRights), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr_iova(pd, nullptr, SIZE_MAX, 4096, kOnDemand), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd, nullptr, SIZE_MAX - 1, kOnDemand), nullptr) << "that is no whole";
}

TEST_F(ShimImplicit, its_rights_can_be_changed_and_it_stays_what_it_is) {
  connect();
  ASSERT_EQ(ibv_rereg_mr(all, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND),
            0);
  EXPECT_EQ(all->length, SIZE_MAX);
  ASSERT_EQ(post(IBV_WR_RDMA_READ, part(0, 8), number(0), all->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), number(0), all->rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(ShimImplicit, advice_brings_pages_in_and_tells_what_cannot_come) {
  // B4.13
  std::array<unsigned char, kPages> present{};
  const auto all_pages = of_pages(0, static_cast<std::uint32_t>(kPages * page()));
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, all_pages), 0);
  ASSERT_EQ(mincore(pages, kPages * page(), present.data()), 0);
  EXPECT_EQ(present[0] & 1, 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, all_pages), 0);
  ASSERT_EQ(mincore(pages, kPages * page(), present.data()), 0);
  for (const unsigned char one : present) EXPECT_EQ(one & 1, 1);
  ASSERT_EQ(mprotect(pages + page(), page(), PROT_READ), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, all_pages), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, all_pages), EFAULT);
  ASSERT_EQ(mprotect(pages + page(), page(), PROT_NONE), 0);
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, all_pages), EFAULT);
  ibv_sge wrong = of_pages(0, 8);
  wrong.lkey = 0x777;
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, wrong), EFAULT);
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 7, &wrong, 1), EINVAL);
}

}  // namespace
}  // namespace weft::test
