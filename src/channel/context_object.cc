#include "channel/context_object.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"

namespace weft::channel {
namespace {

/// Channels whose memory is looked at in each round; those beyond ring.
constexpr std::uint32_t kWatchedMost = 64;
/// A channel that was silent this long is not looked at any more.
constexpr Nanoseconds kRestAfter = 2'000'000;
/// After this long without anything there is time for chores.
constexpr Nanoseconds kQuietAfter = 50'000;
constexpr Nanoseconds kConnectionsEvery = 500'000, kGrownEvery = 2'000'000,
                      kTrimEvery = 100'000'000;
/// Sleeping with something under way, or with grown channels: how long at most.
constexpr Nanoseconds kBusySleep = 1'000'000, kGrownSleep = 50'000'000;
/// Not all peers are looked for at once.
constexpr std::uint32_t kProbeParts = 16;

Nanoseconds clock_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 +
         static_cast<Nanoseconds>(time.tv_nsec);
}

void erase_unordered(std::vector<ChannelObject*>& list, ChannelObject* channel) {
  const auto at = std::find(list.begin(), list.end(), channel);
  if (at == list.end()) return;
  *at = list.back();
  list.pop_back();
}

}  // namespace

ContextObject::ContextObject(const ContextOptions& options)
    : budget_(options.budget_bytes),
      settings_(std::make_shared<const Settings>(options.settings)),
      on_warning_(options.on_warning),
      probe_pause_(options.probe_every_ns / kProbeParts),
      now_(clock_now()) {}

ContextObject::~ContextObject() {
  device_.reset();
  if (connections_ != nullptr) rdma_destroy_event_channel(connections_);
  if (epoll_ >= 0) close(epoll_);
  if (timer_ >= 0) close(timer_);
}

Result<void> ContextObject::open() {
  connections_ = rdma_create_event_channel();
  if (connections_ == nullptr) {
    return fail(
        Errc::kSystem,
        fmt::format("the RDMA connection manager cannot be opened: {} (on a machine without "
                    "RDMA hardware start the program with `weft run --`)",
                    std::strerror(errno)));
  }
  fcntl(connections_->fd, F_SETFL, fcntl(connections_->fd, F_GETFL) | O_NONBLOCK);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ < 0 || timer_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_->fd, &event) != 0 ||
      epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event) != 0 ||
      epoll_ctl(epoll_, EPOLL_CTL_ADD, sleepers_.wake_fd(), &event) != 0) {
    return fail(Errc::kSystem, fmt::format("epoll: {}", std::strerror(errno)));
  }
  return {};
}

std::shared_ptr<const Settings> ContextObject::share(const Settings& settings) {
  const std::lock_guard guard(lock_);
  if (*settings_ == settings) return settings_;
  if (last_settings_ == nullptr || *last_settings_ != settings) {
    last_settings_ = std::make_shared<const Settings>(settings);
  }
  return last_settings_;
}

std::uint32_t ContextObject::add(ChannelObject& channel) {
  budget_.add_channel();
  if (!free_indices_.empty()) {
    const std::uint32_t index = free_indices_.back();
    free_indices_.pop_back();
    channels_[index] = &channel;
    return index;
  }
  channels_.push_back(&channel);
  return static_cast<std::uint32_t>(channels_.size() - 1);
}

void ContextObject::remove(ChannelObject& channel) {
  budget_.remove_channel();
  channels_[channel.index()] = nullptr;
  free_indices_.push_back(channel.index());
}

void ContextObject::know(ChannelObject& channel) {
  by_qpn_.set(channel.qpn(), &channel);
  if (channel.is_lean()) note_doze_candidate(channel);
}

void ContextObject::forget(ChannelObject& channel) {
  by_qpn_.erase(channel.qpn());
  if (channel.listed) erase_unordered(ready_, &channel);
  channel.ready = channel.listed = false;
  if (channel.active) erase_unordered(active_, &channel);
  if (channel.grown) erase_unordered(grown_, &channel);
  if (channel.doze_candidate) erase_unordered(doze_candidates_, &channel);
  if (channel.is_watching()) --watching_;
  if (channel.probed) --probed_;
  channel.active = channel.grown = channel.probed = channel.doze_candidate = false;
}

void ContextObject::note_doze_candidate(ChannelObject& channel) {
  if (channel.doze_candidate) return;
  channel.doze_candidate = true;
  doze_candidates_.push_back(&channel);
}

void ContextObject::visit_doze_candidates() {
  for (std::size_t i = 0; i < doze_candidates_.size();) {
    if (!doze_candidates_[i]->become_dormant()) {
      ++i;
      continue;
    }
    doze_candidates_[i]->doze_candidate = false;
    doze_candidates_[i] = doze_candidates_.back();
    doze_candidates_.pop_back();
  }
}

