// A network interface controller (the seed's SANIC): the queue pairs of its owner, the keys of its
// owner's memory, its ports, and the engine that makes progress. The public handles of
// include/weft/verbs.h are thin shells around it; the simulation makes controllers of its own, with
// another clock, another memory and other ports. Shared by all handles made from it; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "host/fork.h"
#include "mad/gsi.h"
#include "memory/key_table.h"
#include "obs/counters.h"
#include "path/contexts.h"
#include "path/directory.h"
#include "path/engine.h"
#include "path/neighbours.h"
#include "port/port.h"
#include "queue/queue_pair.h"
#include "verbs/async_events.h"
#include "verbs/multicast.h"
#include "verbs/queue_pair_pool.h"
#include "verbs/raw_service.h"
#include "verbs/waiting.h"
#include "weft/verbs.h"

namespace weft::verbs {

/// What a controller is given by its process or node. Everything outlives it.
struct Environment {
  base::Clock* clock;
  base::Random* random;
  path::Directory* directory;
  /// Other processes of this host may be reached, and may reach us.
  bool has_neighbours = false;
  mad::Agents* agents = nullptr;  ///< null: management datagrams are for nobody
};

/// A port of the controller: an address and, unless the address is reachable only inside the
/// process, the wire behind it.
struct PortSetup {
  Gid address;
  std::unique_ptr<port::Port> wire;
  /// Of an address that is shared with other processes (host/number_blocks.h).
  std::optional<unsigned> number_slot = std::nullopt;
  OpenRawPort open_raw = nullptr;
};

struct ControllerSetup {
  std::string name = "weft0";
  NodeKind kind = NodeKind::kHost;
  PathPolicy path = PathPolicy::kAutomatic;
  std::uint32_t max_queue_pairs = 0;  ///< 0: the default of the kind
  std::vector<PortSetup> ports;       ///< one to kMaxPorts
  path::ContextSettings contexts = {};
};

class Controller final : public path::QueuePairTable {
 public:
  /// The controller is open as long as the pointer that this returns, or a copy, lives; then no
  /// peer finds it any more. Its memory lives on while a peer's path may still look at it.
  static Result<std::shared_ptr<Controller>> create(const Environment& environment,
                                                    ControllerSetup setup);
  ~Controller() override;
  /// Called once, when the last handle is gone.
  void set_on_close(std::function<void()> on_close) { on_close_ = std::move(on_close); }

  /// Made by this process's parent, before fork: its threads and links stayed there, and so may
  /// have its locks. Handles of it do nothing here, and their parents are never freed.
  bool inherited() const { return generation_ != host::fork_generation(); }
  Result<void> check_ours() const;

  const DeviceInfo& info() const { return info_; }
  Gid address(std::uint8_t port) const { return ports_[port - 1u].address; }
  Mtu max_mtu(std::uint8_t port) const;
  /// Null: the address is reachable only inside the process, or on this host.
  port::Port* wire(std::uint8_t port) const { return ports_[port - 1u].wire.get(); }
  bool on_network(std::uint8_t port) const { return wire(port) != nullptr; }
  memory::KeyTable& keys() { return keys_; }
  path::Engine& engine() { return engine_; }
  Waiting& waiting() { return waiting_; }
  obs::Counters& counters() { return counters_; }
  AsyncEvents& events() { return events_; }
  MulticastMembers& groups() { return groups_; }
  mad::Gsi& gsi() { return gsi_; }
  RawService& raw() { return raw_; }
  base::Random& random() { return *environment_.random; }

  PdId new_pd() { return PdId(next_pd_.fetch_add(1, std::memory_order_relaxed)); }
  std::uint32_t new_number() { return next_number_.fetch_add(1, std::memory_order_relaxed); }

  struct QueuePairSetup {
    Service service;
    PdId pd;
    memory::Vmm* space;
    queue::CompletionQueue* send_cq;
    queue::CompletionQueue* recv_cq;
    queue::ReceiveQueue* shared_receive;
    QueuePairLimits limits;
    bool signal_all;
    bool extended_initiator = false;
    queue::XrcDomain* xrc_domain = nullptr;
    RawFraming raw_framing = RawFraming::kPacket;
    const queue::ReceiveFanout* fanout = nullptr;
  };
  Result<queue::QueuePair*> create_queue_pair(const QueuePairSetup& setup);
  void destroy_queue_pair(queue::QueuePair& qp);
  std::uint32_t live_queue_pairs() const { return queue_pairs_.live(); }

