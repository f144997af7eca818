// The usual mistakes, and whether the paragraph that --explain prints names each one's cause.
#include <cstdlib>
#include <string>

#include "unit/shim/verbs_fixture.h"

namespace weft::test {
namespace {

// Read once by the library, at its first question.
[[gnu::constructor]] void want_explanations() { setenv("WEFT_EXPLAIN", "1", 1); }

struct Explanation : VerbsProgram {
  /// What was explained while `mistake` ran; the whole of standard error.
  template <class Mistake>
  std::string of(Mistake mistake) {
    testing::internal::CaptureStderr();
    mistake();
    return testing::internal::GetCapturedStderr();
  }
  /// The same for a request that is posted and fails.
  template <class Post>
  std::string of_failure(ibv_wc_status status, Post posting) {
    return of([&] {
      EXPECT_EQ(posting(), 0);
      EXPECT_EQ(next().status, status);
    });
  }
  static void says(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* piece : parts) {
      EXPECT_NE(text.find(piece), std::string::npos) << "'" << piece << "' is not in: " << text;
    }
  }
};

TEST_F(Explanation, of_a_send_on_a_queue_pair_that_is_not_ready) {
  const std::string text = of([&] { EXPECT_EQ(post(IBV_WR_SEND, part(0, 8)), EINVAL); });
  says(text, {"ibv_post_send", "RESET", "needs RTS"});
}

TEST_F(Explanation, of_a_transition_without_what_it_needs) {
  const std::string text = of([&] {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(qps[0], &attr, IBV_QP_STATE), EINVAL);
  });
  says(text, {"ibv_modify_qp", "RESET", "RTR"});
}

TEST_F(Explanation, of_an_lkey_that_nobody_has) {
  connect();
  const std::string text = of_failure(IBV_WC_LOC_PROT_ERR, [&] {
    return post(IBV_WR_RDMA_WRITE, {at(0), 8, 0x1234500}, at(4096), mr->rkey);
  });
  says(text, {"sg_list[0]", "no region has that lkey", "mr->lkey"});
}

TEST_F(Explanation, of_an_rkey_used_as_lkey) {
  connect();
  ASSERT_NE(mr->lkey, mr->rkey);
  const std::string text = of_failure(IBV_WC_LOC_PROT_ERR, [&] {
    return post(IBV_WR_RDMA_WRITE, {at(0), 8, mr->rkey}, at(4096), mr->rkey);
  });
  says(text, {"it is the rkey of one"});
}

TEST_F(Explanation, of_a_list_that_leaves_its_region) {
  connect();
  const std::string text = of_failure(IBV_WC_LOC_PROT_ERR, [&] {
    return post(IBV_WR_RDMA_WRITE, {at(8000), 500, mr->lkey}, at(0), mr->rkey);
  });
  says(text, {"not inside the region", "(8192 bytes)", "registered by"});
}

TEST_F(Explanation, of_a_read_into_memory_without_local_write) {
  connect();
  std::array<std::byte, 64> constant{};
  ibv_mr* read_only = ibv_reg_mr(pd, constant.data(), constant.size(), 0);
  const ibv_sge into{reinterpret_cast<std::uint64_t>(constant.data()), 8, read_only->lkey};
  const std::string text = of_failure(
      IBV_WC_LOC_PROT_ERR, [&] { return post(IBV_WR_RDMA_READ, into, at(0), mr->rkey); });
  says(text, {"IBV_ACCESS_LOCAL_WRITE"});
  ibv_dereg_mr(read_only);
}

TEST_F(Explanation, of_a_buffer_deregistered_too_early) {
  connect();
  std::array<std::byte, 64> bytes{};
  ibv_mr* gone = ibv_reg_mr(pd, bytes.data(), bytes.size(), kRights);
  const ibv_sge from{reinterpret_cast<std::uint64_t>(bytes.data()), 8, gone->lkey};
  ibv_dereg_mr(gone);
  const std::string text = of_failure(
      IBV_WC_LOC_PROT_ERR, [&] { return post(IBV_WR_RDMA_WRITE, from, at(0), mr->rkey); });
  says(text, {"deregistered", "after the work request has completed"});
}

TEST_F(Explanation, of_a_write_past_the_end_of_what_was_granted) {
  connect();
  const std::string text = of_failure(IBV_WC_REM_ACCESS_ERR, [&] {
    return post(IBV_WR_RDMA_WRITE, part(0, 100), at(8100), mr->rkey);
  });
  says(text, {"with rkey", "not inside what was granted", "ends 8 bytes behind it"});
}

TEST_F(Explanation, of_a_right_that_the_region_does_not_give) {
  connect();
  std::array<std::byte, 64> bytes{};
  ibv_mr* shown = ibv_reg_mr(pd, bytes.data(), bytes.size(), IBV_ACCESS_REMOTE_READ);
  const std::string text = of_failure(IBV_WC_REM_ACCESS_ERR, [&] {
    return post(IBV_WR_RDMA_WRITE, part(0, 8), reinterpret_cast<std::uint64_t>(bytes.data()),
                shown->rkey);
  });
  says(text, {"IBV_ACCESS_REMOTE_WRITE", "remote read"});
  ibv_dereg_mr(shown);
}

TEST_F(Explanation, of_a_right_that_the_queue_pair_does_not_give) {
  connect(IBV_ACCESS_LOCAL_WRITE);
  const std::string text = of_failure(IBV_WC_REM_ACCESS_ERR, [&] {
    return post(IBV_WR_RDMA_WRITE, part(0, 8), at(4096), mr->rkey);
  });
  says(text, {"qp_access_flags"});
}

