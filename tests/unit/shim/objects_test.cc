// Objects of libibverbs' ABI: what refuses to go, what keeps its promise, what is never null.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "unit/shim/verbs_fixture.h"

namespace weft::test {
namespace {

struct ShimObjects : VerbsProgram {};

TEST_F(ShimObjects, refuse_to_go_while_something_stands_on_them) {
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* with_channel = ibv_create_cq(context, 4, nullptr, channel, 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(with_channel), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ibv_qp* qp = make_qp(IBV_QPT_RC, srq);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

/// What errno is after a call that has to give this value.
int reason_left_by(int given, int expected) {
  EXPECT_EQ(given, expected);
  return std::exchange(errno, 0);
}

TEST_F(ShimObjects, leave_in_errno_why_they_refuse) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ibv_cq* with_channel = ibv_create_cq(context, 4, nullptr, channel, 0);
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ibv_qp* qp = make_qp(IBV_QPT_RC, srq);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  ibv_srq_attr limits{};
  errno = 0;
  EXPECT_EQ(reason_left_by(ibv_dealloc_pd(pd), EBUSY), EBUSY);
  EXPECT_EQ(reason_left_by(ibv_destroy_cq(cq), EBUSY), EBUSY);
  EXPECT_EQ(reason_left_by(ibv_resize_cq(cq, 0), EINVAL), EINVAL);
  EXPECT_EQ(reason_left_by(ibv_destroy_comp_channel(channel), EBUSY), EBUSY);
  EXPECT_EQ(reason_left_by(ibv_destroy_srq(srq), EBUSY), EBUSY);
  EXPECT_EQ(reason_left_by(ibv_modify_srq(srq, &limits, IBV_SRQ_MAX_WR), EOPNOTSUPP), EOPNOTSUPP);
  EXPECT_EQ(reason_left_by(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(with_channel), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(ShimObjects, a_completion_queue_waits_for_the_acknowledgement_of_its_events) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  int owner = 0;
  ibv_cq* noisy = ibv_create_cq(context, 8, &owner, channel, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = noisy;
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_EQ(to_init(qp), 0);
  ASSERT_EQ(ibv_req_notify_cq(noisy, 0), 0);
  ibv_sge sge = part(0, 8);
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);  // flushed: an event
  ibv_cq* told = nullptr;
  void* told_owner = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &told, &told_owner), 0);
  EXPECT_EQ(told, noisy);
  EXPECT_EQ(told_owner, &owner);
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ibv_ack_cq_events(noisy, 1);
  });
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(ibv_destroy_cq(noisy), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(15));
  later.join();
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(ShimObjects, a_channel_made_non_blocking_says_again_instead_of_waiting) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* told = nullptr;
  void* owner = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &owner), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(ShimObjects, an_access_error_is_told_to_the_owner_of_the_queue_pair) {
  connect();
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), at(0), 0x777), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, qps[1]);
  ibv_ack_async_event(&event);
}

TEST_F(ShimObjects, a_queue_pair_that_is_reset_leaves_no_completion_behind) {
  connect();
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), at(4096), mr->rkey), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(qps[0], &attr, IBV_QP_STATE), 0);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

TEST_F(ShimObjects, a_queue_pair_that_is_destroyed_leaves_the_news_that_its_work_was_done) {
  connect();
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), at(4096), mr->rkey), 0);
  ibv_sge sge = part(0, 8);
  ibv_recv_wr receive{}, *bad = nullptr;
  receive.sg_list = &sge;
  receive.num_sge = 1;
  ASSERT_EQ(ibv_post_recv(qps[0], &receive, &bad), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qps[0], &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(ibv_destroy_qp(std::exchange(qps[0], nullptr)), 0);
  const ibv_wc wc = next();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
  ibv_wc more{};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &more), 0) << "the flushed receive is of no use to anybody";
}

TEST_F(ShimObjects, a_region_registered_anew_keeps_its_keys_and_loses_its_old_range) {
  connect();
  std::vector<std::byte> other(4096);
  const std::uint32_t lkey = mr->lkey, rkey = mr->rkey;
  ASSERT_EQ(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), other.size(), 0), 0);
  EXPECT_EQ(mr->lkey, lkey);
  EXPECT_EQ(mr->rkey, rkey);
  EXPECT_EQ(mr->addr, other.data());
  const auto inside = reinterpret_cast<std::uint64_t>(other.data());
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, {inside, 8, lkey}, inside + 64, rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, {inside, 8, lkey}, at(0), rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
}