  Result<void> modify(queue::QueuePair& qp, QpState to, const QueuePairAttributes& attributes,
                      QpAttribute given);
  Result<void> post_send(queue::QueuePair& qp, std::span<const SendRequest> requests,
                         std::size_t* posted);
  /// The fast path of post_send for one request; false: nothing was done. The lock is held all the
  /// time, so it keeps the path where it is.
  static bool fast_post(queue::QueuePair& qp, const SendRequest& request) {
    if (!qp.send_lock.try_enter()) [[unlikely]]
      return fast_post_by_others(qp, request);
    const bool done = fast_post_locked(qp, request);
    qp.send_lock.leave();
    return done;
  }
  Result<void> post_receive(queue::QueuePair& qp, std::span<const ReceiveRequest> requests,
                            std::size_t* posted);

  /// Makes progress on behalf of a program that polls.
  void poll() {
    if (inherited()) [[unlikely]]
      return;
    if (engine_.poll()) [[unlikely]]
      waiting_.give_way();
  }

  /// The fast path of a poll that has found its queue empty: the completion that it waits for, if
  /// there is one. False: poll(), and look again.
  bool receive(const queue::CompletionQueue& cq, Completion* out) {
    return !inherited() && engine_.receive(cq, out);
  }

  // QueuePairTable
  queue::QueuePair* find(Qpn qpn) override { return queue_pairs_.find(qpn); }
  bool owns(Qpn qpn) const override { return queue_pairs_.owns(qpn); }
  bool has_unfetched(Qpn qpn) override;
  bool on_management(const wire::Packet& packet, const network::Flow& flow) override {
    return gsi_.receive(packet, flow, environment_.clock->now());
  }
  std::vector<Qpn> members(const Gid& group) override { return groups_.of(group); }
  queue::QueuePair* peek(Qpn qpn) override { return queue_pairs_.peek(qpn); }
  bool on_context_setup(const wire::Packet& packet, const network::Flow& flow) override;

  /// Of the reliable datagram service; null before its first queue pair.
  path::Contexts* contexts() { return contexts_.load(std::memory_order_acquire); }

 private:
  static bool fast_post_locked(queue::QueuePair& qp, const SendRequest& request) {
    return qp.state.load(std::memory_order_acquire) == QpState::kReadyToSend &&
           qp.path->fast_post(qp, request);
  }
  /// For a thread that the lock is not biased towards.
  static bool fast_post_by_others(queue::QueuePair& qp, const SendRequest& request);
  Controller(const Environment& environment, ControllerSetup setup);

  std::unique_ptr<queue::Path> make_path(queue::QueuePair& qp);
  void reset(queue::QueuePair& qp);
  void join_neighbours();
  /// Makes contexts possible.
  void serve_contexts();
  Result<queue::QueuePair*> make_context_core();
  /// Acknowledgements that wait for company leave now: the peer must not wait for ever.
  void flush_owed_acks(queue::QueuePair& qp);
  /// Of the addresses that are shared with other processes; all ports have the same.
  std::optional<unsigned> number_slot() const;
  /// Waits until nobody works on it, here or in another process. It is not ready any more.
  void drain(queue::QueuePair& qp);

  struct Life;

  Environment environment_;
  const unsigned generation_ = host::fork_generation();
  std::function<void()> on_close_;
  DeviceInfo info_;
  PathPolicy path_policy_;
  const path::ContextSettings context_settings_;
  std::vector<PortSetup> ports_;
  obs::Counters counters_;
  AsyncEvents events_{counters_};
  memory::KeyTable keys_;
  QueuePairPool queue_pairs_;
  std::atomic<std::uint32_t> next_pd_{1};
  std::atomic<std::uint32_t> next_number_{1};
  path::Engine engine_;
  RawService raw_{engine_, *this, counters_};
  Waiting waiting_{engine_};
  queue::Shared shared_;
  std::unique_ptr<path::Neighbours> neighbours_;  ///< null: this process is on its own
  MulticastMembers groups_;
  mad::Gsi gsi_;
  std::mutex contexts_lock_;
  std::unique_ptr<path::Contexts> contexts_owner_;
  std::atomic<path::Contexts*> contexts_{nullptr};
};

}  // namespace weft::verbs