TEST_F(Explanation, of_a_stale_rkey) {
  connect();
  std::array<std::byte, 64> bytes{};
  ibv_mr* old = ibv_reg_mr(pd, bytes.data(), bytes.size(), kRights);
  const std::uint32_t rkey = old->rkey;
  ibv_dereg_mr(old);
  const std::string text = of_failure(IBV_WC_REM_ACCESS_ERR, [&] {
    return post(IBV_WR_RDMA_WRITE, part(0, 8), reinterpret_cast<std::uint64_t>(bytes.data()), rkey);
  });
  says(text, {"deregistered"});
}

TEST_F(Explanation, of_a_key_of_another_domain) {
  connect();
  ibv_pd* other = ibv_alloc_pd(context);
  std::array<std::byte, 64> bytes{};
  ibv_mr* foreign = ibv_reg_mr(other, bytes.data(), bytes.size(), kRights);
  const std::string text = of_failure(IBV_WC_REM_ACCESS_ERR, [&] {
    return post(IBV_WR_RDMA_WRITE, part(0, 8), reinterpret_cast<std::uint64_t>(bytes.data()),
                foreign->rkey);
  });
  says(text, {"another protection domain"});
  ibv_dereg_mr(foreign);
  ibv_dealloc_pd(other);
}

TEST_F(Explanation, of_an_atomic_that_is_not_aligned) {
  connect();
  const std::string text = of_failure(IBV_WC_REM_INV_REQ_ERR, [&] {
    return post(IBV_WR_ATOMIC_FETCH_AND_ADD, part(0, 8), at(4097), mr->rkey);
  });
  says(text, {"multiple of 8"});
}

TEST_F(Explanation, of_a_send_without_a_receive) {
  connect();
  const std::string text =
      of_failure(IBV_WC_RNR_RETRY_EXC_ERR, [&] { return post(IBV_WR_SEND, part(0, 8)); });
  says(text, {"receive queue was empty", "rnr_retry"});
}

TEST_F(Explanation, of_a_receive_that_is_too_short) {
  connect();
  const std::string text = of([&] {
    EXPECT_EQ(post_recv(part(4096, 16)), 0);
    EXPECT_EQ(post(IBV_WR_SEND, part(0, 100)), 0);
    std::array<ibv_wc_status, 2> seen{next().status, next().status};
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen[0], IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(seen[1], IBV_WC_REM_INV_REQ_ERR);
  });
  says(text, {"longer than the 16 bytes posted", "more than the receive buffer"});
}

TEST_F(Explanation, of_a_peer_that_is_not_there) {
  ASSERT_EQ(to_init(qps[0]), 0);
  ASSERT_EQ(to_rtr(qps[0], 0x123), 0);
  ASSERT_EQ(to_rts(qps[0]), 0);
  const std::string text =
      of_failure(IBV_WC_RETRY_EXC_ERR, [&] { return post(IBV_WR_SEND, part(0, 8)); });
  says(text, {"No queue pair of that number", "dest_qp_num", "weft run --device weft0=auto"});
}

TEST_F(Explanation, of_a_full_send_queue) {
  // The first waits for its peer, longer than this takes, and the others behind it.
  for (ibv_qp* qp : qps) ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(to_rtr(qps[0], qps[1]->qp_num), 0);
  ASSERT_EQ(to_rts(qps[0], 24), 0);
  const std::string text = of([&] {
    int error = 0;
    for (int i = 0; i < 9 && error == 0; ++i) error = post(IBV_WR_SEND, part(0, 8));
    EXPECT_EQ(error, ENOMEM);
  });
  says(text, {"ibv_post_send", "8"});
}

TEST_F(Explanation, of_a_gid_index_that_is_not_there) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = 5;
  ASSERT_EQ(ibv_query_gid(context, 1, 0, &attr.grh.dgid), 0);
  says(of([&] { EXPECT_EQ(ibv_create_ah(pd, &attr), nullptr); }),
       {"ibv_create_ah", "weft0", "no GID at index 5", "0 to 3"});
  ibv_gid gid{};
  says(of([&] { EXPECT_NE(ibv_query_gid(context, 1, 99, &gid), 0); }),
       {"ibv_query_gid", "no GID at index 99", "0 to 3"});
}

TEST_F(Explanation, of_gids_of_different_kinds) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = 1;
  ASSERT_EQ(ibv_query_gid(context, 1, 3, &attr.grh.dgid), 0);
  ibv_ah* ah = nullptr;
  says(of([&] { ah = ibv_create_ah(pd, &attr); }),
       {"ibv_create_ah", "sgid_index 1 is fe80::5efe:7f00:1, dgid is 127.0.0.1",
        "network cards do not"});
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  attr.grh.sgid_index = 3;
  EXPECT_EQ(of([&] { ah = ibv_create_ah(pd, &attr); }), "");
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Explanation, of_a_link_local_gid_that_no_weft_device_has) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid.raw[0] = 0xFE;
  attr.grh.dgid.raw[1] = 0x80;
  attr.grh.dgid.raw[15] = 7;
  says(of([&] { EXPECT_EQ(ibv_create_ah(pd, &attr), nullptr); }),
       {"dgid: fe80::7 is link-local", "the peer's GID that has its IP address"});
}

TEST_F(Explanation, of_memory_that_cannot_be_registered) {
  const std::string text = of([&] {
    EXPECT_EQ(ibv_reg_mr(pd, reinterpret_cast<void*>(0x1000), 4096, kRights), nullptr);
    EXPECT_EQ(errno, EFAULT);
  });
  says(text, {"ibv_reg_mr", "0x1000"});
}

}  // namespace
}  // namespace weft::test