TEST_F(ShimObjects, extended_queues_post_batches_and_poll_field_by_field) {
  ibv_cq_init_attr_ex cq_init{};
  cq_init.cqe = 8;
  cq_init.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq_ex = ibv_create_cq_ex(context, &cq_init);
  ASSERT_NE(cq_ex, nullptr);
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq_ex);
  init.cap = {.max_send_wr = 8,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 32};
  init.qp_type = IBV_QPT_RC;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags =
      IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE;
  ibv_qp* first = ibv_create_qp_ex(context, &init);
  ASSERT_NE(first, nullptr);
  std::swap(first, qps[0]);
  connect();
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(qps[0]);
  ASSERT_NE(qp, nullptr);
  std::array<char, 5> text{'w', 'e', 'f', 't', '!'};
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, mr->rkey, at(4096));
  ibv_wr_set_inline_data(qp, text.data(), text.size());
  text.fill('?');  // copied already
  qp->wr_id = 2;
  ibv_wr_atomic_fetch_add(qp, mr->rkey, at(4104), 5);
  ibv_wr_set_sge(qp, mr->lkey, at(0), 8);
  qp->wr_id = 3;
  std::uint64_t word = 0x0123'4567'89AB'CDEF;
  ibv_wr_atomic_write(qp, mr->rkey, at(4112), &word);
  word = 0;  // copied, too
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  ibv_poll_cq_attr poll_attr{};
  ASSERT_EQ(ibv_start_poll(cq_ex, &poll_attr), 0);
  EXPECT_EQ(cq_ex->wr_id, 1u);
  EXPECT_EQ(ibv_wc_read_opcode(cq_ex), IBV_WC_RDMA_WRITE);
  const std::uint64_t stamp = ibv_wc_read_completion_ts(cq_ex);
  EXPECT_GT(stamp, 0u);
  ASSERT_EQ(ibv_next_poll(cq_ex), 0);
  EXPECT_EQ(cq_ex->wr_id, 2u);
  EXPECT_EQ(cq_ex->status, IBV_WC_SUCCESS);
  EXPECT_GE(ibv_wc_read_completion_ts(cq_ex), stamp);
  ASSERT_EQ(ibv_next_poll(cq_ex), 0);
  EXPECT_EQ(cq_ex->wr_id, 3u);
  EXPECT_EQ(cq_ex->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq_ex), IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(ibv_next_poll(cq_ex), ENOENT);
  ibv_end_poll(cq_ex);
  EXPECT_EQ(std::memcmp(memory.data() + 4096, "weft!", 5), 0);
  std::memcpy(&word, memory.data() + 4112, sizeof word);
  EXPECT_EQ(word, 0x0123'4567'89AB'CDEF);
  std::swap(first, qps[0]);
  EXPECT_EQ(ibv_destroy_qp(first), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)), 0);
}

TEST_F(ShimObjects, what_is_not_offered_is_refused_and_not_advertised) {
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_UD;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
  EXPECT_EQ(ibv_create_qp_ex(context, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.qp_type = IBV_QPT_RC;
  init.send_ops_flags = std::uint64_t{1} << 40;
  EXPECT_EQ(ibv_create_qp_ex(context, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_qp_init_attr driver{};
  driver.send_cq = driver.recv_cq = cq;
  driver.qp_type = IBV_QPT_DRIVER;
  EXPECT_EQ(ibv_create_qp(pd, &driver), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(ShimObjects, the_state_that_is_shown_changes_only_when_the_mask_names_it) {
  connect();
  ibv_qp* const qp = qps[0];
  ASSERT_EQ(qp->state, IBV_QPS_RTS);
  // It fails by itself: nobody tells the structure.
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), at(0), mr->rkey ^ 1), 0);
  ASSERT_NE(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(qp->state, IBV_QPS_ERR);

  // A setting alone: the other one is ready to send, whatever its structure says.
  qps[1]->state = IBV_QPS_UNKNOWN;
  attr = {};
  attr.min_rnr_timer = 3;
  ASSERT_EQ(ibv_modify_qp(qps[1], &attr, IBV_QP_MIN_RNR_TIMER), 0);
  EXPECT_EQ(qps[1]->state, IBV_QPS_UNKNOWN);
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qps[1], &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(qps[1]->state, IBV_QPS_ERR);
  // Refused: as it was.
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_NE(ibv_modify_qp(qps[1], &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(qps[1]->state, IBV_QPS_ERR);
}

TEST_F(ShimObjects, an_extended_queue_may_ignore_that_it_is_full) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 2;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  ibv_cq_ex* const made = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(made, nullptr);
  ibv_cq* other = ibv_cq_ex_to_cq(made);
  std::swap(cq, other);
  std::array<ibv_qp*, 2> own{make_qp(), make_qp()};
  std::swap(qps, own);
  connect();
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 8), at(4096), mr->rkey), 0);
  }
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &none), 0);
  // Nobody was told.
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event{};
  EXPECT_NE(ibv_get_async_event(context, &event), 0);
  std::swap(qps, own);
  for (ibv_qp* qp : own) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  std::swap(cq, other);
  EXPECT_EQ(ibv_destroy_cq(other), 0);
}

