#include "path/engine.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "host/fd_mark.h"
#include "memory/flight.h"
#include "queue/frame_receiver.h"
#include "transport/ack_policy.h"
#include "wire/packet.h"

namespace weft::path {
namespace {

/// More than a post may copy: a copy between processes costs two microseconds beside its bytes, so
/// that pieces of 256 KiB reach only 0.93 of the speed of a whole MiB.
constexpr std::uint64_t kBytesPerRun = 1024 * 1024;
constexpr std::size_t kFramesPerPoll = 128;
/// Enough for a thread that takes frames and has lost its processor.
constexpr int kRoundsForArrivals = 1000;
/// How long an acknowledgement may wait for a reply to ride along with, once the program polls
/// again.
constexpr Nanoseconds kHold_ns = 3'000;
constexpr std::uint32_t kRunsPerProgress = 64;
constexpr int kRoundsPerSettle = 4;
/// More than a receive buffer of the usual size holds.
constexpr unsigned kMostFullRounds = 256;

wire::Service wire_service(Service service) {
  switch (service) {
    case Service::kReliableConnection:
      return wire::Service::kRc;
    case Service::kUnreliableConnection:
      return wire::Service::kUc;
    case Service::kUnreliableDatagram:
      return wire::Service::kUd;
    case Service::kReliableDatagram:
      break;
    case Service::kRawDatagram:
      break;  // no frames of any kind are for it
  }
  return wire::Service::kRd;
}

/// Of a queue pair that this thread has published, if it may be used now.
queue::FrameReceiver* frame_receiver(queue::QueuePair& qp) {
  const QpState state = qp.state.load(std::memory_order_acquire);
  if (state == QpState::kReset || state == QpState::kInit) return nullptr;
  queue::Path* path = qp.path.get();
  return path != nullptr ? path->frame_receiver() : nullptr;
}

}  // namespace

/// Takes frames from one port and hands them to queue pairs; one thread at a time.
class Engine::PortReceiver final : public port::Receiver {
 public:
  PortReceiver(Engine& engine, port::Port& port) : engine_(engine), port_(port) {}

  /// `missed` becomes true when somebody else is at it, or when there may be more.
  bool poll(Nanoseconds now, bool& missed) {
    if (!lock_.try_lock()) {
      missed = true;
      return false;
    }
    const std::lock_guard guard(lock_, std::adopt_lock);
    now_ = now;
    const std::uint64_t polls = engine_.polls();
    program_polls_ = std::exchange(polls_seen_, polls) != polls;
    const std::size_t n = port_.receive(*this, kFramesPerPoll);
    // There may be more, and in it what somebody waits for; but who sends without end must not stop
    // all time-outs.
    full_rounds_ = n < kFramesPerPoll ? 0 : full_rounds_ + 1;
    if (full_rounds_ > 0 && full_rounds_ <= kMostFullRounds) missed = true;
    if (current_ != nullptr || frames_ > 0) settle();
    if (held_count_ > 0 && (!program_polls_ || now_ >= held_at_ + kHold_ns)) release_held();
    if (touched_count_ > 0) transmit_touched();
    if (const Nanoseconds due = port_.next_deadline(); due != kNever) {
      const std::lock_guard engine_guard(engine_.lock_);
      engine_.wake(due);  // nobody may be polling when the port has something to hand up
    }
    return n > 0;
  }

  port::Port& port() { return port_; }
  bool busy() {
    if (!lock_.try_lock()) return true;
    lock_.unlock();
    return false;
  }

  void on_bad_checksum() override { engine_.counters_.add(obs::Counter::kBadChecksums); }
  void on_malformed() override { engine_.counters_.add(obs::Counter::kMalformedFrames); }

  void on_frame(const port::Incoming& incoming) override {
    if (fast_on_frame(incoming)) return;
    obs::Counters& counters = engine_.counters_;
    const auto packet = wire::parse_packet(incoming.packet);
    if (!packet) return on_malformed();
    ++frames_;
    bytes_ += packet->payload.size();
    if (packet->bth.dest_qp == kGsiQpn) [[unlikely]] {
      current_ = nullptr;  // whoever takes it may publish others
      if (engine_.table_.on_management(*packet, incoming.flow)) return;
    }
    if (incoming.flow.destination.is_multicast()) [[unlikely]] {
      return to_members(*packet, incoming);
    }
    if (packet->info().service == wire::Service::kRd) return to_context(*packet, incoming);
    find(packet->bth.dest_qp);
    if (current_ == nullptr) return counters.add(obs::Counter::kUnknownQueuePairs);
    dispatch(*current_, *packet, incoming);
  }

