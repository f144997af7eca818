#include "verbs/helper.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/biased_lock.h"
#include "base/lock.h"
#include "base/short_slice.h"
#include "host/fd_mark.h"
#include "host/fork.h"
#include "memory/flight.h"
#include "verbs/process.h"

namespace weft::verbs {
namespace {

/// How long a program that polled may pause before the helper takes over.
constexpr Nanoseconds kDoze_ns = 2'000'000;
constexpr Nanoseconds kLongest_ns = 1'000'000'000;
/// How long it stays awake for a peer that is likely to ask again: to wake it would take longer
/// than what it does.
constexpr Nanoseconds kLinger_ns = 50'000;
constexpr int kRoundsPerServe = 64;
/// After so many wake-ups with nothing that could be done, somebody else has begun with it and has
/// no processor: the helper gets out of its way.
constexpr unsigned kMostVainWakes = 4;
constexpr Nanoseconds kGiveWay_ns = 50'000;
/// While a program sees to what arrives, callers are looked at in each so many dozes.
constexpr unsigned kLeavesPerServe = 8;
/// A program that polls so often between two looks of the helper spins.
constexpr std::uint64_t kPollsOfSpinning = 1000;
/// Frames that lie for so long are left to nobody who polls.
constexpr Nanoseconds kUnseen_ns = 100'000;
/// For so long the helper then takes what arrives at once, but for what wakes the program, which
/// gets a shorter moment.
constexpr Nanoseconds kAttentive_ns = 100'000'000;
constexpr Nanoseconds kAttentiveDoze_ns = 50'000;

}  // namespace

Helper& Helper::process() {
  static Helper* helper = new Helper(*process_environment().clock);
  return *helper;
}

Helper::Helper(base::Clock& clock) : clock_(clock) {
  make_wake_fd();
  WEFT_ASSERT(wake_fd_ >= 0);
  host::call_in_child(forget_parent);
}

/// The thread did not come along, and what it served belongs to the parent.
void Helper::forget_parent() {
  Helper& helper = process();
  new (&helper.mutex_) std::mutex;
  helper.clients_.clear();
  helper.page_ = nullptr;
  helper.asleep_until_.store(0, std::memory_order_relaxed);
  helper.naps_.store(0, std::memory_order_relaxed);
  helper.started_.store(false, std::memory_order_relaxed);
  helper.make_wake_fd();
}

void Helper::make_wake_fd() {
  const host::ForkHold hold;
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd >= 0) wake_fd_.store(host::close_in_child(fd), std::memory_order_release);
}

void Helper::ring() const {
  const int fd = wake_fd_.load(std::memory_order_acquire);
  if (host::is_ours(fd)) eventfd_write(fd, 1);
}

void Helper::attach(path::Engine& engine) {
  {
    const std::lock_guard guard(mutex_);
    clients_.push_back({&engine, engine.polls()});
  }
  engine.set_wake([this](Nanoseconds deadline) { wake(deadline); }, [this] { attend(); });
  if (engine.neighbours() != nullptr) {
    if (auto page = host::ProcessPage::mine()) {
      const std::lock_guard guard(mutex_);
      page_ = *page;
    }
  }
  if (engine.neighbours() == nullptr && engine.wait_fds().empty()) return;
  start();
  ring();  // it sleeps without this engine's sockets
  // Neighbours take a process without a living helper for dead.
  const host::ProcessPage* page = page_;
  while (page != nullptr && !page->has_liveness()) std::this_thread::yield();
}

void Helper::detach(path::Engine& engine) {
  engine.set_wake(nullptr);
  {
    const std::lock_guard guard(mutex_);
    std::erase_if(clients_, [&](const Client& client) { return client.engine == &engine; });
  }
  // A sleeper may still wait on the engine's sockets, and with them keeps their addresses.
  const std::uint64_t nap = naps_.load(std::memory_order_acquire);
  if (nap % 2 == 0) return;
  ring();
  while (naps_.load(std::memory_order_acquire) == nap) std::this_thread::yield();
}

