// Threads that wait for events while others destroy what the events are about: libibverbs allows
// it, and nobody may wait for ever. WEFT_SOAK_SECONDS makes it longer.
#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cstdio>

#include "support/soak_time.h"
#include "unit/shim/verbs_fixture.h"

namespace {

using namespace std::chrono_literals;

/// Ends the process when nothing has moved for a while: the threads that hang cannot be ended.
class Watchdog {
 public:
  explicit Watchdog(const char* what) : thread_([this, what] { watch(what); }) {}
  ~Watchdog() {
    done_ = true;
    thread_.join();
  }
  void moved() { ++rounds_; }

 private:
  void watch(const char* what) {
    std::uint64_t seen = 0;
    auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done_) {
      std::this_thread::sleep_for(10ms);
      const auto now = std::chrono::steady_clock::now();
      if (rounds_ != seen) seen = rounds_, deadline = now + kPatience;
      if (now < deadline) continue;
      std::fprintf(stderr, "%s: hangs in round %lu\n", what, static_cast<unsigned long>(seen));
      _exit(1);
    }
  }

  static constexpr auto kPatience = 60s;
  std::atomic<bool> done_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::thread thread_;
};

struct EventsThreads : weft::test::VerbsProgram {
  /// Threads in ibv_get_async_event, until ends() has been called.
  class AsyncReaders {
   public:
    AsyncReaders(ibv_context* context, int threads) : context_(context) {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { read(); });
    }
    ~AsyncReaders() {
      for (std::thread& thread : threads_) thread.join();
    }
    std::atomic<std::uint64_t> got{0};
    std::atomic<int> ended{0};
    std::atomic<bool> done{false};

   private:
    // Without a program's own wait between, so that all of them are in the call most of the time.
    void read() {
      while (!done) {
        ibv_async_event event{};
        if (ibv_get_async_event(context_, &event) != 0) continue;
        ++got;
        ibv_ack_async_event(&event);
      }
      ++ended;
    }
    ibv_context* context_;
    std::vector<std::thread> threads_;
  };

  ibv_srq* make_srq() {
    ibv_srq_init_attr init{};
    init.attr.max_wr = 4;
    init.attr.max_sge = 1;
    return ibv_create_srq(pd, &init);
  }
  /// A queue pair with a shared receive queue that fails has an event.
  void cause_event(ibv_qp* qp) {
    ASSERT_EQ(to_init(qp), 0);
    ASSERT_EQ(to_rtr(qp, qp->qp_num), 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  }
  /// Until each of so many readers has seen that it is over: those that wait get an event.
  void wake(AsyncReaders& readers, int threads, ibv_srq* srq) {
    readers.done = true;
    while (readers.ended < threads) {
      ibv_qp* qp = make_qp(IBV_QPT_RC, srq);
      const std::uint64_t before = readers.got;
      cause_event(qp);
      while (readers.got == before && readers.ended < threads) std::this_thread::yield();
      ASSERT_EQ(ibv_destroy_qp(qp), 0);
    }
  }
};

TEST_F(EventsThreads, queue_pairs_go_while_threads_wait_for_asynchronous_events) {
  constexpr int kThreads = 3;
  ibv_srq* srq = make_srq();
  Watchdog watchdog("ibv_destroy_qp against ibv_get_async_event");
  {
    AsyncReaders readers(context, kThreads);
    const auto end = std::chrono::steady_clock::now() + weft::test::soak_time(1500ms);
    while (std::chrono::steady_clock::now() < end) {
      ibv_qp* qp = make_qp(IBV_QPT_RC, srq);
      cause_event(qp);
      ASSERT_EQ(ibv_destroy_qp(qp), 0);
      watchdog.moved();
    }
    wake(readers, kThreads, srq);
  }
  ASSERT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(EventsThreads, queue_pairs_go_while_the_program_changes_the_flags_of_the_descriptor) {
  constexpr int kThreads = 2;
  ibv_srq* srq = make_srq();
  Watchdog watchdog("changing flags");
  {
    AsyncReaders readers(context, kThreads);
    std::atomic<bool> done{false};
    std::thread changes([&] {
      for (int flags = O_NONBLOCK; !done; flags ^= O_NONBLOCK) {
        fcntl(context->async_fd, F_SETFL, flags);
        std::this_thread::yield();
      }
      fcntl(context->async_fd, F_SETFL, 0);
    });
    const auto end = std::chrono::steady_clock::now() + weft::test::soak_time(500ms);
    while (std::chrono::steady_clock::now() < end) {
      ibv_qp* qp = make_qp(IBV_QPT_RC, srq);
      cause_event(qp);
      ASSERT_EQ(ibv_destroy_qp(qp), 0);
      watchdog.moved();
    }
    done = true;
    changes.join();
    wake(readers, kThreads, srq);
  }
  pollfd readable{context->async_fd, POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);  // nothing waits
  ASSERT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(EventsThreads, a_thread_that_waits_for_an_event_can_be_cancelled) {
  pthread_t waiter;
  ASSERT_EQ(pthread_create(
                &waiter, nullptr,
                [](void* opened) -> void* {
                  ibv_async_event event{};
                  ibv_get_async_event(static_cast<ibv_context*>(opened), &event);
                  return nullptr;
                },
                context),
            0);
  std::this_thread::sleep_for(10ms);
  ASSERT_EQ(pthread_cancel(waiter), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(waiter, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

TEST_F(EventsThreads, completion_queues_go_while_threads_wait_for_their_events) {
  constexpr int kThreads = 3;
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ASSERT_NE(channel, nullptr);
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> got{0};
  std::atomic<int> ended{0};
  Watchdog watchdog("ibv_destroy_cq against ibv_get_cq_event");
  std::vector<std::thread> readers;
  for (int i = 0; i < kThreads; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        ibv_cq* told = nullptr;
        void* owner = nullptr;
        if (ibv_get_cq_event(channel, &told, &owner) != 0) continue;
        ++got;
        ibv_ack_cq_events(told, 1);
      }
      ++ended;
    });
  }
  const auto cause = [&](bool wait) {
    ibv_cq* noisy = ibv_create_cq(context, 4, nullptr, channel, 0);
    ASSERT_NE(noisy, nullptr);
    std::swap(cq, noisy);
    ibv_qp* qp = make_qp();
    std::swap(cq, noisy);
    ASSERT_EQ(to_init(qp), 0);
    ibv_recv_wr wr{}, *bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
    ASSERT_EQ(ibv_req_notify_cq(noisy, 0), 0);
    const std::uint64_t before = got;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);  // flushed: an event
    while (wait && got == before && ended < kThreads) std::this_thread::yield();
    ASSERT_EQ(ibv_destroy_qp(qp), 0);
    ASSERT_EQ(ibv_destroy_cq(noisy), 0);
  };
  const auto end = std::chrono::steady_clock::now() + weft::test::soak_time(1500ms);
  while (std::chrono::steady_clock::now() < end) {
    cause(false);
    watchdog.moved();
  }
  done = true;
  while (ended < kThreads) cause(true);
  for (std::thread& reader : readers) reader.join();
  ASSERT_EQ(ibv_destroy_comp_channel(channel), 0);
}

}  // namespace