void ContextObject::activate(ChannelObject& channel) {
  channel.last_event_ns = now_;
  if (!channel.active) {
    channel.active = true;
    active_.push_back(&channel);
  }
  if (channel.life() == Life::kOpen && channel.endpoint().mode() != Mode::kWatching &&
      watching_ < kWatchedMost) {
    ++watching_;
    channel.endpoint().set_mode(Mode::kWatching);
  }
}

void ContextObject::await_room(ChannelObject& channel) {
  channel.blocked = true;
  activate(channel);
}

void ContextObject::note_ready(ChannelObject& channel) {
  if (channel.ready) return;
  const bool something = channel.endpoint().receive().has_something();
  if (!something && channel.life() != Life::kLost) return;
  channel.ready = true;
  if (channel.listed) return;
  channel.listed = true;
  ready_.push_back(&channel);
}

std::vector<std::uint64_t> ContextObject::take_ready() {
  std::vector<std::uint64_t> tags;
  for (ChannelObject* channel : ready_) {
    tags.push_back(channel->tag);
    channel->listed = false;
  }
  ready_.clear();
  return tags;
}

bool ContextObject::poll_completions() {
  if (device_ == nullptr) return false;
  bool any = false;
  for (const ibv_wc& wc : device_->poll()) {
    any = true;
    ChannelObject* found = by_qpn_.find(wc.qp_num);
    if (found == nullptr) continue;  // of a channel that is gone
    ChannelObject& channel = *found;
    if (wc.status != IBV_WC_SUCCESS) {
      if (wc.status != IBV_WC_WR_FLUSH_ERR) {
        channel.lose(fmt::format("the connection failed: {}", ibv_wc_status_str(wc.status)));
      }
      channel.lose("the connection was ended by the peer");
      note_ready(channel);
    } else if ((wc.opcode & IBV_WC_RECV) != 0) {
      if (device_->has_closed_window(wc)) {
        channel.endpoint().on_returned(RemoteKey(wc.invalidated_rkey));
      }
      activate(channel);
      if (channel.life() == Life::kOpen) channel.endpoint().progress(now_);
      note_ready(channel);
    } else {
      channel.endpoint().on_done(static_cast<std::uint32_t>(wc.wr_id));
      note_ready(channel);  // what was read is complete
    }
  }
  return any;
}

// Stops looking at a channel. The peer learns of it, and what it wrote before it learned is looked
// for once more; what it was not notified of, it is notified of now.
void ContextObject::rest(ChannelObject& channel) {
  Endpoint& endpoint = channel.endpoint();
  if (endpoint.mode() == Mode::kWatching) --watching_;
  endpoint.set_mode(channel.blocked ? Mode::kWantsRoom : Mode::kAsleep);
  if (endpoint.unnotified()) endpoint.notify();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  endpoint.progress(now_);
  note_ready(channel);
}

bool ContextObject::visit(ChannelObject& channel) {
  if (channel.life() != Life::kOpen) return false;
  Endpoint& endpoint = channel.endpoint();
  endpoint.progress(now_);
  channel.lose_if_failed();
  channel.confirm_end();
  note_ready(channel);
  if (!channel.grown && endpoint.send().phase() > 0) {
    channel.grown = true;
    grown_.push_back(&channel);
  }
  const bool has_room = channel.blocked && endpoint.take_note_of_room();
  // The application looks too.
  const auto frames = static_cast<std::uint32_t>(endpoint.receive().figures().frames);
  if (std::exchange(channel.spoke, false)) channel.last_event_ns = now_;
  if (frames == channel.frames_seen) return has_room;
  channel.frames_seen = frames;
  channel.last_event_ns = now_;
  return true;
}

// Shrinking has time: grown channels are looked at every few milliseconds. Where memory is short,
// those with more than their share are asked for it.
void ContextObject::visit_grown() {
  for (std::size_t i = 0; i < grown_.size();) {
    ChannelObject& channel = *grown_[i];
    channel.endpoint().wish_smaller(budget_.tight() && channel.charged_bytes() > budget_.share());
    visit(channel);
    if (!channel.active &&
        (channel.endpoint().send().moving() || channel.endpoint().unnotified())) {
      activate(channel);
    }
    if (channel.endpoint().send().phase() == 0 || channel.life() != Life::kOpen) {
      channel.grown = false;
      grown_[i] = grown_.back();
      grown_.pop_back();
    } else {
      ++i;
    }
  }
}

bool ContextObject::round() {
  now_ = clock_now();
  bool any = poll_completions();
  for (std::size_t i = 0; i < active_.size();) {
    ChannelObject& channel = *active_[i];
    if (visit(channel)) any = true;
    const bool silent = now_ - channel.last_event_ns > kRestAfter && !channel.endpoint().busy();
    if (silent) rest(channel);
    // One whose peer could not be notified for lack of room stays.
    if ((silent && !channel.endpoint().unnotified()) || channel.life() != Life::kOpen) {
      channel.active = false;
      active_[i] = active_.back();
      active_.pop_back();
    } else {
      ++i;
    }
  }
  if (device_ != nullptr && now_ - trimmed_at_ > kTrimEvery) {
    trimmed_at_ = now_;
    device_->rings().trim();
    device_->slab().trim();
  }
  if (now_ - grown_at_ > kGrownEvery) {
    grown_at_ = now_;
    visit_grown();
    visit_doze_candidates();
  }
  if (connecting_ > 0 || now_ - connections_at_ > kConnectionsEvery) {
    connections_at_ = now_;
    if (poll_connections()) any = true;
  }
  if (!lingering_.empty()) visit_lingering();
  if (probed_ > 0 && now_ >= probe_at_) probe_some();
  if (any) note_event();
  do_chores(any);
  return any;
}