 private:
  /// Frames come in runs for one queue pair: it stays published until another one's come.
  void find(Qpn number) {
    if (current_ != nullptr && number == current_number_) return;
    current_ = engine_.table_.find(number);
    current_number_ = number;
  }

  /// The fast path of most frames; false: parse it.
  bool fast_on_frame(const port::Incoming& incoming) {
    if (incoming.packet.size() < wire::Bth::kSize) return false;
    const Qpn number = wire::Bth::destination_of(incoming.packet.first<wire::Bth::kSize>());
    if (number == kGsiQpn || number == kMulticastQpn || incoming.flow.is_marked()) {
      return false;
    }
    find(number);
    if (current_ == nullptr || current_->service != Service::kReliableConnection) return false;
    queue::QueuePair& qp = *current_;
    queue::FrameReceiver* const path = frame_receiver(qp);
    if (path == nullptr || incoming.flow.destination != qp.local_gid ||
        incoming.flow.source != qp.attributes.remote_gid ||
        !path->fast_on_frame(qp, incoming.packet)) {
      return false;
    }
    ++frames_;
    bytes_ += incoming.packet.size() - wire::Bth::kSize;
    touch(qp);
    if (transport::acknowledges_each(qp.attributes)) transmit_touched();
    return true;
  }

  /// A frame of the reliable datagram service names a context of ours; only whoever routes it looks
  /// at the queue pair.
  void to_context(const wire::Packet& packet, const port::Incoming& incoming) {
    const Qpn number(packet.rdeth.context.value);
    if (number.value == 0) {
      current_ = nullptr;  // whoever takes it may publish others
      if (!engine_.table_.on_context_setup(packet, incoming.flow)) {
        engine_.counters_.add(obs::Counter::kUnknownContexts);
      }
      return;
    }
    find(number);
    if (current_ == nullptr) return engine_.counters_.add(obs::Counter::kUnknownContexts);
    dispatch(*current_, packet, incoming);
  }

  /// After a round, also one that brought nothing but frames that were refused: what was counted
  /// becomes known, and no queue pair is kept from going away.
  void settle() {
    current_ = nullptr;
    memory::Flight::clear(memory::Hold::kPeer);
    engine_.counters_.add(obs::Counter::kFramesReceived, std::exchange(frames_, 0));
    engine_.counters_.add(obs::Counter::kBytesReceived, std::exchange(bytes_, 0));
  }

  void to_members(const wire::Packet& packet, const port::Incoming& incoming) {
    obs::Counters& counters = engine_.counters_;
    if (packet.bth.dest_qp != kMulticastQpn) return counters.add(obs::Counter::kUnknownQueuePairs);
    current_ = nullptr;  // the word that published it is about to be used
    for (const Qpn member : engine_.table_.members(incoming.flow.destination)) {
      queue::QueuePair* qp = engine_.table_.find(member);
      if (qp == nullptr) continue;
      if (qp->local_gid == port_.address()) dispatch(*qp, packet, incoming);
      memory::Flight::clear(memory::Hold::kPeer);
    }
  }

  void dispatch(queue::QueuePair& qp, const wire::Packet& packet, const port::Incoming& incoming) {
    const wire::Service service = packet.info().service;
    const bool expected = service == wire_service(qp.service);
    if (!expected &&
        (service != wire::Service::kCongestion || qp.service == Service::kUnreliableDatagram)) {
      return qp.count(obs::Counter::kWrongService);
    }
    if (packet.bth.pkey != kDefaultPKey) return qp.count(obs::Counter::kBadPartition);
    queue::FrameReceiver* path = frame_receiver(qp);
    if (path == nullptr) return qp.count(obs::Counter::kWrongState);
    const bool to_group = incoming.flow.destination.is_multicast();
    if ((!to_group && incoming.flow.destination != qp.local_gid) ||
        (qp.service != Service::kUnreliableDatagram &&
         incoming.flow.source != qp.attributes.remote_gid)) {
      return qp.count(obs::Counter::kWrongSource);
    }
    if (!expected) return path->on_congestion(qp, now_);
    path->on_frame(qp, packet, incoming, now_);
    touch(qp);
    if (transport::acknowledges_each(qp.attributes)) transmit_touched();
  }

  void touch(queue::QueuePair& qp) {
    if (touched_count_ > 0 && touched_[touched_count_ - 1] == &qp) return;
    const auto end = touched_.begin() + static_cast<std::ptrdiff_t>(touched_count_);
    if (std::find(touched_.begin(), end, &qp) != end) return;
    if (touched_count_ == touched_.size()) transmit_touched();
    touched_[touched_count_++] = &qp;
  }

