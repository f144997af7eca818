// Litmus tests of the two protocols in which one side stores without a fence and the other side's
// barrier makes up for it: docs/memory-model.md. Each would lose now and then without
// the barrier.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/lock.h"
#include "host/process_page.h"
#include "unit/host/ring_kit.h"

namespace weft::host {
namespace {

/// Two threads take the same step at about the same time, over and over.
class Gate {
 public:
  void pass(std::uint32_t round) {
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    for (int spins = 0; arrived_.load(std::memory_order_acquire) < 2 * round; ++spins) {
      if (spins > 2000) std::this_thread::yield();
      base::relax();
    }
  }

 private:
  std::atomic<std::uint32_t> arrived_{0};
};

constexpr std::uint32_t kRounds = 5'000;

/// How often the initiator was let in, and how often the owner did not see that.
struct Tally {
  std::uint32_t entered = 0, lost = 0;
};

// Initiator: word, order, then key. Owner: key, barrier, then word.
template <class Order, class Barrier>
Tally revoke_again_and_again(Order order, Barrier barrier) {
  ProcessPage& page = *ProcessPage::mine().value();
  const ProcessView view = ProcessView::receive(dup(page.fd())).value();
  constexpr std::uint64_t kWord = flight_word(77, false, 1);
  alignas(64) std::atomic<std::uint32_t> live{1};
  alignas(64) std::atomic<bool> let_in{false};
  Gate begin, end;
  std::thread initiator([&] {
    FlightSlot* slot = page.flight();
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      begin.pass(round);
      slot->put(FlightUse::kKey, kWord);
      order(page);
      let_in.store(live.load(std::memory_order_acquire) != 0, std::memory_order_relaxed);
      end.pass(round);
      slot->clear();
    }
  });
  Tally tally;
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    live.store(1, std::memory_order_relaxed);
    begin.pass(round);
    live.store(0, std::memory_order_relaxed);
    barrier(page);
    const bool seen = view.in_flight(kWord);
    end.pass(round);
    if (let_in.load(std::memory_order_relaxed)) {
      ++tally.entered;
      if (!seen) ++tally.lost;
    }
  }
  initiator.join();
  return tally;
}

void fence(ProcessPage&) { std::atomic_thread_fence(std::memory_order_seq_cst); }

// Either the initiator finds the key dead, or the owner finds the word and waits.
TEST(FlightThreads, whoever_revokes_sees_the_word_of_whoever_was_let_in) {
  const Tally tally =
      revoke_again_and_again([](ProcessPage& page) { flight_order(page.cannot_membarrier()); },
                             [](ProcessPage& page) { page.barrier(); });
  EXPECT_EQ(tally.lost, 0u) << "of " << tally.entered << " times that the initiator was let in";
}

// The same for keys that are marked as fenced: each side has its own fence, and there is no
// barrier.
TEST(FlightThreads, two_fences_are_as_good_as_a_barrier) {
  const Tally tally = revoke_again_and_again(fence, fence);
  EXPECT_EQ(tally.lost, 0u) << "of " << tally.entered << " times that the initiator was let in";
}

// Initiator: record, then request. Sleeper: request, then ring. Either the doorbell is rung, or
// the sleeper finds the record. `sleeps_often`: the last request still asks for a fence at the
// initiator's; otherwise the sleeper's barrier makes up for it.
std::uint32_t records_slept_through(bool sleeps_often) {
  ProcessPage& page = *ProcessPage::mine().value();
  const ProcessView view = ProcessView::receive(dup(page.fd())).value();
  test::RingEnds ends;
  alignas(64) std::atomic<bool> rung{false};
  Gate begin, end;
  std::thread initiator([&] {
    std::uint32_t known = view.wake_request();
    for (std::uint32_t round = 1; round <= kRounds; ++round) {
      ASSERT_NE(ends.producer.reserve(0), nullptr);
      begin.pass(round);
      RecordHeader header;
      header.kind = test::kUserKind;
      ends.producer.publish(header, {nullptr, 0});
      flight_order(page.cannot_membarrier());
      rung.store(view.wake_request_after_publish() != known, std::memory_order_relaxed);
      end.pass(round);
      known = view.wake_request();
      RingProducer::Answered answered;
      while (ends.producer.peek(&answered)) ends.producer.pop();
    }
  });
  std::uint32_t slept_through = 0;
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    if (!sleeps_often) page.spare_fences();
    begin.pass(round);
    page.wakes_were_taken();
    page.request_wake();
    const bool found = ends.consumer.ready();
    end.pass(round);
    if (!found && !rung.load(std::memory_order_relaxed)) ++slept_through;
    RingConsumer::Taken taken;
    while (ends.consumer.take(&taken)) ends.consumer.give_back();
  }
  initiator.join();
  return slept_through;
}

TEST(FlightThreads, no_record_is_slept_through) { EXPECT_EQ(records_slept_through(false), 0u); }

TEST(FlightThreads, no_record_is_slept_through_by_one_who_sleeps_often) {
  EXPECT_EQ(records_slept_through(true), 0u);
}

}  // namespace
}  // namespace weft::host
