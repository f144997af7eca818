// Two contexts of one device on the network, in one process, share what is behind them, but not
// their asynchronous events: each is told of its own objects, and only those.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cstdlib>
#include <string>

#include "support/two_hosts.h"

namespace {

struct Opened {
  Opened() {
    ibv_device** list = ibv_get_device_list(nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_srq_init_attr shared{};
    shared.attr.max_wr = 16;
    shared.attr.max_sge = 1;
    srq = ibv_create_srq(pd, &shared);
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_UD;
    init.send_cq = init.recv_cq = cq;
    init.srq = srq;
    init.cap.max_send_wr = 16;
    init.cap.max_send_sge = 1;
    qp = ibv_create_qp(pd, &init);
  }
  ~Opened() {
    ibv_destroy_qp(qp);
    ibv_destroy_srq(srq);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  /// With a shared receive queue the program is told that no more buffers will be taken.
  bool fail() const {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = 1;
    attr.qp_state = IBV_QPS_INIT;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY) !=
        0) {
      return false;
    }
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0) return false;
    attr.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0;
  }
  bool is_told(int wait_ms) const {
    pollfd events{context->async_fd, POLLIN, 0};
    return poll(&events, 1, wait_ms) == 1;
  }
  /// The next event is about our queue pair.
  bool hears_of_its_own() const {
    ibv_async_event event{};
    if (!is_told(10'000) || ibv_get_async_event(context, &event) != 0) return false;
    const bool ours = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qp;
    ibv_ack_async_event(&event);
    return ours;
  }

  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_srq* srq;
  ibv_qp* qp;
};

int two_contexts() {
  setenv("WEFT_DEVICES", (std::string("weft0=") + weft::test::kFirstHost.v4).c_str(), 1);
  const Opened first, second;
  if (first.qp == nullptr || second.qp == nullptr) return 1;
  if (first.context->async_fd == second.context->async_fd) return 2;
  if (!second.fail()) return 3;
  if (first.is_told(100)) return 4;
  if (!second.hears_of_its_own()) return 5;
  if (!first.fail() || !first.hears_of_its_own()) return 6;
  return first.is_told(0) || second.is_told(0) ? 7 : 0;
}

TEST(ShimEvents, reach_the_context_whose_object_they_are_about) {
  const auto result =
      weft::test::on_two_hosts([](int) { return two_contexts(); }, weft::test::stay);
  if (!result) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(*result, 0);
}

}  // namespace