  void transmit_touched() {
    const std::size_t n = std::exchange(touched_count_, 0);
    for (std::size_t i = 0; i < n; ++i) {
      // The frame's own publication has ended: publish anew, then look again.
      memory::Flight::Scope self(memory::Hold::kSelf, touched_[i]);
      queue::FrameReceiver* path = frame_receiver(*touched_[i]);
      if (path == nullptr) continue;
      const bool may_hold = program_polls_ && held_count_ < held_.size();
      if (path->answer(*touched_[i], may_hold)) hold(*touched_[i]);
    }
  }

  void hold(queue::QueuePair& qp) {
    if (held_count_ == 0) held_at_ = now_;
    held_[held_count_++] = &qp;
  }

  void release_held() {
    const std::size_t n = std::exchange(held_count_, 0);
    for (std::size_t i = 0; i < n; ++i) {
      memory::Flight::Scope self(memory::Hold::kSelf, held_[i]);
      if (queue::FrameReceiver* path = frame_receiver(*held_[i])) path->release(*held_[i]);
    }
  }

  Engine& engine_;
  port::Port& port_;
  base::Lock lock_;
  Nanoseconds now_ = 0;
  queue::QueuePair* current_ = nullptr;  ///< published under Hold::kPeer
  Qpn current_number_;
  std::uint64_t frames_ = 0, bytes_ = 0;  ///< not counted yet
  unsigned full_rounds_ = 0;              ///< in a row brought as much as one may
  std::uint64_t polls_seen_ = 0;
  bool program_polls_ = false;  ///< the poll that is under way is the program's
  std::size_t touched_count_ = 0;
  std::array<queue::QueuePair*, kFramesPerPoll> touched_{};
  // Queue pairs whose acknowledgement waits for company.
  Nanoseconds held_at_ = 0;
  std::size_t held_count_ = 0;
  std::array<queue::QueuePair*, kFramesPerPoll> held_{};
};

Engine::Engine(base::Clock& clock, QueuePairTable& table, obs::Counters& counters)
    : clock_(clock), table_(table), counters_(counters) {}

Engine::~Engine() = default;

void Engine::add_port(port::Port& port) {
  receivers_.push_back(std::make_unique<PortReceiver>(*this, port));
  has_arrivals_.store(true, std::memory_order_relaxed);
}

void Engine::add_source(Source& source) {
  {
    const std::lock_guard guard(lock_);
    const std::size_t count = source_count_.load(std::memory_order_relaxed);
    WEFT_ASSERT(count < kMostSources);
    sources_[count].store(&source, std::memory_order_relaxed);
    // release pairs with the acquire of whoever polls it.
    source_count_.store(count + 1, std::memory_order_release);
    has_arrivals_.store(true, std::memory_order_relaxed);
  }
  call_helper();  // it sleeps without this one's descriptors, or does not run yet
}

void Engine::set_wake(std::function<void(Nanoseconds)> wake, std::function<void()> attend) {
  const std::lock_guard guard(lock_);
  wake_ = std::move(wake);
  attend_ = std::move(attend);
}

void Engine::set_waker(Waker waker) {
  spins_from_.store(polls() + kSpins, std::memory_order_relaxed);
  const bool same = waker_.load(std::memory_order_relaxed) == waker;
  if (!same || waker == Waker::kHelper) waker_.store(waker, std::memory_order_seq_cst);
  if (waker != Waker::kHelper) return;
  const std::lock_guard guard(lock_);
  if (attend_) attend_();
}

void Engine::call_helper() {
  const std::lock_guard guard(lock_);
  wake(0);
}

void Engine::settle() {
  if (neighbours_ != nullptr && neighbours_->active()) neighbours_->settle();
  // Not counted as a poll: acknowledgements do not wait for another one.
  for (int round = 0; round < kRoundsPerSettle && progress(); ++round) {
  }
}

bool Engine::receives(Nanoseconds within) const {
  return receives_since_.load(std::memory_order_relaxed) + within > clock_.now() ||
         std::ranges::any_of(receivers_, [](const auto& receiver) { return receiver->busy(); });
}

bool Engine::frames_wait() const {
  std::vector<pollfd> fds;
  for (const int fd : wait_fds()) {
    if (host::is_ours(fd)) fds.push_back({fd, POLLIN, 0});
  }
  return !fds.empty() && ::poll(fds.data(), fds.size(), 0) > 0;
}

void Engine::take_arrived() {
  for (int round = 0; round < kRoundsForArrivals; ++round) {
    bool missed = false;
    const bool did = poll_ports(clock_.now(), missed);
    if (!did && !missed && !frames_wait()) return;
    if (missed) std::this_thread::yield();
  }
}

std::vector<int> Engine::wait_fds() const {
  std::vector<int> fds;
  for (const auto& receiver : receivers_) {
    receiver->port().add_wait_fds(fds);
  }
  const std::size_t sources = source_count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < sources; ++i) {
    sources_[i].load(std::memory_order_relaxed)->add_wait_fds(fds);
  }
  return fds;
}