void Helper::start() {
  if (started_.exchange(true, std::memory_order_acq_rel)) return;
  sigset_t all, before;
  sigfillset(&all);  // signals are the program's, but for those that the memory guard turns back
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { run(); }).detach();
  std::atexit([] { process().at_exit(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Helper::at_exit() {
  if (!mutex_.try_lock()) return;  // it is being served, and so are its debts
  const std::lock_guard guard(mutex_, std::adopt_lock);
  for (const Client& client : clients_) {
    if (path::Neighbours* neighbours = client.engine->neighbours()) neighbours->at_exit();
    client.engine->progress();  // an acknowledgement may have waited for company
  }
}

void Helper::wake(Nanoseconds deadline) {
  if (!started_.load(std::memory_order_acquire)) return start();
  // seq_cst on both sides: either we see the sleeper's note, or it sees our work before it sleeps.
  if (deadline < asleep_until_.load(std::memory_order_seq_cst)) ring();
}

/// A program has armed a queue, and counts on the helper.
void Helper::attend() {
  // seq_cst on both sides: either we see that it dozes, or it sees the queue before it does.
  if (dozes_.load(std::memory_order_seq_cst)) ring();
}

/// One pass over all engines. False: nothing was left to do.
bool Helper::serve(Nanoseconds* deadline) {
  const std::lock_guard guard(mutex_);
  bool did = false;
  *deadline = kNever;
  for (Client& client : clients_) did |= serve(client, deadline);
  woken_by_arrival_ = false;
  // Sockets last: who was woken for a record has a peer that waits for it. What they bring to do is
  // seen before the helper sleeps.
  for (Client& client : clients_) {
    path::Neighbours* const neighbours = client.engine->neighbours();
    if (neighbours == nullptr) continue;
    // A program that wakes by itself serves them when it does, but it may never sleep.
    client.leaves = client.rest == Rest::kLeave ? client.leaves + 1 : 0;
    if (client.leaves % kLeavesPerServe == 0) neighbours->serve();
  }
  return did;
}

bool Helper::serve(Client& client, Nanoseconds* deadline) {
  path::Engine& engine = *client.engine;
  client.rest = Rest::kSleep;
  const std::uint64_t polls = engine.polls();
  const bool has_spun = polls - client.polls_seen > kPollsOfSpinning;
  const bool polled = std::exchange(client.polls_seen, polls) != polls;
  const bool armed = engine.armed() != 0;
  const bool program_wakes = armed && engine.waker() == path::Engine::Waker::kProgram;
  const bool has_had_its_moment = std::exchange(client.left_to_program, false);
  // One that arms its queues sleeps, and takes what comes when it wakes.
  if (armed) {
    client.attentive_until = 0;
  } else if (polled && !has_spun && clock_.now() >= client.attentive_until &&
             !engine.receives(kUnseen_ns) && engine.frames_wait()) {
    // It polls for its completions, and then looks at memory for what its peer writes there.
    client.attentive_until = clock_.now() + kAttentive_ns;
  }
  const bool attentive = clock_.now() < client.attentive_until;
  if (!engine.needs_helper()) {
    if (polled && !attentive) {  // the program does its own work
      if (!armed && has_spun) {
        if (host::ProcessPage* page = page_) page->spare_fences();
      }
      // Who takes wake-ups while a queue is armed asks for more of them.
      client.rest = armed ? Rest::kLeave : Rest::kDoze;
      return false;
    }
    if (program_wakes && woken_by_arrival_ && !has_had_its_moment) {
      client.left_to_program = true;
      client.rest = Rest::kLeave;
      return false;
    }
  }
  bool did = false;
  for (int round = 0; round < kRoundsPerServe && engine.progress(); ++round) did = true;
  const path::Neighbours* neighbours = engine.neighbours();
  if (neighbours != nullptr && neighbours->passive_ops_served() != client.passive_ops_served) {
    client.passive_ops_served = neighbours->passive_ops_served();
    lingers_until_ = clock_.now() + kLinger_ns;
  }
  *deadline = std::min(*deadline, engine.next_deadline());
  if (engine.has_runnable()) *deadline = 0;
  return did;
}

/// Of those that it does not watch.
bool Helper::anybody_needs_help() const {
  return std::ranges::any_of(clients_, [](const Client& client) {
    return client.rest != Rest::kSleep && client.engine->needs_helper();
  });
}

/// The program has closed the old one.
void Helper::renew_wake_fd() {
  host::fd_is_gone(wake_fd_);
  make_wake_fd();
}

void Helper::sleep(Nanoseconds deadline) {
  WEFT_ASSERT(!memory::Flight::holds_any());  // whoever takes it away would wait until we wake
  if (!host::is_ours(wake_fd_)) renew_wake_fd();
  fds_.assign(1, {wake_fd_, POLLIN, 0});
  const Nanoseconds now = clock_.now();
  host::ProcessPage* page = page_;
  Nanoseconds until = 0;
  {
    const std::lock_guard guard(mutex_);
    naps_.fetch_add(1, std::memory_order_release);
    watch_arrivals();
    const auto sleeps = [](const Client& client) { return client.rest == Rest::kSleep; };
    // A request counts for all devices of the process: while one of them spins, each message to it
    // would wake the helper for the sake of one that nobody waits on. Arming a queue ends the doze.
    const auto counts_on_wakes = [&](const Client& client) {
      return sleeps(client) && client.engine->armed() != 0;
    };
    const bool dozes = !std::ranges::all_of(clients_, sleeps);
    if (dozes && !std::ranges::any_of(clients_, counts_on_wakes)) page = nullptr;
    const bool attentive = std::ranges::any_of(
        clients_, [&](const Client& client) { return now < client.attentive_until; });
    const Nanoseconds doze = attentive ? kAttentiveDoze_ns : kDoze_ns;
    until = std::min(deadline, now + (dozes ? doze : kLongest_ns));
    if (dozes) {
      dozes_.store(true, std::memory_order_seq_cst);
      if (anybody_needs_help()) until = now;
    } else {
      asleep_until_.store(until, std::memory_order_seq_cst);
    }
    if (page != nullptr) {
      page->begin_watch();
      page->request_wake();
    }
    if (missed_something(&until)) until = now;
  }
  const bool gives_way = vain_wakes_ >= kMostVainWakes;
  if (gives_way) until = now + kGiveWay_ns;
  if (until > now) {
    const Nanoseconds pause = until - now;
    const timespec limit{static_cast<time_t>(pause / 1'000'000'000),
                         static_cast<long>(pause % 1'000'000'000)};
    ppoll(fds_.data(), gives_way ? 1 : fds_.size(), &limit, nullptr);
  }
  naps_.fetch_add(1, std::memory_order_release);
  asleep_until_.store(0, std::memory_order_seq_cst);
  dozes_.store(false, std::memory_order_seq_cst);
  if (page != nullptr) page->end_watch();
  eventfd_t drained;
  if (fds_[0].revents != 0 && host::is_ours(wake_fd_)) eventfd_read(wake_fd_, &drained);
  woken_by_arrival_ =
      std::any_of(fds_.begin() + 1, fds_.end(), [](const pollfd& fd) { return fd.revents != 0; });
  vain_wakes_ = woken_by_arrival_ || until <= now ? vain_wakes_ + 1 : 0;
}

/// mutex_ is held.
void Helper::watch_arrivals() {
  for (const Client& client : clients_) {
    if (client.rest == Rest::kLeave) continue;
    const path::Neighbours* neighbours = client.engine->neighbours();
    if (neighbours != nullptr) fds_.push_back({neighbours->wait_fd(), POLLIN, 0});
    if (client.rest == Rest::kDoze) continue;
    for (const int fd : client.engine->wait_fds()) {
      // A number that the program took from us would keep us awake, or never wake us.
      if (host::is_ours(fd)) fds_.push_back({fd, POLLIN, 0});
    }
  }
}

bool Helper::missed_something(Nanoseconds* until) {
  bool missed = false;
  for (const Client& client : clients_) {
    if (client.rest != Rest::kSleep) continue;
    missed |= client.engine->has_runnable();
    *until = std::min(*until, client.engine->next_deadline());
    path::Neighbours* neighbours = client.engine->neighbours();
    missed |= neighbours != nullptr && neighbours->active() && neighbours->has_work();
  }
  return missed;
}

void Helper::run() {
  pthread_setname_np(pthread_self(), "weft-helper");
  base::BiasedLock::never_own();
  base::ask_for_short_slices();
  for (;;) {
    // Under no other lock, since it is never given back.
    if (host::ProcessPage* page = page_) page->adopt_liveness();
    Nanoseconds deadline = kNever;
    if (serve(&deadline)) {
      vain_wakes_ = 0;
      continue;
    }
    if (lingers_until_ != 0 && clock_.now() < lingers_until_) {
      base::relax();
      continue;
    }
    lingers_until_ = 0;
    sleep(deadline);
  }
}

}  // namespace weft::verbs