// What has time is done when there is nothing else to do, one piece a round.
void ContextObject::do_chores(bool any) {
  if (device_ == nullptr || !device_->rings().has_chores()) return;
  if (any) quiet_at_ = now_ + kQuietAfter;
  if (now_ >= quiet_at_ || device_->rings().overdue()) device_->rings().do_chore();
}

// A part of the channels at a time. What comes of it is a completion, good or bad.
void ContextObject::probe_some() {
  probe_at_ = now_ + probe_pause_;
  const auto all = static_cast<std::uint32_t>(channels_.size());
  for (std::uint32_t left = all / kProbeParts + 1; left > 0; --left) {
    if (++next_probed_ >= all) next_probed_ = 0;
    ChannelObject* channel = channels_[next_probed_];
    if (channel != nullptr && channel->probed && channel->life() == Life::kOpen) {
      channel->endpoint().probe();
    }
  }
}

void ContextObject::note_event() {
  events_.fetch_add(1, std::memory_order_release);
  sleepers_.wake();
}

void ContextObject::linger(std::shared_ptr<ChannelObject> channel, Nanoseconds time_ns) {
  channel->blocked = true;
  lingering_.push_back({std::move(channel), now_ + time_ns});
}

void ContextObject::keep_for_views(std::shared_ptr<ChannelObject> channel) {
  channel->kept = true;
  kept_.push_back(std::move(channel));
}

std::shared_ptr<ChannelObject> ContextObject::take_kept(ChannelObject& channel) {
  if (!std::exchange(channel.kept, false)) return nullptr;
  const auto at = std::find_if(kept_.begin(), kept_.end(),
                               [&](const auto& kept) { return kept.get() == &channel; });
  std::shared_ptr<ChannelObject> taken = std::move(*at);
  *at = std::move(kept_.back());
  kept_.pop_back();
  return taken;
}

void ContextObject::visit_lingering() {
  for (std::size_t i = 0; i < lingering_.size();) {
    ChannelObject& channel = *lingering_[i].channel;
    bool done = channel.life() != Life::kOpen || now_ >= lingering_[i].until;
    if (!done) {
      channel.endpoint().progress(now_);
      done = channel.endpoint().finish(channel.is_being_left());
      channel.confirm_end();
    }
    if (!done) {
      ++i;
      continue;
    }
    channel.disconnect();
    dropped_.push_back(std::move(lingering_[i].channel));
    lingering_[i] = std::move(lingering_.back());
    lingering_.pop_back();
  }
}

void ContextObject::abandon() {
  abandoned_ = true;
  for (Lingering& one : lingering_) {
    one.channel->disconnect();
    dropped_.push_back(std::move(one.channel));
  }
  lingering_.clear();
}

bool ContextObject::arm() {
  if (device_ == nullptr) return !poll_connections();
  while (device_->rings().do_chore()) {
  }
  device_->arm();
  bool found = poll_completions();
  for (std::size_t i = 0; i < active_.size();) {
    ChannelObject& channel = *active_[i];
    const std::uint64_t before = channel.endpoint().receive().figures().frames;
    rest(channel);
    if (channel.endpoint().receive().figures().frames != before) found = true;
    if (channel.blocked && channel.endpoint().take_note_of_room()) found = true;
    if ((channel.endpoint().busy() || channel.endpoint().unnotified()) &&
        channel.life() == Life::kOpen) {
      ++i;
      continue;
    }
    channel.active = false;
    active_[i] = active_.back();
    active_.pop_back();
  }
  if (poll_connections()) found = true;
  if (found) note_event();  // it may be for another thread
  if (!found) set_timer();
  return !found;
}

void ContextObject::set_timer() {
  const Nanoseconds sleep = !active_.empty() || !lingering_.empty()        ? kBusySleep
                            : !grown_.empty() || !doze_candidates_.empty() ? kGrownSleep
                            : probed_ > 0                                  ? probe_pause_
                                                                           : 0;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(sleep / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(sleep % 1'000'000'000);
  timerfd_settime(timer_, 0, &when, nullptr);
}

void ContextObject::take_wakeups() {
  if (device_ != nullptr) device_->take_events();
  std::uint64_t ticks = 0;
  const ssize_t got = read(timer_, &ticks, sizeof ticks);
  static_cast<void>(got);  // nothing to read is as good
}

}  // namespace weft::channel
