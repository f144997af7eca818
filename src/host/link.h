// The two ends of a link between processes of one host: see presence.h. Shared by the presence and
// by the paths that use them; a dead one keeps its memory until the last of them lets go.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/biased_lock.h"
#include "base/lock.h"
#include "host/handshake.h"
#include "host/local_socket.h"
#include "host/process_page.h"
#include "host/public_tables.h"
#include "host/ring.h"

namespace weft::host {

/// Wakes whoever sleeps in the other process, once for each request: by a message on the link's own
/// socket. Nobody else has that, and neither side can make the other wait there. Any thread.
class Doorbell {
 public:
  /// After giving the process something. `fence`: what was given needs one to be seen first.
  void ring(const ProcessView& process, const LocalSocket& socket, bool fence) {
    flight_order(fence);
    const std::uint32_t request = process.wake_request_after_publish();
    if (!has_answered(request)) [[unlikely]] {
      socket.wake();
      // After: whoever finds it here counts on a message that has been sent.
      answered_.store(request, std::memory_order_relaxed);
    }
  }

  /// Whether ring() would wake nobody.
  bool has_answered(std::uint32_t request) const {
    return request == answered_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> answered_{0};
};

/// An initiator in another process, as its target sees it. Constant but for what is said.
struct Inbound {
  LocalSocket socket;
  Fd pidfd;
  ProcessView process;
  RingConsumer ring;       ///< under Presence::receive_lock
  std::uint32_t owed = 0;  ///< lines of records executed and not yet given back; the same lock
  std::uint32_t idle_rounds = 0;  ///< since the last record; the same lock
  std::vector<Gid> addresses;
  std::vector<std::uint32_t> arenas_gone;  ///< to be told; the presence's
  bool fence = false;                      ///< it or we cannot use membarrier
  Doorbell doorbell;
  std::atomic<bool> dead{false};

  /// The process has ended, or has become another program: none of its threads is in the middle of
  /// anything. process.alive() tells earlier, when some may still be inside a system call.
  bool gone() const;
  /// Tells the initiator that its records up to here are done.
  void give_back() {
    owed = 0;
    idle_rounds = 0;
    ring.give_back();
    ring_doorbell();
  }
  /// Wakes the initiator if it asks for it. After giving records back.
  void ring_doorbell() { doorbell.ring(process, socket, fence); }
};

/// A target in another process, as its initiator sees it.
class Outbound {
 public:
  Outbound(LocalSocket socket, RingProducer producer, pid_t pid)
      : ring(std::move(producer)), pid_(pid), socket_(std::move(socket)) {}

  // From the welcome on, constant.
  ProcessView process;
  PublicView tables;
  bool fence = false;  ///< flight words need a fence of our own
  /// Nobody touches the other's memory: the target executes what the ring brings it. Either side
  /// may want it so (settings.h).
  bool owner_checks = false;
  std::atomic<bool> dead{false};
  /// Counts the arenas that came or were taken back: what was remembered of a key is good while it
  /// stands still. A key may be used before its arena has come, by system calls until then. Asked
  /// after a flight word was published.
  std::atomic<std::uint32_t> arenas_changed{0};

  base::BiasedLock lock;  ///< guards the three that follow; below the locks of queue pairs
  RingProducer ring;
  std::vector<void*> waiting;  ///< owners that found the ring full
  /// Records in the ring that somebody waits for, and owners that wait for any of theirs. Changed
  /// under the lock, read without.
  std::atomic<int> awaited{0};
  void await(int more) {
    awaited.store(awaited.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  bool listed = false;  ///< the presence's: it has been in outbound()
  bool lags = false;    ///< multicasts do not wait for it; under the lock

  /// The target has answered and was not seen dead since.
  bool usable() const {
    return welcome_.load(std::memory_order_acquire) && !dead.load(std::memory_order_acquire);
  }
  /// The same, and it lives at this moment.
  bool alive() const { return usable() && process.alive(); }
  bool has(const Gid& gid, std::uint32_t block) const;
  /// The place under which it was called, true before the welcome too.
  bool calls(const Gid& gid, std::uint32_t block) const {
    return block == called_block_ && gid == called_gid_;
  }
  /// Where and as what the presence watches the socket: the target's pidfd joins it there, as a
  /// child may keep the socket of a dead target open.
  void set_watch(int epoll, std::uint64_t id) {
    epoll_ = epoll;
    watched_as_ = id;
  }
  /// No more of it: it is broken, or does not keep to the rules.
  void hang_up();
  void set_called(const Gid& gid, std::uint32_t block) {
    called_gid_ = gid;
    called_block_ = block;
  }
  /// The target asks to be woken, and we have not done so.
  bool wants_wake() const { return !doorbell_.has_answered(process.wake_request()); }
  /// Wakes the target if it asks for it. After publishing.
  void ring_doorbell() { doorbell_.ring(process, socket_, fence); }

  /// Where the arena is in this process; empty when it has not been sent (yet).
  std::span<std::byte> arena(std::uint32_t number);
  /// Takes all arenas back: the target has ended.
  void drop_arenas();
  /// Unmaps those that were taken back, when no thread works on one. False: some does. The helper.
  bool release_arenas(const ProcessPage& page);
  /// How often an arena was taken back, on any link.
  static std::uint64_t arenas_dropped();
  /// Takes what the target sent: the welcome, arenas. Waits only when nothing is there. What wakes
  /// the helper is left to it, with all that lies behind.
  void receive(int timeout_ms);
  /// The same for the helper, which has been woken.
  void serve();
  int socket_fd() const { return socket_.fd(); }
  int pidfd() const { return pidfd_.get(); }

  enum class Direction : std::uint8_t { kRead, kWrite };
  /// Copies between this process (`near`) and the target (`far`), by system call; each list is in
  /// order and adds up to `length`. False: some of it could not be touched; errno tells why.
  bool copy(Direction direction, std::span<const iovec> near, std::span<const iovec> far,
            std::size_t length) const;
  /// The kernel lets us copy at all.
  bool can_copy() const { return !copy_refused_.load(std::memory_order_relaxed); }

 private:
  bool take_next();
  void take(Message message);
  void take_arena(const Handshake& note, Message message);
  void drop_arena(std::uint32_t number);
  void refuse_copies(const char* call, int error) const;

  Gid called_gid_;
  std::uint32_t called_block_ = 0;
  int epoll_ = -1;
  std::uint64_t watched_as_ = 0;
  pid_t pid_;  ///< 0: not visible from here
  LocalSocket socket_;
  Fd pidfd_;
  Doorbell doorbell_;
  std::vector<Gid> addresses_;
  std::atomic<bool> welcome_{false};
  mutable std::atomic<bool> copy_refused_{false};
  base::Lock socket_lock_;
  base::Lock arena_lock_;
  std::unordered_map<std::uint32_t, SharedMemory> arenas_;
  std::vector<SharedMemory> dropped_;  ///< not found any more, but perhaps in use; the same lock
};

}  // namespace weft::host
