#include "verbs/waiting.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "base/contention.h"
#include "base/per_thread.h"
#include "base/this_thread.h"
#include "host/fd_mark.h"
#include "host/readable_wait.h"
#include "host/settings.h"
#include "verbs/objects.h"

namespace weft::verbs {
namespace {

using Waker = path::Engine::Waker;

/// So many queues were armed by one thread before it is taken for the only one that waits.
constexpr unsigned kArmsInARow = 4;
/// So many other channels are armed before the sockets go to another than the one that carries them
/// and is not armed: to move them takes longer than a message.
constexpr unsigned kMostArmsBesideCarrier = 16;
/// Rounds before a sleep in which something always came: then others get their turn.
constexpr int kRounds = 64;
constexpr Nanoseconds kShortSleep_ns = 1'000'000;
/// So long somebody else may have the processor.
constexpr long kGiveWay_ns = 200'000;

}  // namespace

/// Counts the threads that sleep in a call of ours, also one that is cancelled there.
class Waiting::Sleeper {
 public:
  Sleeper(std::atomic<std::uint32_t>& count, path::Neighbours* neighbours)
      : count_(count),
        neighbours_(neighbours),
        alone_(count.fetch_add(1, std::memory_order_acq_rel) == 0) {
    if (neighbours_ != nullptr) neighbours_->begin_watch();
  }
  ~Sleeper() {
    if (neighbours_ != nullptr) neighbours_->end_watch();
    count_.fetch_sub(1, std::memory_order_acq_rel);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  bool alone() const { return alone_; }

 private:
  std::atomic<std::uint32_t>& count_;
  path::Neighbours* const neighbours_;
  const bool alone_;
};

// ---- arming ---------------------------------------------------------------------------------

void Waiting::on_arm(CompChannelObject& channel) {
  if (!engine_.can_receive()) return;
  const auto blocks = channel.set.blocks();
  bool carried = false;
  {
    const std::lock_guard guard(lock_);
    const bool alone = by_one_thread() && sleepers_.load(std::memory_order_acquire) == 0;
    carried = alone && blocks && !*blocks && carry(channel);
    const bool waits_in_call = alone && blocks && *blocks && channel.waits_in_call();
    if (!carried && !waits_in_call) return use_helper();
  }
  engine_.set_waker(Waker::kProgram);
  // One who waits in our call asks for it there.
  if (carried) request_wake();
}

bool Waiting::by_one_thread() {
  const void* const thread = base::this_thread();
  if (thread != thread_) arms_in_a_row_ = 0;
  thread_ = thread;
  if (arms_in_a_row_ < kArmsInARow) ++arms_in_a_row_;
  return arms_in_a_row_ == kArmsInARow;
}

// One descriptor carries for all that the thread waits on: one that is armed, so that the program
// waits on it, or was a moment ago and will be again, as in an event loop with many channels. Of a
// program that waits on others meanwhile, the helper takes care.
bool Waiting::carry(CompChannelObject& channel) {
  CompChannelObject* const before = carrier_.load(std::memory_order_relaxed);
  if (before != nullptr && before != &channel) {
    const bool armed = before->armed.load(std::memory_order_relaxed) != 0;
    arms_beside_carrier_ = armed ? 0 : arms_beside_carrier_ + 1;
    if (arms_beside_carrier_ <= kMostArmsBesideCarrier) return true;
    before->set.carry({});
  }
  arms_beside_carrier_ = 0;
  std::vector<int> fds = sockets();
  if (before == &channel && fds == carried_) return true;
  carried_ = fds;
  // A number that the program took from us would keep it awake, or never wake it.
  std::erase_if(fds, [](int fd) { return !host::is_ours(fd); });
  const bool carries = channel.set.carry(fds);
  carrier_.store(carries ? &channel : nullptr, std::memory_order_release);
  return carries;
}

/// One that blocks carries nothing.
void Waiting::on_descriptor_blocks() {
  const std::lock_guard guard(lock_);
  const CompChannelObject* const carrier = carrier_.load(std::memory_order_relaxed);
  if (carrier == nullptr) return;
  if (const auto blocks = carrier->set.blocks(); blocks && *blocks) use_helper();
}

void Waiting::use_helper() {
  CompChannelObject* const before = carrier_.exchange(nullptr, std::memory_order_acq_rel);
  if (before != nullptr) before->set.carry({});
  engine_.set_waker(Waker::kHelper);
}

void Waiting::forget(const CompChannelObject& channel) {
  const std::lock_guard guard(lock_);
  if (carrier_.load(std::memory_order_relaxed) == &channel) carrier_ = nullptr;
}

std::vector<int> Waiting::sockets() const {
  std::vector<int> fds = engine_.wait_fds();
  const path::Neighbours* neighbours = engine_.neighbours();
  if (neighbours != nullptr) fds.push_back(neighbours->wait_fd());
  std::erase(fds, -1);
  return fds;
}

void Waiting::add_sockets(std::vector<pollfd>& fds) const {
  for (const int fd : sockets()) {
    // A number that the program took from us would keep it awake, or never wake it.
    if (host::is_ours(fd)) fds.push_back({fd, POLLIN, 0});
  }
}

/// What came before is taken up here, what comes from now on makes the sockets readable.
void Waiting::request_wake() {
  path::Neighbours* const neighbours = engine_.neighbours();
  if (neighbours == nullptr || !neighbours->active()) return;
  neighbours->request_wake();
  poll_rings(*neighbours);
}

/// Takes up what has come without a wake-up that is still there. A thread that has the rings may
/// have looked at them before, and may not run for long: then the helper looks after it.
void Waiting::poll_rings(path::Neighbours& neighbours) {
  for (int round = 0; neighbours.has_arrivals(); ++round) {
    if (round == kRounds) return engine_.call_helper();
    engine_.poll();
  }
}

// ---- waiting --------------------------------------------------------------------------------

int Waiting::wait(CompChannelObject& channel, Nanoseconds timeout_ns) {
  const auto blocks = channel.set.blocks();
  if (!blocks) return EBADF;
  if (!*blocks && timeout_ns == kNever) return look(channel) ? 0 : EAGAIN;
  if (timeout_ns == kNever && carrier_.load(std::memory_order_acquire) == &channel) {
    // Its flags were changed and nobody told: the program may have found it readable because it
    // carried the sockets, and must not be made to wait for that.
    {
      const std::lock_guard guard(lock_);
      use_helper();
    }
    return look(channel) ? 0 : EAGAIN;
  }
  // Until an event is found: a signal that is handled while this thread makes progress for others
  // would not end the sleep that follows.
  host::SignalsHeld signals;
  for (;;) {
    const int error = wait_once(channel, signals, timeout_ns);
    if (error != 0 || timeout_ns != kNever || channel.has_events()) return error;
  }
}

int Waiting::wait_once(CompChannelObject& channel, host::SignalsHeld& signals,
                       Nanoseconds timeout_ns) {
  engine_.settle();
  if (channel.has_events()) return 0;
  channel.found_in_a_row.store(0, std::memory_order_relaxed);
  const Sleeper sleeper(sleepers_, engine_.neighbours());
  if (!sleeper.alone()) {
    {
      const std::lock_guard guard(lock_);
      use_helper();
    }
    return sleep(channel, signals, false, timeout_ns);
  }
  engine_.set_waker(Waker::kProgram);
  const Nanoseconds begun = engine_.now();
  if (wait_busily(channel, begun, timeout_ns)) return 0;
  const int error = wait_alone(channel, signals, timeout_ns);
  busy_wait_.slept(engine_.now() - begun);
  return error;
}

bool Waiting::wait_busily(CompChannelObject& channel, Nanoseconds begun, Nanoseconds timeout_ns) {
  static const bool wanted = host::waits_busily();
  const Nanoseconds most = wanted ? std::min(busy_wait_.begin(), timeout_ns) : 0;
  if (most == 0) return false;
  const CompChannelObject::Fetch fetch(channel);
  do {
    engine_.poll();
    if (channel.has_events()) {
      busy_wait_.found();
      return true;
    }
    base::relax();
  } while (engine_.now() - begun < most);
  busy_wait_.missed();
  return false;
}

int Waiting::wait_alone(CompChannelObject& channel, host::SignalsHeld& signals,
                        Nanoseconds timeout_ns) {
  path::Neighbours* const neighbours = engine_.neighbours();
  if (neighbours != nullptr && neighbours->active()) {
    if (wakes_left_.exchange(false, std::memory_order_relaxed)) neighbours->serve();
    neighbours->request_wake();
  }
  for (int round = 0; !nothing_has_come(); ++round) {
    engine_.poll();
    if (channel.has_events()) {
      // What the request has made visible may be for others.
      if (neighbours != nullptr && neighbours->active()) poll_rings(*neighbours);
      return 0;
    }
    if (round == kRounds) {
      return sleep(channel, signals, true, std::min(timeout_ns, kShortSleep_ns));
    }
  }
  return sleep(channel, signals, true, timeout_ns);
}

bool Waiting::look(CompChannelObject& channel) {
  const CompChannelObject::Fetch fetch(channel);
  const bool carries = carrier_.load(std::memory_order_acquire) == &channel;
  if (path::Neighbours* neighbours = engine_.neighbours(); neighbours != nullptr && carries) {
    neighbours->serve();
    request_wake();
  }
  if (channel.has_events()) return true;
  engine_.poll();
  if (channel.has_events()) return true;
  engine_.settle();
  return channel.has_events();
}

void Waiting::give_way() {
  static const bool wanted = host::gives_way();
  if (!wanted) return;
  base::Contention* const contention = base::PerThread<base::Contention>::get();
  if (contention == nullptr || !contention->lasts(engine_.now())) return;
  engine_.settle();
  path::Neighbours* const neighbours = engine_.neighbours();
  const Sleeper sleeper(sleepers_, neighbours);
  if (!sleeper.alone()) return;  // it makes progress
  if (neighbours != nullptr && neighbours->active()) neighbours->request_wake();
  if (!nothing_has_come()) {
    if (neighbours != nullptr && neighbours->active()) poll_rings(*neighbours);
    return;
  }
  std::vector<pollfd> fds;
  add_sockets(fds);
  const timespec limit{0, kGiveWay_ns};
  {
    const host::OnlyWaitIsCancelled shield;  // and a poll is no wait
    // As if a queue were armed: the helper leaves it to this thread to be woken.
    engine_.count_armed();
    ppoll(fds.data(), fds.size(), &limit, nullptr);
    engine_.count_fired();
  }
  if (neighbours == nullptr) return;
  neighbours->serve();
  poll_rings(*neighbours);
}

bool Waiting::nothing_has_come() {
  path::Neighbours* const neighbours = engine_.neighbours();
  return !(neighbours != nullptr && neighbours->active() && neighbours->has_work()) &&
         !engine_.has_runnable() && engine_.next_deadline() > engine_.now();
}

int Waiting::sleep(CompChannelObject& channel, host::SignalsHeld& signals, bool on_sockets,
                   Nanoseconds timeout_ns) {
  std::vector<pollfd> fds{{channel.signal.fd(), POLLIN, 0}};
  if (on_sockets) add_sockets(fds);
  const int error = host::wait_readable(signals, fds, timeout_ns);
  if (error != 0 || !on_sockets) return error;
  const CompChannelObject::Fetch fetch(channel);
  if (path::Neighbours* neighbours = engine_.neighbours()) {
    if (neighbours->has_arrivals()) {
      // The peer waits for what the program makes of them. Taking the wake-ups out of the sockets
      // takes longer than all else, and has time until the next sleep.
      wakes_left_.store(true, std::memory_order_relaxed);
    } else {
      neighbours->serve();
      poll_rings(*neighbours);
    }
  }
  engine_.poll();
  return 0;
}

}  // namespace weft::verbs
