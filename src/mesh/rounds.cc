// One round of a mesh: completions, the links that are looked at, and what is due at times.
#include <fmt/format.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "mesh/mesh_object.h"

namespace weft::mesh {
namespace {

/// Links whose memory is looked at in each round; those beyond ring.
constexpr std::uint32_t kWatchedMost = 64;
/// A link that was silent this long is not looked at any more.
constexpr Nanoseconds kRestAfter = 2'000'000;
constexpr Nanoseconds kGrownEvery = 2'000'000, kWaitingEvery = 20'000'000;
/// Sleeping with something under way, and with something that has time: how long at most.
constexpr Nanoseconds kBusySleep = 1'000'000, kPatientSleep = 50'000'000;
/// In parts of the time after which a peer is idle.
constexpr Nanoseconds kIdleParts = 8;
constexpr std::uint32_t kRoundsBeforeSleep = 64;
constexpr std::size_t kBatch = 32;
/// Of completions in one round.
constexpr int kBatchesMost = 32;

Nanoseconds clock_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 +
         static_cast<Nanoseconds>(time.tv_nsec);
}

bool speaks(const Link& link) {
  return link.phase == Phase::kOpen || link.phase == Phase::kParting ||
         link.phase == Phase::kClosing;
}

}  // namespace

void MeshObject::activate(Link& link) {
  link.last_event_ns = now_;
  if (!link.active) {
    link.active = true;
    active_.push_back(&link);
  }
  if (link.endpoint().mode() != channel::Mode::kWatching && watching_ < kWatchedMost) {
    ++watching_;
    link.endpoint().set_mode(channel::Mode::kWatching);
  }
}

void MeshObject::note_ready(Link& link) {
  if (link.ready || link.phase == Phase::kClosing) return;
  const channel::ReceiveHalf& receive = link.endpoint().receive();
  if (!receive.has_undelivered() && !receive.has_arrivals()) return;
  link.ready = true;
  ready_.push_back(links_[link.mark.link]);
}

bool MeshObject::poll_completions() {
  bool any = false;
  Completion batch[kBatch];
  for (int i = 0; i < kBatchesMost; ++i) {
    const std::size_t got = cq_->poll(batch);
    for (const Completion& completion : std::span(batch, got)) on_completion(completion);
    any = any || got > 0;
    if (got < kBatch) break;
  }
  if (greeter_->flush()) any = true;
  for (const auto& lane : lanes_) {
    if (lane->flush()) any = true;
  }
  return any;
}

void MeshObject::on_completion(const Completion& completion) {
  if ((completion.wr_id & kReceiveId) != 0) return on_receive(completion);
  if (completion.qpn == greeter_->number()) return on_sent(*greeter_, completion);
  for (const auto& lane : lanes_) {
    if (completion.qpn == lane->number()) return on_sent(*lane, completion);
  }
}

void MeshObject::on_receive(const Completion& completion) {
  const std::uint64_t index = completion.wr_id & ~kReceiveId;
  if (!completion.ok()) {
    ++figures_.greetings_refused;
  } else if (completion.op == CompletionOp::kReceiveWriteImmediate) {
    on_bell(completion.immediate, completion.source_qp);
  } else {
    const std::span<const std::byte> bytes(&notes_[index * Note::kBytes], completion.byte_count);
    if (const auto note = Note::parse(bytes)) {
      on_note(*note, completion.source_qp);
    } else {
      ++figures_.greetings_refused;
    }
  }
  static_cast<void>(post_receive(index));  // there was one less
}

void MeshObject::on_bell(std::uint32_t number, Qpn source) {
  Link* link = number < links_.size() ? links_[number].get() : nullptr;
  if (link == nullptr || link->peer_lane != source) {
    ++figures_.strange_bells;
    return;
  }
  // Who is asked to part, and may have done so, is not written to.
  if (link->phase == Phase::kParting) link->rung = true;
  if (link->phase != Phase::kOpen && link->phase != Phase::kClosing) return;
  activate(*link);
  visit(*link);
}

void MeshObject::on_sent(Lane& lane, const Completion& completion) {
  const auto mark = lane.on_completion(completion.wr_id);
  if (!mark || mark->link >= links_.size()) return;
  Link* link = links_[mark->link].get();
  if (link == nullptr || link->mark.serial != mark->serial) return;  // of one that has ended
  if (!completion.ok()) {
    return lose(*link, fmt::format("the peer is gone: {}", to_string(completion.status)));
  }
  if (mark->number == 0 || !speaks(*link)) return;
  link->endpoint().on_done(mark->number);
  note_ready(*link);  // what was read is complete
}

bool MeshObject::visit(Link& link) {
  channel::Endpoint& endpoint = link.endpoint();
  endpoint.progress(now_);
  if (endpoint.failed()) {
    lose(link, std::string(endpoint.error()));
    return true;
  }
  note_ready(link);
  if (!link.grown && endpoint.send().phase() > settings_.start_phase) {
    link.grown = true;
    grown_.push_back(&link);
  }
  const bool has_room = link.blocked && endpoint.take_note_of_room();
  if (has_room) link.blocked = link.phase == Phase::kClosing;
  const auto frames = static_cast<std::uint32_t>(endpoint.receive().figures().frames);
  if (frames == link.frames_seen) return has_room;
  link.frames_seen = frames;
  link.last_event_ns = now_;
  return true;
}

