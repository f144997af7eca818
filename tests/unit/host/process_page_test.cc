#include "host/process_page.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "unit/host/host_kit.h"

namespace weft::host {
namespace {

using test::bytes_of;
using test::Child;
using test::soon;
using test::unique_name;
using Peers = SharedMemory::Peers;

/// A process whose page this one has; `life` is what it does after it has shown its page.
class Neighbour {
 public:
  template <class Life>
  explicit Neighbour(Life life)
      : listener_(LocalSocket::listen(name_).value()), child_([this, life] {
          ProcessPage* page = ProcessPage::mine().value();
          const auto socket = LocalSocket::connect(name_);
          if (!socket) return 10;
          return life(*page, *socket);
        }) {}

  /// Its page, when it sends that.
  ProcessView view() {
    socket_ = accept();
    Message message = socket_.receive(16, 10'000).value();
    return ProcessView::receive(message.fds.at(0).release()).value();
  }
  /// Waits until it says something.
  bool says() { return socket_.receive(16, 10'000).has_value(); }
  void tell() { static_cast<void>(socket_.send(bytes_of("go"), {})); }
  Child& child() { return child_; }

 private:
  LocalSocket accept() {
    for (int i = 0; i < 10'000; ++i) {
      if (auto socket = listener_.accept()) return std::move(*socket);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

  std::string name_ = unique_name();
  LocalSocket listener_, socket_;
  Child child_;
};

bool show(const ProcessPage& page, const LocalSocket& socket) {
  return socket.send(bytes_of("page"), std::array{page.fd()}).has_value();
}
bool wait_for_word(const LocalSocket& socket) { return socket.receive(16, 15'000).has_value(); }

// ---- liveness -------------------------------------------------------------------------------

TEST(Liveness, ends_when_the_process_is_killed) {
  Neighbour neighbour([](ProcessPage& page, const LocalSocket& socket) {
    page.adopt_liveness();
    show(page, socket);
    return wait_for_word(socket) ? 0 : 1;
  });
  const ProcessView view = neighbour.view();
  EXPECT_TRUE(view.alive());
  neighbour.child().kill();
  neighbour.child().exit_code();
  EXPECT_FALSE(view.alive());
}

TEST(Liveness, ends_before_the_process_number_is_free_again) {
  Neighbour neighbour([](ProcessPage& page, const LocalSocket& socket) {
    page.adopt_liveness();
    show(page, socket);
    return wait_for_word(socket) ? 0 : 1;
  });
  const ProcessView view = neighbour.view();
  neighbour.child().kill();
  // Dead but not reaped: nobody else can have its number yet.
  EXPECT_TRUE(soon([&] { return !view.alive(); }));
  EXPECT_EQ(kill(neighbour.child().pid(), 0), 0);
}

TEST(Liveness, ends_with_an_orderly_exit) {
  Neighbour neighbour([](ProcessPage& page, const LocalSocket& socket) {
    page.adopt_liveness();
    show(page, socket);
    return wait_for_word(socket) ? 0 : 1;
  });
  const ProcessView view = neighbour.view();
  EXPECT_TRUE(view.alive());
  neighbour.tell();
  EXPECT_EQ(neighbour.child().exit_code(), 0);
  EXPECT_FALSE(view.alive());
}

TEST(Liveness, ends_when_the_process_becomes_another_program) {
  Neighbour neighbour([](ProcessPage& page, const LocalSocket& socket) {
    page.adopt_liveness();
    show(page, socket);
    wait_for_word(socket);
    execl("/bin/sleep", "sleep", "15", nullptr);
    return 1;
  });
  const ProcessView view = neighbour.view();
  EXPECT_TRUE(view.alive());
  neighbour.tell();
  EXPECT_TRUE(soon([&] { return !view.alive(); }));
  EXPECT_EQ(kill(neighbour.child().pid(), 0), 0) << "the process itself goes on";
}

TEST(Liveness, is_that_of_the_thread_which_adopted_it) {
  Neighbour neighbour([](ProcessPage& page, const LocalSocket& socket) {
    std::latch shown(1), may_end(1);
    std::thread helper([&] {
      page.adopt_liveness();
      shown.count_down();
      may_end.wait();
    });
    shown.wait();
    show(page, socket);
    wait_for_word(socket);
    may_end.count_down();
    helper.join();
    static_cast<void>(socket.send(bytes_of("ended"), {}));
    return wait_for_word(socket) ? 0 : 1;
  });
  const ProcessView view = neighbour.view();
  EXPECT_TRUE(view.alive());
  neighbour.tell();
  ASSERT_TRUE(neighbour.says());
  EXPECT_FALSE(view.alive());
  neighbour.tell();
  EXPECT_EQ(neighbour.child().exit_code(), 0);
}

TEST(Liveness, is_not_there_before_somebody_adopts_it) {
  Neighbour neighbour([](ProcessPage& page, const LocalSocket& socket) {
    show(page, socket);
    return wait_for_word(socket) ? 0 : 1;
  });
  const ProcessView view = neighbour.view();
  EXPECT_FALSE(view.alive());
  neighbour.tell();
}

TEST(Liveness, of_a_process_is_not_ended_by_its_child) {
  Neighbour neighbour([](ProcessPage& page, const LocalSocket& socket) {
    page.adopt_liveness();
    {
      Child grandchild([&page] {
        // Another process, another page: the parent's is none of its business.
        return ProcessPage::mine().value() == &page ? 1 : 0;
      });
      if (grandchild.exit_code() != 0) return 2;
    }
    show(page, socket);
    return wait_for_word(socket) ? 0 : 1;
  });
  const ProcessView view = neighbour.view();
  EXPECT_TRUE(view.alive());
  neighbour.tell();
  EXPECT_EQ(neighbour.child().exit_code(), 0);
}

// ---- the page -------------------------------------------------------------------------------

ProcessView view_of_mine() {
  return ProcessView::receive(dup(ProcessPage::mine().value()->fd())).value();
}

TEST(ProcessPage, asks_for_each_wake_up_by_another_number) {
  ProcessPage& page = *ProcessPage::mine().value();
  const ProcessView view = view_of_mine();
  EXPECT_EQ(view.wake_request(), 0u);
  page.begin_watch();
  page.request_wake();
  const std::uint32_t first = view.wake_request();
  EXPECT_NE(first, 0u);
  page.request_wake();
  EXPECT_EQ(view.wake_request(), first) << "nobody has taken an answer to that one";
  page.wakes_were_taken();
  const std::uint32_t second = view.wake_request();
  EXPECT_NE(second, first) << "somebody may sleep and count on it";
  page.end_watch();
  page.wakes_were_taken();
  EXPECT_EQ(view.wake_request(), second) << "nobody sleeps";
  page.request_wake();
  EXPECT_NE(view.wake_request(), second);
}

TEST(ProcessPage, cannot_be_written_by_those_who_receive_it) {
  const int fd = ProcessPage::mine().value()->fd();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_LT(pwrite(fd, "x", 1, 0), 0);
  EXPECT_NE(ftruncate(fd, 0), 0);
}

TEST(ProcessPage, another_layout_or_size_is_refused) {
  const auto zeros = SharedMemory::create("weft-test", kProcessPageBytes, 0, Peers::kRead).value();
  EXPECT_EQ(ProcessView::receive(dup(zeros.fd())).error().code, Errc::kInvalidArgument);
  const auto longer =
      SharedMemory::create("weft-test", kProcessPageBytes + 4096, 0, Peers::kRead).value();
  std::memcpy(longer.data(), &ProcessPageLayout::kMagic, sizeof ProcessPageLayout::kMagic);
  EXPECT_FALSE(ProcessView::receive(dup(longer.fd())));
  std::memcpy(zeros.data(), &ProcessPageLayout::kMagic, sizeof ProcessPageLayout::kMagic);
  EXPECT_TRUE(ProcessView::receive(dup(zeros.fd())));
}

// ---- flight words ---------------------------------------------------------------------------

TEST(FlightWords, name_owner_kind_and_number) {
  const std::set<std::uint64_t> words{flight_word(1, false, 5), flight_word(1, true, 5),
                                      flight_word(2, false, 5), flight_word(1, false, 6),
                                      flight_word(1, true, 0xFFFFFF)};
  EXPECT_EQ(words.size(), 5u);
  EXPECT_EQ(words.count(0), 0u) << "0 is the word of a thread that does nothing";
}

TEST(FlightWords, are_seen_by_neighbours_until_they_are_cleared) {
  ProcessPage& page = *ProcessPage::mine().value();
  const ProcessView view = view_of_mine();
  FlightSlot* slot = page.flight();
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(page.flight(), slot);
  const std::uint64_t key = flight_word(9, false, 1), qp = flight_word(9, true, 2);
  {
    const FlightScope scope(slot);
    slot->put(FlightUse::kQueuePair, qp);
    slot->put(FlightUse::kKey, key);
    EXPECT_TRUE(view.in_flight(key) && view.in_flight(qp));
    EXPECT_FALSE(view.in_flight(flight_word(9, false, 2)));
  }
  EXPECT_FALSE(view.in_flight(key) || view.in_flight(qp));
}

TEST(FlightWords, of_threads_that_ended_are_cleared_and_used_again) {
  ProcessPage& page = *ProcessPage::mine().value();
  const ProcessView view = view_of_mine();
  const std::uint64_t word = flight_word(10, false, 1);
  std::set<FlightSlot*> slots;
  for (std::uint32_t i = 0; i < 2 * kMaxFlightThreads; ++i) {
    std::thread([&] {
      FlightSlot* slot = page.flight();
      slots.insert(slot);
      if (slot != nullptr) slot->put(FlightUse::kKey, word);  // and never cleared
    }).join();
    ASSERT_FALSE(view.in_flight(word));
  }
  EXPECT_EQ(slots.size(), 1u);
  EXPECT_EQ(slots.count(nullptr), 0u);
}

TEST(FlightWords, run_out_without_harm) {
  Neighbour neighbour([](ProcessPage& page, const LocalSocket&) {
    constexpr std::size_t kThreads = kMaxFlightThreads + 1;
    std::vector<FlightSlot*> slots(kThreads);
    std::latch all_have(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        slots[i] = page.flight();
        all_have.arrive_and_wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::set<FlightSlot*> distinct(slots.begin(), slots.end());
    // One of them has none, the others have one each.
    return distinct.size() == kThreads && distinct.count(nullptr) == 1 ? 0 : 1;
  });
  EXPECT_EQ(neighbour.child().exit_code(), 0);
}

}  // namespace
}  // namespace weft::host
