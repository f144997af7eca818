// Threads that sleep for each message, on completion channels of their own or on one together:
// whoever is woken makes progress for all of them, and nobody sleeps through what is his.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>

#include "support/path_suite.h"

namespace weft::test {
namespace {

using verbs::CompletionChannel;

constexpr std::uint32_t kSleptFor = 150;
constexpr std::uint32_t kTalks = 3;

/// One end of a connection over which one message goes to and fro.
class SleepingEnd {
 public:
  SleepingEnd(const Node& node, const CompletionChannel& events, bool begins)
      : channel(events),
        cq(must(node.device.create_cq(4 * kSleptFor, channel))),
        qp(must(node.pd.create_queue_pair(cq, cq))),
        begins_(begins),
        memory_(node, 16) {}

  void post_receive() {
    const Sge sge = memory_.sge(8, 8);
    must(qp.post_receive(sge, kReceive));
  }
  void begin() {
    if (begins_) send();
  }
  /// After an event of its queue.
  void serve() {
    const std::lock_guard guard(lock_);  // two threads may have had one each
    cq.request_notify();
    while (const auto completion = cq.poll()) {
      if (!completion->ok()) ++failures;
      if (completion->wr_id != kReceive) continue;
      ++received;
      post_receive();
      if (!begins_ || received < kSleptFor) send();
    }
  }
  bool over() const { return received == kSleptFor; }

  const CompletionChannel& channel;
  CompletionQueue cq;
  QueuePair qp;
  std::atomic<std::uint32_t> received{0}, failures{0};

 private:
  static constexpr std::uint64_t kReceive = 1;
  void send() { must(qp.post_send(memory_.sge(0, 8), 0)); }

  const bool begins_;
  std::mutex lock_;
  Memory memory_;
};

/// The next event, slept for in weft's call, or by poll on the descriptor.
std::optional<std::uint32_t> sleep_for_event(const CompletionChannel& channel, bool in_call) {
  const auto give_up = Steady::now() + kPatience;
  while (Steady::now() < give_up) {
    if (in_call) {
      const auto event = channel.wait(kPatience);
      return event ? std::optional(*event) : std::nullopt;
    }
    pollfd readable{channel.fd(), POLLIN, 0};
    if (::poll(&readable, 1, 1000 * static_cast<int>(kPatience.count())) != 1) break;
    if (const auto event = channel.next_event()) return event;
  }
  return {};
}

class WaitingThreads : public PathSuite {
 protected:
  /// Ends of the same place belong together; those of the first node begin.
  void connect_all(std::deque<SleepingEnd>& ours, std::deque<SleepingEnd>& theirs) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      SleepingEnd &one = ours[i], &other = theirs[i];
      const Endpoint end_one = one.qp.endpoint(), end_other = other.qp.endpoint();
      must(one.qp.connect(end_other));
      must(other.qp.connect(end_one));
      for (SleepingEnd* end : {&one, &other}) {
        end->post_receive();
        end->cq.request_notify();
      }
    }
  }
  static void expect_over(const std::deque<SleepingEnd>& ends) {
    for (const SleepingEnd& end : ends) {
      EXPECT_EQ(end.received, kSleptFor);
      EXPECT_EQ(end.failures, 0u);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Over, WaitingThreads,
                         testing::Values(Way{Wire::kDirect, false}, Way{Wire::kUdp, false},
                                         Way{Wire::kNeighbour, false}, Way{Wire::kUdp, true}),
                         way_name);

TEST_P(WaitingThreads, each_sleep_on_a_channel_of_their_own) {
  std::deque<CompletionChannel> channels;
  std::deque<SleepingEnd> ours, theirs;
  for (std::uint32_t i = 0; i < kTalks; ++i) {
    ours.emplace_back(a, channels.emplace_back(must(a.device.create_channel())), true);
    theirs.emplace_back(b, channels.emplace_back(must(b.device.create_channel())), false);
  }
  connect_all(ours, theirs);
  std::vector<std::thread> threads;
  const auto play = [](SleepingEnd& end, bool in_call) {
    end.begin();
    while (!end.over() && sleep_for_event(end.channel, in_call)) end.serve();
  };
  for (std::uint32_t i = 0; i < kTalks; ++i) {
    threads.emplace_back(play, std::ref(ours[i]), i % 2 == 0);
    threads.emplace_back(play, std::ref(theirs[i]), i % 3 == 0);
  }
  for (std::thread& thread : threads) thread.join();
  expect_over(ours);
  expect_over(theirs);
}

TEST_P(WaitingThreads, sleep_on_one_channel_together) {
  constexpr std::uint32_t kSleepers = 2;  // for each node
  const CompletionChannel one = must(a.device.create_channel());
  const CompletionChannel other = must(b.device.create_channel());
  std::deque<SleepingEnd> ours, theirs;
  for (std::uint32_t i = 0; i < kTalks; ++i) {
    ours.emplace_back(a, one, true);
    theirs.emplace_back(b, other, false);
  }
  connect_all(ours, theirs);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  const auto serve = [&](std::deque<SleepingEnd>& ends, bool in_call) {
    while (!over) {
      const auto event = sleep_for_event(ends.front().channel, in_call);
      if (!event) return;
      for (SleepingEnd& end : ends) {
        if (end.cq.number() == *event) end.serve();
      }
    }
  };
  for (std::uint32_t i = 0; i < kSleepers; ++i) {
    threads.emplace_back(serve, std::ref(ours), i == 0);
    threads.emplace_back(serve, std::ref(theirs), i != 0);
  }
  for (SleepingEnd& end : ours) end.begin();
  const auto give_up = Steady::now() + 2 * kPatience;
  const auto all_over = [](const std::deque<SleepingEnd>& ends) {
    return std::ranges::all_of(ends, [](const SleepingEnd& end) { return end.over(); });
  };
  while (!(all_over(ours) && all_over(theirs)) && Steady::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  over = true;
  // Who still sleeps is woken by an event: queue pairs that fail have completions.
  std::deque<SleepingEnd> failing;
  for (std::uint32_t i = 0; i < kSleepers; ++i) {
    for (SleepingEnd* end :
         {&failing.emplace_back(a, one, false), &failing.emplace_back(b, other, false)}) {
      using A = QpAttribute;
      must(end->qp.modify(QpState::kInit, {}, A::kPort | A::kPKeyIndex | A::kAccess));
      end->post_receive();
      end->cq.request_notify();
      must(end->qp.modify(QpState::kError));
    }
  }
  for (std::thread& thread : threads) thread.join();
  expect_over(ours);
  expect_over(theirs);
}

}  // namespace
}  // namespace weft::test