// Stops looking at a link. The peer learns of it, and what it wrote before it learned is looked for
// once more; what it was not notified of, it is notified of now.
void MeshObject::rest(Link& link) {
  channel::Endpoint& endpoint = link.endpoint();
  if (endpoint.mode() == channel::Mode::kWatching) --watching_;
  endpoint.set_mode(link.blocked ? channel::Mode::kWantsRoom : channel::Mode::kAsleep);
  if (endpoint.unnotified()) endpoint.notify();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  visit(link);
}

void MeshObject::visit_active(bool& any) {
  for (std::size_t i = 0; i < active_.size();) {
    Link& link = *active_[i];
    if (visit(link)) any = true;
    if (link.phase == Phase::kEnded) continue;  // another one is in its place
    const channel::Endpoint& endpoint = link.endpoint();
    const bool silent = now_ - link.last_event_ns > kRestAfter && !endpoint.busy();
    if (silent) rest(link);
    if (link.phase == Phase::kEnded) continue;
    if (!silent || endpoint.unnotified()) {
      ++i;
      continue;
    }
    link.active = false;
    active_[i] = active_.back();
    active_.pop_back();
  }
}

// Shrinking has time. Where memory is short, those with more than their share are asked for it.
void MeshObject::visit_grown() {
  for (std::size_t i = 0; i < grown_.size();) {
    Link& link = *grown_[i];
    channel::Endpoint& endpoint = link.endpoint();
    endpoint.wish_smaller(budget_.tight() && link.charged_bytes() > budget_.share());
    visit(link);
    if (link.phase == Phase::kEnded) continue;
    if (!link.active && (endpoint.send().moving() || endpoint.unnotified())) activate(link);
    if (endpoint.send().phase() > settings_.start_phase) {
      ++i;
      continue;
    }
    link.grown = false;
    grown_[i] = grown_.back();
    grown_.pop_back();
  }
}

// An answer that does not come.
void MeshObject::visit_waiting() {
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    if (links_[i] == nullptr || now_ < links_[i]->deadline_ns) continue;
    lose(*links_[i], "the peer did not answer in time");
  }
}

void MeshObject::visit_idle() {
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    const std::shared_ptr<Link> link = links_[i];
    if (link == nullptr || link->phase != Phase::kOpen || link->active) continue;
    link->endpoint().settle_down();
    if (now_ - link->last_event_ns >= options_.idle_ns && link->is_quiet()) ask_to_part(*link);
  }
}

void MeshObject::visit_graves() {
  std::erase_if(graves_, [](const Grave& grave) {
    grave.link->lane().ask_for(grave.until);
    return grave.link->lane().done(grave.until);
  });
}

bool MeshObject::poll() {
  now_ = clock_now();
  if (std::exchange(armed_, false)) take_wakeups();
  starved_ = false;
  bool any = poll_completions();
  visit_active(any);
  if (now_ - grown_at_ > kGrownEvery) {
    grown_at_ = now_;
    visit_grown();
  }
  if (waiting_ > 0 && now_ - waiting_at_ > kWaitingEvery) {
    waiting_at_ = now_;
    visit_waiting();
  }
  if (now_ - idle_at_ > options_.idle_ns / kIdleParts) {
    idle_at_ = now_;
    visit_idle();
  }
  if (!graves_.empty()) visit_graves();
  return any;
}

bool MeshObject::arm() {
  if (!ready_.empty()) return false;
  now_ = clock_now();
  armed_ = true;
  cq_->request_notify();
  bool found = poll_completions();
  for (std::size_t i = 0; i < active_.size();) {
    Link& link = *active_[i];
    rest(link);
    if (link.phase == Phase::kEnded) {
      found = true;
      continue;
    }
    if (link.endpoint().busy() || link.endpoint().unnotified()) {
      ++i;
      continue;
    }
    link.active = false;
    active_[i] = active_.back();
    active_.pop_back();
  }
  found = found || !ready_.empty();
  if (!found) set_timer();
  return !found;
}

void MeshObject::set_timer() {
  const bool open = links_.size() > free_numbers_.size();
  const Nanoseconds sleep = !active_.empty() || starved_      ? kBusySleep
                            : !grown_.empty() || waiting_ > 0 ? kPatientSleep
                            : open || !graves_.empty()        ? options_.idle_ns / kIdleParts
                                                              : 0;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(sleep / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(sleep % 1'000'000'000);
  timerfd_settime(timer_, 0, &when, nullptr);
}

void MeshObject::take_wakeups() {
  while (events_->next_event()) {
  }
  std::uint64_t ticks = 0;
  const ssize_t got = read(timer_, &ticks, sizeof ticks);
  static_cast<void>(got);  // nothing to read is as good
}

bool MeshObject::wait(Deadline deadline) {
  for (;;) {
    const bool starved = starved_;
    for (std::uint32_t i = 0; i < kRoundsBeforeSleep; ++i) {
      if (poll() || !ready_.empty()) return true;
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    starved_ = starved;
    if (!arm()) return true;
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec time{static_cast<time_t>(ns / 1'000'000'000),
                        static_cast<long>(ns % 1'000'000'000)};
    pollfd descriptor{epoll_, POLLIN, 0};
    ppoll(&descriptor, 1, &time, nullptr);
    if (starved) return true;  // there may be memory now
  }
}

}  // namespace weft::mesh
