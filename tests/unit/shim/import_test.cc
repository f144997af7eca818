// Objects of one context, used through another that was imported from its descriptor.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "unit/shim/verbs_fixture.h"

namespace weft::test {
namespace {

struct ShimImports : VerbsProgram {
  void SetUp() override {
    VerbsProgram::SetUp();
    imported = ibv_import_device(dup(context->cmd_fd));
    ASSERT_NE(imported, nullptr);
  }
  void TearDown() override {
    if (imported != nullptr) {
      EXPECT_EQ(ibv_close_device(imported), 0);
    }
    VerbsProgram::TearDown();
  }
  ibv_context* imported = nullptr;
};

TEST_F(ShimImports, a_queue_pair_of_an_imported_domain_uses_an_imported_region) {
  EXPECT_EQ(imported->device, context->device);
  ibv_pd* const pd_there = ibv_import_pd(imported, pd->handle);
  ASSERT_NE(pd_there, nullptr);
  EXPECT_EQ(pd_there->handle, pd->handle);
  EXPECT_EQ(pd_there->context, imported);
  ibv_mr* const mr_there = ibv_import_mr(pd_there, mr->handle);
  ASSERT_NE(mr_there, nullptr);
  EXPECT_EQ(mr_there->addr, nullptr);
  EXPECT_EQ(mr_there->length, mr->length);
  EXPECT_EQ(mr_there->lkey, mr->lkey);
  EXPECT_EQ(mr_there->rkey, mr->rkey);

  ibv_qp* const own = qps[0];
  ibv_cq* cq_there = ibv_create_cq(imported, 8, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_there;
  init.cap = {8, 8, 2, 2, 64};
  init.qp_type = IBV_QPT_RC;
  qps[0] = ibv_create_qp(pd_there, &init);
  ASSERT_NE(qps[0], nullptr);
  connect();
  memory[0] = std::byte{0x5A};
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, {at(0), 8, mr_there->lkey}, at(4096), mr_there->rkey), 0);
  std::swap(cq, cq_there);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  std::swap(cq, cq_there);
  EXPECT_EQ(memory[4096], std::byte{0x5A});

  EXPECT_EQ(ibv_destroy_qp(qps[0]), 0);
  qps[0] = own;
  EXPECT_EQ(ibv_destroy_cq(cq_there), 0);
  ibv_unimport_mr(mr_there);
  ibv_unimport_pd(pd_there);
}

TEST_F(ShimImports, users_of_a_domain_count_in_whichever_context_they_are) {
  ibv_pd* const both = ibv_alloc_pd(context);
  ibv_pd* const there = ibv_import_pd(imported, both->handle);
  ASSERT_NE(there, nullptr);
  ibv_mr* const region = ibv_reg_mr(there, memory.data(), 64, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_EQ(ibv_dealloc_pd(both), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  ibv_unimport_pd(there);
  EXPECT_EQ(ibv_dealloc_pd(both), 0);
}

TEST_F(ShimImports, a_region_destroyed_through_one_is_gone_for_the_other) {
  connect();
  ibv_mr* const region = ibv_reg_mr(pd, memory.data() + 4096, 64, kRights);
  ibv_pd* const pd_there = ibv_import_pd(imported, pd->handle);
  ibv_mr* const there = ibv_import_mr(pd_there, region->handle);
  ASSERT_NE(there, nullptr);
  const std::uint32_t handle = region->handle, rkey = region->rkey;
  EXPECT_EQ(ibv_rereg_mr(there, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_dereg_mr(there), 0);
  EXPECT_EQ(ibv_import_mr(pd_there, handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), at(4096), rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  ibv_unimport_mr(region);  // what is left to do for who made it
  ibv_unimport_pd(pd_there);
}

TEST_F(ShimImports, a_region_lives_on_when_its_last_structure_is_unimported) {
  connect();
  ibv_mr* const region = ibv_reg_mr(pd, memory.data() + 4096, 64, kRights);
  const std::uint32_t handle = region->handle, rkey = region->rkey;
  ibv_unimport_mr(region);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), at(4096), rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  ibv_mr* const again = ibv_import_mr(pd, handle);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ibv_dereg_mr(again), 0);
}

TEST_F(ShimImports, device_memory_is_the_same_memory) {
  ibv_alloc_dm_attr attr{};
  attr.length = 64;
  ibv_dm* const dm = ibv_alloc_dm(context, &attr);
  ASSERT_NE(dm, nullptr);
  ibv_dm* const there = ibv_import_dm(imported, dm->handle);
  ASSERT_NE(there, nullptr);
  const std::uint64_t written = 0x0123'4567'89AB'CDEF;
  std::uint64_t read = 0;
  ASSERT_EQ(ibv_memcpy_to_dm(dm, 8, &written, sizeof written), 0);
  ASSERT_EQ(ibv_memcpy_from_dm(&read, there, 8, sizeof read), 0);
  EXPECT_EQ(read, written);
  ibv_mr* const region =
      ibv_reg_dm_mr(pd, there, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  ibv_unimport_dm(there);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(ShimImports, a_handle_of_another_open_device_names_nothing) {
  ibv_context* const other = ibv_open_device(context->device);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(ibv_import_pd(other, pd->handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_dm(imported, 0xFFFF'FFFF), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(ShimImports, objects_outlive_the_context_that_they_were_made_in) {
  ibv_context* const first = ibv_open_device(context->device);
  ibv_pd* const made = ibv_alloc_pd(first);
  ibv_context* const second = ibv_import_device(dup(first->cmd_fd));
  ASSERT_NE(second, nullptr);
  ibv_pd* const kept = ibv_import_pd(second, made->handle);
  ASSERT_NE(kept, nullptr);
  ibv_unimport_pd(made);
  EXPECT_EQ(ibv_close_device(first), 0);
  ibv_mr* const region = ibv_reg_mr(kept, memory.data(), 64, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dealloc_pd(kept), 0);
  EXPECT_EQ(ibv_close_device(second), 0);
}

TEST_F(ShimImports, a_descriptor_of_another_process_is_refused) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = ibv_import_device(dup(context->cmd_fd)) == nullptr && errno == EOPNOTSUPP;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft::test