TEST_F(ShimObjects, an_extended_queue_holds_the_parent_domain_that_it_is_made_for) {
  ibv_parent_domain_init_attr about{};
  about.pd = pd;
  ibv_pd* const parent = ibv_alloc_parent_domain(context, &about);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(parent->handle, pd->handle);
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 2;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  attr.parent_domain = pd;
  EXPECT_EQ(ibv_create_cq_ex(context, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.parent_domain = parent;
  ibv_cq_ex* const made = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(made)), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST_F(ShimObjects, the_sizes_that_callers_name_are_respected) {
  // An older program's structures are shorter: nothing behind them is touched.
  struct Guarded {
    ibv_port_attr attr;
    std::array<std::byte, 64> behind;
  };
  Guarded guarded{};
  guarded.behind.fill(std::byte{0x5A});
  verbs_context* extended = verbs_get_ctx(context);
  ASSERT_NE(extended, nullptr);
  ASSERT_EQ(extended->query_port(context, 1, &guarded.attr, offsetof(ibv_port_attr, flags)), 0);
  EXPECT_EQ(guarded.attr.flags, 0);
  EXPECT_EQ(guarded.attr.state, IBV_PORT_ACTIVE);
  EXPECT_TRUE(std::all_of(guarded.behind.begin(), guarded.behind.end(),
                          [](std::byte b) { return b == std::byte{0x5A}; }));
  EXPECT_EQ(extended->query_port(context, 2, &guarded.attr, sizeof guarded.attr), EINVAL);
}

TEST_F(ShimObjects, a_window_of_type_2_is_bound_used_and_invalidated) {
  connect();
  ibv_mr* bindable = ibv_reg_mr(pd, memory.data() + 4096, 4096, kRights | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  ASSERT_TRUE(bindable != nullptr && mw != nullptr);
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = {
      .mr = bindable, .addr = at(4096), .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  // The peer binds, so that the first queue pair may write.
  ASSERT_EQ(ibv_post_send(qps[1], &wr, &bad), 0);
  ASSERT_EQ(next().opcode, IBV_WC_BIND_MW);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 64), at(4096), wr.bind_mw.rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  ibv_send_wr invalidate{};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.send_flags = IBV_SEND_SIGNALED;
  invalidate.invalidate_rkey = wr.bind_mw.rkey;
  ASSERT_EQ(ibv_post_send(qps[1], &invalidate, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE, part(0, 64), at(4096), wr.bind_mw.rkey), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dereg_mr(bindable), 0);
}

TEST_F(ShimObjects, every_queue_pair_takes_256_bytes_inline_asked_for_or_not) {
  constexpr std::uint32_t kInline = 256;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {.max_send_wr = 8,
              .max_recv_wr = 8,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  ASSERT_EQ(ibv_destroy_qp(qps[0]), 0);
  qps[0] = ibv_create_qp(pd, &init);
  ASSERT_NE(qps[0], nullptr);
  ASSERT_GE(init.cap.max_inline_data, kInline);
  connect();
  std::vector<std::byte> unregistered(kInline, std::byte{0x5A});
  const ibv_sge from{reinterpret_cast<std::uint64_t>(unregistered.data()), kInline, 0};
  ASSERT_EQ(post_recv(part(4096, kInline)), 0);
  ASSERT_EQ(post(IBV_WR_SEND, from, 0, 0, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  unregistered.assign(kInline, std::byte{0});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::count(memory.begin() + 4096, memory.begin() + 4096 + kInline, std::byte{0x5A}),
            kInline);
}

}  // namespace
}  // namespace weft::test
