// What the protocol needs from the world: memory that is registered, and work for a queue pair. The
// driver implements it over libibverbs, the tests over plain memory that knows what is freed and
// revoked. Implementations belong to the driver and outlive the endpoint; called by whichever
// thread drives the endpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/cache.h"
#include "weft/types.h"

namespace weft::channel {

enum class RingUse : std::uint8_t { kSend, kReceive };

/// Registered buffers of one size.
struct Ring {
  std::byte* memory = nullptr;
  std::uint32_t slots = 0, slot_bytes = 0;
  std::uint32_t phase = 0;
  LocalKey local_key;
  RemoteKey remote_key;
  bool registered = false;
  void* handle = nullptr;  ///< the driver's

  bool exists() const { return memory != nullptr; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory); }
  std::byte* slot(std::uint32_t i) const { return memory + std::size_t{i} * slot_bytes; }
  /// The lines of the first slots that small messages meet begin their way to this core.
  enum class Lines : std::uint8_t { kBegins, kEnds };
  void fetch(Lines lines) const {
    constexpr std::uint32_t kMost = 8;
    for (std::uint32_t i = 0; i < slots && i < kMost; ++i) {
      base::fetch_for_write(lines == Lines::kBegins ? slot(i) : slot(i + 1) - 1);
    }
  }
};

/// The peer's ring that a send ring is written to.
struct RemoteRing {
  std::uint64_t address = 0;
  RemoteKey key;
  std::uint32_t slots = 0, slot_bytes = 0;
};

/// Registered memory of another kind: a message that is lent to the peer, or one that is read.
struct Region {
  std::byte* memory = nullptr;
  std::uint64_t length = 0;
  LocalKey local_key;
  RemoteKey remote_key;
  void* handle = nullptr;
  bool window = false;  ///< lent: the remote key works from kBind until kReturn or kInvalidate
  bool closed = false;  ///< one of these has closed it

  bool exists() const { return memory != nullptr; }
};

struct Work {
  enum class Op : std::uint8_t {
    kWrite,
    kRead,
    kBind,        ///< opens the window of a region that is lent: `handle`, `remote_key`
    kInvalidate,  ///< closes it: `remote_key`
    kReturn  ///< a message without bytes, behind all reads: closes the peer's window `remote_key`
  } op = Op::kWrite;
  const std::byte* local = nullptr;
  LocalKey local_key{};
  std::uint32_t length = 0;
  std::uint64_t remote = 0;
  RemoteKey remote_key{};
  bool bell = false;      ///< the peer gets a completion
  bool signaled = false;  ///< this end gets one, which carries `number`
  bool inlined = false;   ///< the bytes are taken before post() returns; they need no key
  std::uint32_t number = 0;
  void* handle = nullptr;
};

/// A frame for a peer that looks by itself: the most frequent work, which goes in registers.
struct FrameKeys {
  LocalKey local;
  RemoteKey remote;
};
struct FrameMark {
  std::uint32_t number;
  bool signaled;
};

class Wires {
 public:
  /// Allocates and registers; no slot of it looks like a frame. Nothing: no memory, or none to
  /// spare for this channel.
  virtual std::optional<Ring> provision(RingUse use, std::uint32_t phase, std::uint32_t slots,
                                        std::uint32_t slot_bytes) = 0;
  /// Its keys stop working before this returns.
  virtual void unregister(Ring& ring) = 0;
  /// Gives the memory back; the ring is unregistered.
  virtual void release(Ring& ring) = 0;
  /// Both, in that order, now or at a quieter time: for a ring that nobody writes to any more.
  virtual void discard(Ring& ring) {
    unregister(ring);
    release(ring);
  }
  /// Grants the peer to read exactly these bytes, at once or with the work kBind.
  virtual std::optional<Region> lend(std::span<const std::byte> bytes) = 0;
  /// Memory to read into.
  virtual std::optional<Region> borrow(std::uint64_t bytes) = 0;
  /// For both of these: keys die first, also one that the peer has not closed.
  virtual void give_back(Region& region) = 0;
  /// False: the queue pair has failed.
  virtual bool post(const Work& work) = 0;
  /// The same for a plain write.
  virtual bool write(const std::byte* from, std::uint32_t length, std::uint64_t remote,
                     FrameKeys keys, FrameMark mark) {
    return post({.local = from,
                 .local_key = keys.local,
                 .length = length,
                 .remote = remote,
                 .remote_key = keys.remote,
                 .signaled = mark.signaled,
                 .number = mark.number});
  }

 protected:
  ~Wires() = default;
};

}  // namespace weft::channel