Nanoseconds Engine::next_deadline() const {
  Nanoseconds earliest = earliest_.load(std::memory_order_acquire);
  for (const auto& receiver : receivers_) {
    earliest = std::min(earliest, receiver->port().next_deadline());
  }
  return earliest;
}

void Engine::wake(Nanoseconds deadline) {
  if (wake_) wake_(deadline);
}

// ---- scheduling -----------------------------------------------------------------------------

void Engine::run_soon(queue::QueuePair& qp) {
  const std::lock_guard guard(lock_);
  enqueue(qp);
}

void Engine::enqueue(queue::QueuePair& qp) {
  if (qp.scheduled.queued) return;
  qp.scheduled.queued = true;
  const QpState state = qp.state.load(std::memory_order_acquire);
  if (state == QpState::kError || state == QpState::kSendQueueError) {
    failed_.append(qp);
    failures_.fetch_add(1, std::memory_order_release);
  } else {
    unfinished_.append(qp);
  }
  runnable_.fetch_add(1, std::memory_order_release);
  wake(0);
}

void Engine::RunList::append(queue::QueuePair& qp) {
  qp.scheduled.next = nullptr;
  (last != nullptr ? last->scheduled.next : first) = &qp;
  last = &qp;
}

queue::QueuePair* Engine::RunList::pop() {
  queue::QueuePair* qp = first;
  if (qp == nullptr) return nullptr;
  first = qp->scheduled.next;
  if (first == nullptr) last = nullptr;
  return qp;
}

bool Engine::RunList::erase(queue::QueuePair& qp) {
  queue::QueuePair* previous = nullptr;
  for (queue::QueuePair* at = first; at != nullptr; previous = at, at = at->scheduled.next) {
    if (at != &qp) continue;
    (previous != nullptr ? previous->scheduled.next : first) = qp.scheduled.next;
    if (last == &qp) last = previous;
    return true;
  }
  return false;
}

void Engine::run_at(queue::QueuePair& qp, Nanoseconds when) {
  if (when == kNever) return;
  const std::lock_guard guard(lock_);
  if (qp.scheduled.heap_position != 0) {
    if (qp.scheduled.deadline <= when) return;  // it fires earlier and then asks again
    qp.scheduled.deadline = when;
    sift_up(qp.scheduled.heap_position - 1);
  } else {
    qp.scheduled.deadline = when;
    heap_insert(qp);
  }
  publish_earliest();
  wake(when);
}

void Engine::forget(queue::QueuePair& qp) {
  const std::lock_guard guard(lock_);
  if (qp.scheduled.heap_position != 0) heap_erase(qp);
  publish_earliest();
  if (!qp.scheduled.queued) return;
  qp.scheduled.queued = false;
  if (failed_.erase(qp)) {
    failures_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    unfinished_.erase(qp);
  }
  runnable_.fetch_sub(1, std::memory_order_relaxed);
}

queue::QueuePair* Engine::take_runnable(bool failed_only) {
  const std::lock_guard guard(lock_);
  queue::QueuePair* qp = failed_.pop();
  if (qp != nullptr) {
    failures_.fetch_sub(1, std::memory_order_relaxed);
  } else if (!failed_only) {
    qp = unfinished_.pop();
  }
  if (qp == nullptr) return nullptr;
  qp->scheduled.queued = false;
  runnable_.fetch_sub(1, std::memory_order_relaxed);
  // Under the lock: a destroyer that does not find it in the list any more waits for this word.
  memory::Flight::publish(memory::Hold::kSelf, qp);
  return qp;
}

