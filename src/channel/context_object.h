// What the handles of a context share: the device, the connection manager's events, the budget, the
// channels, and one round of progress for all of them. Only few channels are looked at in each
// round: those whose memory is watched, and those with something under way; the others ring.
// One lock guards all of it. Owned by shared_ptr.
#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/biased_lock.h"
#include "base/number_map.h"
#include "channel/budget.h"
#include "channel/channel_object.h"
#include "channel/device.h"
#include "channel/sleepers.h"
#include "weft/channel.h"

namespace weft::channel {

class ListenerObject {
 public:
  explicit ListenerObject(std::shared_ptr<ContextObject> owner) : context(std::move(owner)) {}
  ~ListenerObject();

  const std::shared_ptr<ContextObject> context;
  std::shared_ptr<const Settings> settings;
  rdma_cm_id* id = nullptr;
  std::uint16_t port = 0;
  std::deque<std::shared_ptr<ChannelObject>> ready;
  /// Accepted by us, not yet confirmed by the peer.
  std::vector<std::shared_ptr<ChannelObject>> coming;
};

/// Polls for a while, then sleeps; true when something happened since `seen` was asked for.
bool wait_for_something(ContextObject& context, Deadline deadline, std::uint64_t seen);

class ContextObject : public std::enable_shared_from_this<ContextObject> {
 public:
  explicit ContextObject(const ContextOptions& options);
  ~ContextObject();

  Result<void> open();
  base::BiasedLock& lock() { return lock_; }
  Device* device() { return device_.get(); }
  Budget& budget() { return budget_; }
  Nanoseconds now() const { return now_; }
  std::shared_ptr<const Settings> settings() const { return settings_; }
  /// The same for all that are alike, one after the other. Takes the lock itself.
  std::shared_ptr<const Settings> share(const Settings& settings);
  /// Tells the user, if it says something new. Takes the lock itself, and calls without it.
  void warn(const std::string& text);

  // All of these with the lock held.
  std::uint32_t add(ChannelObject& channel);
  void remove(ChannelObject& channel);
  /// From now on completions find it.
  void know(ChannelObject& channel);
  void forget(ChannelObject& channel);
  void activate(ChannelObject& channel);
  /// The sender has something left: room at the peer counts as an event, and wakes a sleeper.
  void await_room(ChannelObject& channel);
  void note_ready(ChannelObject& channel);
  /// It is connected, has failed, or is not wanted any more.
  void end_connecting(ChannelObject& channel);
  /// Threads that wait look again.
  void note_event();
  /// It is in use, and may become dormant later.
  void note_doze_candidate(ChannelObject& channel);
  /// Nothing tells of the end of this one's peer but probes.
  void attend(ChannelObject& channel) { channel.probed = true, ++probed_; }
  std::vector<std::uint64_t> take_ready();
  bool round();
  bool poll_completions();
  bool arm();
  int fd() const { return epoll_; }
  void take_wakeups();
  Sleepers& sleepers() { return sleepers_; }
  /// Polls that found nothing, one after the other. True: so many that the caller should let
  /// another process run, which may be the one that it waits for.
  bool in_vain(std::uint32_t looks) {
    vain_looks_ += looks;
    if (vain_looks_ < kLooksBeforeYield) return false;
    vain_looks_ = 0;
    return true;
  }
  void found() { vain_looks_ = 0; }
  /// At most two channels are looked at.
  bool watches_few() const { return watching_ <= 2; }
  /// Counts what happened. Who finds nothing and wants to wait remembers it from before the look:
  /// another thread's round may take up what this one waits for.
  std::uint64_t events() const { return events_.load(std::memory_order_acquire); }
  /// Takes over a channel whose handle is gone: rounds deliver what it sent, within the time.
  void linger(std::shared_ptr<ChannelObject> channel, Nanoseconds time_ns);
  /// Only views of it are left: until the last one goes.
  void keep_for_views(std::shared_ptr<ChannelObject> channel);
  /// To be destroyed without the lock.
  std::shared_ptr<ChannelObject> take_kept(ChannelObject& channel);
  bool lingers() const { return !lingering_.empty(); }
  /// Nobody makes rounds any more: what lingers ends now.
  void abandon();
  bool abandoned() const { return abandoned_; }
  void drop(ListenerObject& listener) { std::erase(listeners_, &listener); }
  /// Channels that failed before anybody owned them; to be destroyed without the lock.
  std::vector<std::shared_ptr<ChannelObject>> take_dropped() { return std::move(dropped_); }

  // These two take the lock themselves.
  Result<std::shared_ptr<ListenerObject>> listen(const std::string& host, std::uint16_t port,
                                                 std::shared_ptr<const Settings> settings);
  Result<std::shared_ptr<ChannelObject>> connect(const std::string& host, std::uint16_t port,
                                                 std::shared_ptr<const Settings> settings);

 private:
  bool visit(ChannelObject& channel);
  void rest(ChannelObject& channel);
  void visit_grown();
  void do_chores(bool any);
  void visit_lingering();
  void probe_some();
  void visit_doze_candidates();
  void set_timer();
  // context_connect.cc
  bool poll_connections();
  void on_connection(rdma_cm_event& event);
  Result<void> use_device(ibv_context* verbs);
  void on_request(rdma_cm_event& event, ListenerObject& listener);
  void on_route(ChannelObject& channel);
  void on_established(rdma_cm_event& event, ChannelObject& channel);
  void stand(ChannelObject& channel);
  void give_up_coming(ChannelObject& channel);
  rdma_conn_param parameters(std::span<const std::byte> hello) const;

  /// About 50 us of looking.
  static constexpr std::uint32_t kLooksBeforeYield = 1024;

  base::BiasedLock lock_;
  std::uint32_t vain_looks_ = 0;
  Budget budget_;
  std::shared_ptr<const Settings> settings_, last_settings_;
  const std::function<void(const std::string&)> on_warning_;
  std::vector<std::string> warned_;  // few
  std::unique_ptr<Device> device_;
  rdma_event_channel* connections_ = nullptr;
  int epoll_ = -1, timer_ = -1;
  std::vector<ChannelObject*> channels_;  // by index
  std::vector<std::uint32_t> free_indices_;
  base::NumberMap<ChannelObject> by_qpn_;
  std::vector<ChannelObject*> active_, grown_, ready_, doze_candidates_;
  std::vector<ListenerObject*> listeners_;
  std::vector<std::shared_ptr<ChannelObject>> dropped_;
  struct Lingering {
    std::shared_ptr<ChannelObject> channel;
    Nanoseconds until;
  };
  std::vector<Lingering> lingering_;
  std::vector<std::shared_ptr<ChannelObject>> kept_;
  bool abandoned_ = false;
  Sleepers sleepers_;
  std::atomic<std::uint64_t> events_{0};
  std::uint32_t watching_ = 0;
  std::uint32_t connecting_ = 0;
  std::uint32_t probed_ = 0, next_probed_ = 0;  // how many there are, and whose turn it is
  const Nanoseconds probe_pause_;
  Nanoseconds probe_at_ = 0;
  Nanoseconds now_ = 0, connections_at_ = 0, grown_at_ = 0, trimmed_at_ = 0;
  Nanoseconds quiet_at_ = 0;  // from when on there is time for chores
};

}  // namespace weft::channel
