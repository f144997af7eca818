// The end-to-end contexts of one controller: finds the one to a peer, makes it at first use, and
// answers peers who make one to us. Any thread; no lock of a queue pair is held, unless a function
// says so.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/lock.h"
#include "base/number_map.h"
#include "base/random.h"
#include "obs/counters.h"
#include "path/context.h"
#include "path/directory.h"
#include "port/port.h"
#include "queue/path.h"
#include "queue/queue_pair.h"
#include "transport/guess_limit.h"
#include "weft/result.h"

namespace weft::path {

struct ContextSettings {
  std::uint32_t most = 1u << 17;  ///< in use at once: `max_ee`
  bool windowed = true;           ///< several messages may be outstanding, if the peer agrees
  Nanoseconds idle_ns = 30'000'000'000;
};

class Contexts {
 public:
  /// Gives a queue pair with a number and without anything else, for a context; it is never given
  /// back.
  using MakeCore = std::function<Result<queue::QueuePair*>()>;
  /// The port behind an address of ours; null: it is on no network.
  using FindPort = std::function<port::Port*(const Gid& local)>;

  Contexts(QueuePairTable& table, queue::Scheduler& scheduler, base::Random& random,
           obs::Counters& counters, MakeCore make_core, FindPort find_port)
      : table_(table),
        scheduler_(scheduler),
        random_(random),
        counters_(counters),
        make_core_(std::move(make_core)),
        find_port_(std::move(find_port)) {}
  ~Contexts();

  void set(const ContextSettings& settings) { settings_ = settings; }
  const ContextSettings& settings() const { return settings_; }

  /// The context to the endnode that has this queue pair; null: there is none yet. The send_lock of
  /// a queue pair may be held.
  Context* find(const Gid& local, const Gid& remote, Qpn qpn);
  /// The same, made if need be, for a queue pair with these settings. Null: there is no room for
  /// more, or no memory.
  Context* open(const Gid& local, const Gid& remote, Qpn qpn, const QueuePairAttributes& like);
  /// A frame for context 0.
  void on_setup(const wire::Packet& packet, const network::Flow& flow);
  /// Sends what it has to send.
  static void advance(Context& context);
  /// A queue pair is about to end: peers are told of all that was taken.
  void acknowledge_all();

  struct Size {
    std::uint32_t in_use = 0, made = 0;
  };
  Size size() const;

 private:
  friend class Context;

  /// An endnode is a process: one address of it, and the block that a number is from.
  struct Peer {
    Gid local, remote;
    std::uint32_t block;
    bool operator==(const Peer&) const = default;
  };
  struct PeerHash {
    std::size_t operator()(const Peer& peer) const {
      return std::hash<Gid>()(peer.remote) ^ (std::hash<Gid>()(peer.local) << 1) ^
             (std::size_t{peer.block} * 0x9E3779B9);
    }
  };
  using Map = std::unordered_map<Peer, Context*, PeerHash>;
  static Peer way_to(const Context& context);
  static void erase(Map& map, const Peer& peer, const Context& context);
  static Peer peer_of(const Gid& local, const Gid& remote, std::uint32_t number);

  /// One that nobody uses.
  Context* acquire(const Gid& local);
  void give_back(Context& context);
  /// Nobody finds it any more.
  void forget(Context& context);
  /// No message takes it any more; or again, if there is no other to that peer.
  void stop_sending(Context& context);
  void send_by(Context& context);
  /// A peer asks for one more context. False: it does so too often.
  bool may_accept(const Gid& from);
  static Nanoseconds patience_of(const QueuePairAttributes& attributes);
  /// Both locks of the context are held, and nobody else knows it yet.
  void set_up(Context& context, Context::Phase phase, const Gid& remote,
              const QueuePairAttributes& like);
  /// It was set up, and is not needed.
  void discard(Context& context);
  /// The one that a peer means; null: there is none of that name with that peer.
  Context* named(EecNumber number, std::uint64_t name, const network::Flow& flow);
  void on_request(const wire::RdSetup& setup, EecNumber from, const network::Flow& flow);
  Context* accept(const wire::RdSetup& setup, EecNumber from, const network::Flow& flow);
  void on_reply(Context& context, const wire::RdSetup& setup, EecNumber from);
  void reply_by_itself(const wire::RdSetup& setup, wire::RdSetupKind kind, EecNumber from,
                       const network::Flow& flow);

  QueuePairTable& table_;
  queue::Scheduler& scheduler_;
  base::Random& random_;
  obs::Counters& counters_;
  const MakeCore make_core_;
  const FindPort find_port_;
  ContextSettings settings_;

  mutable base::Lock lock_;
  Map sending_;   ///< the one that messages to a peer take
  Map incoming_;  ///< those that a peer has asked for, by its context's number
  std::vector<std::unique_ptr<Context>> all_;
  base::NumberMap<Context> by_number_;  ///< the same
  struct Resting {
    Context* context;
    Nanoseconds since;
  };
  std::deque<Resting> resting_;  ///< in nobody's use
  std::uint32_t in_use_ = 0;
  std::array<transport::RequestLimit, 64> limits_;  ///< by address, more or less
};

}  // namespace weft::path