void Engine::run(queue::QueuePair& qp) {
  const QpState state = qp.state.load(std::memory_order_acquire);
  if (state == QpState::kReset) return;
  // In the error states the path still sends the NAK that explains them.
  if (queue::FrameReceiver* path = frame_receiver(qp)) {
    // Not the time that it is: this thread may have been held up since the ports were looked at,
    // and a time-out that became due meanwhile says nothing yet.
    path->run(qp, looked_at_.load(std::memory_order_relaxed));
  } else if (qp.path != nullptr) {
    qp.path->advance(qp, queue::SendGuard(qp.send_lock), {.bytes = kBytesPerRun});
  }
  const QpState after = qp.state.load(std::memory_order_acquire);
  if (after == QpState::kError || after == QpState::kSendQueueError) queue::flush(qp);
}

bool Engine::run_some(bool failed_only) {
  // Only what waits now: a queue pair that has more to do afterwards comes again with the next
  // call.
  const std::uint32_t most = std::min(kRunsPerProgress, runnable_.load(std::memory_order_relaxed));
  std::uint32_t runs = 0;
  while (runs < most) {
    queue::QueuePair* qp = take_runnable(failed_only);
    if (qp == nullptr) break;
    run(*qp);
    memory::Flight::clear(memory::Hold::kSelf);
    ++runs;
  }
  return runs > 0;
}

bool Engine::fire_timers() { return fire_timers(clock_.now()); }

bool Engine::fire_timers(Nanoseconds now) {
  if (earliest_.load(std::memory_order_relaxed) > now) return false;
  const std::lock_guard guard(lock_);
  while (!heap_.empty() && heap_.front()->scheduled.deadline <= now) {
    queue::QueuePair* qp = heap_.front();
    heap_erase(*qp);
    enqueue(*qp);
  }
  publish_earliest();
  return true;
}

bool Engine::poll_ports(Nanoseconds now, bool& missed) {
  bool did = false;
  for (const auto& receiver : receivers_) did |= receiver->poll(now, missed);
  const std::size_t sources = source_count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < sources; ++i) {
    did |= sources_[i].load(std::memory_order_relaxed)->poll(missed);
  }
  return did;
}

bool Engine::progress_with_ports() {
  // One look at the clock for all: it is a good part of what a poll in vain costs.
  const Nanoseconds now = clock_.now();
  bool missed = false;
  receives_since_.store(now, std::memory_order_relaxed);
  bool did = poll_ports(now, missed);
  if (neighbours_ != nullptr && neighbours_->active()) did |= neighbours_->poll();
  // A time-out says that something has not come, so it has to have been looked for since it was
  // due: this thread may have been held up for long while it did so, and another one may be.
  if (!missed) {
    looked_at_.store(now, std::memory_order_relaxed);
    did |= fire_timers(now);
  }
  if (has_runnable()) did |= run_some(false);
  return did;
}

void Engine::flush_failed() {
  if (failures_.load(std::memory_order_acquire) != 0) run_some(true);
}

// ---- the heap of deadlines ------------------------------------------------------------------

void Engine::publish_earliest() {
  earliest_.store(heap_.empty() ? kNever : heap_.front()->scheduled.deadline,
                  std::memory_order_release);
}

void Engine::place(std::size_t at, queue::QueuePair* qp) {
  heap_[at] = qp;
  qp->scheduled.heap_position = static_cast<std::uint32_t>(at + 1);
}

void Engine::heap_insert(queue::QueuePair& qp) {
  heap_.push_back(&qp);
  place(heap_.size() - 1, &qp);
  sift_up(heap_.size() - 1);
}

void Engine::heap_erase(queue::QueuePair& qp) {
  const std::size_t at = qp.scheduled.heap_position - 1;
  qp.scheduled.heap_position = 0;
  qp.scheduled.deadline = kNever;
  queue::QueuePair* moved = heap_.back();
  heap_.pop_back();
  if (moved == &qp) return;
  place(at, moved);
  sift_up(at);
  sift_down(moved->scheduled.heap_position - 1);
}

void Engine::sift_up(std::size_t at) {
  queue::QueuePair* qp = heap_[at];
  while (at > 0) {
    const std::size_t parent = (at - 1) / 2;
    if (heap_[parent]->scheduled.deadline <= qp->scheduled.deadline) break;
    place(at, heap_[parent]);
    at = parent;
  }
  place(at, qp);
}

void Engine::sift_down(std::size_t at) {
  queue::QueuePair* qp = heap_[at];
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() &&
        heap_[child + 1]->scheduled.deadline < heap_[child]->scheduled.deadline) {
      ++child;
    }
    if (qp->scheduled.deadline <= heap_[child]->scheduled.deadline) break;
    place(at, heap_[child]);
    at = child;
  }
  place(at, qp);
}

}  // namespace weft::path
