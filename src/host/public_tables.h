// What a controller shows to its neighbours on the host, read-only for them: its queue pairs (is it
// ready, with whom is it connected, what does it allow) and its keys (which bytes, which rights),
// so that an initiator can check by itself what it may touch. The owner writes fields first and the
// word that makes them valid last (release); it takes the word back first, and waits for those who
// work under it (presence.h) before it changes the fields. One memfd: address space for all, pages
// for what is used. The reader copies an entry once and believes nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/lock.h"
#include "base/permutation24.h"
#include "host/number_blocks.h"
#include "host/shared_memory.h"
#include "memory/key_table.h"
#include "weft/types.h"

namespace weft::host {

class ArenaObject;

inline constexpr std::uint32_t kMaxBlocks = 256;  ///< of queue-pair numbers

struct PublicQueuePair {
  std::atomic<std::uint64_t> word;  ///< epoch << 1, and 1 while it can receive
  std::uint64_t remote_gid;         ///< hash of the address that it is connected to
  std::uint32_t remote_qpn;
  std::uint32_t pd;
  std::uint32_t access;  ///< what it lets its peer do; none for an I/O adapter
  std::uint8_t service;
  std::uint8_t rnr_timer;
  std::uint16_t unused;

  bool ready() const { return (word.load(std::memory_order_acquire) & 1) != 0; }
};
static_assert(sizeof(PublicQueuePair) == 32);

/// A key as its owner shows it: live only if it is remote. The address in `target` is the owner's.
struct alignas(64) PublicKey : memory::KeyEntry {
  std::uint32_t arena;         ///< 0: not in an arena
  std::uint64_t arena_offset;  ///< of the first byte
};
static_assert(sizeof(PublicKey) == 64);

struct PublicLayout {
  static constexpr std::uint64_t kMagic = 0x3362'7570'7466'6577;
  std::uint64_t magic;
  std::uint32_t tag;  ///< names the controller in flight words
  std::atomic<std::uint32_t> block_count;
  std::atomic<std::uint32_t> key_count;  ///< slots that have pages
  std::array<std::uint16_t, kMaxBlocks> blocks;
  base::Permutation24::Secret hidden;

  static constexpr std::size_t kQueuePairsAt = 64 * 1024;
  static constexpr std::size_t kBlockBytes = kBlockSize * sizeof(PublicQueuePair);
  static constexpr std::size_t kKeysAt = kQueuePairsAt + kMaxBlocks * kBlockBytes;
  static constexpr std::uint32_t kMaxKeys = 1u << 20;
  static constexpr std::size_t kBytes = kKeysAt + kMaxKeys * sizeof(PublicKey);
};
static_assert(sizeof(PublicLayout) <= PublicLayout::kQueuePairsAt);

class PublicTables {
 public:
  static Result<std::unique_ptr<PublicTables>> create(std::uint32_t tag,
                                                      const base::Permutation24& hidden);
  int fd() const { return memory_.fd(); }
  std::uint32_t tag() const { return layout().tag; }

  /// The next 4096 queue-pair numbers; false when there is no memory or no room for them.
  bool add_block(std::uint32_t block);
  /// nullptr: not shown to neighbours.
  PublicQueuePair* queue_pair(Qpn qpn) const;
  /// Number of a queue pair in flight words.
  static std::uint32_t flight_number(Qpn qpn) { return qpn.value & kMask24; }

  bool prepare_key(std::uint32_t slot);
  /// The arena that the memory lies in, or 0.
  std::uint32_t show_key(std::uint32_t slot, const memory::KeyTable::Entry& entry);
  /// The key is dead, and nobody works under it any more: its memory may go.
  void forget_arena(std::uint32_t slot);

 private:
  PublicLayout& layout() const { return *reinterpret_cast<PublicLayout*>(memory_.data()); }
  PublicKey& key(std::uint32_t slot) const {
    return reinterpret_cast<PublicKey*>(memory_.data() + PublicLayout::kKeysAt)[slot];
  }
  void change_arena(PublicKey& shown, std::uint32_t arena);

  SharedMemory memory_;
  std::uint32_t keys_with_pages_ = 0;
  std::array<std::uint16_t, 1u << (24 - kBlockBits)> index_of_block_{};  ///< plus 1; 0: not ours
  base::Lock arena_lock_;
  struct HeldArena {
    std::shared_ptr<ArenaObject> arena;
    std::uint32_t keys = 0;  ///< those that lie in it: few arenas have many
  };
  std::unordered_map<std::uint32_t, HeldArena> arenas_;
};

/// The same as its neighbours see it. Constant but for what its owner changes; any thread.
class PublicView {
 public:
  static Result<PublicView> receive(StrangeFd fd);

  std::uint32_t tag() const { return layout().tag; }
  /// nullptr: no such queue pair there.
  const PublicQueuePair* queue_pair(Qpn qpn) const;
  bool has_block(std::uint32_t block) const { return index_of(block) < kMaxBlocks; }
  /// The entry that the key would have; tag and all else are still to be checked.
  const PublicKey* key(RemoteKey rkey, std::uint32_t* slot) const;

 private:
  const PublicLayout& layout() const {
    return *reinterpret_cast<const PublicLayout*>(memory_.data());
  }
  std::uint32_t index_of(std::uint32_t block) const;
  SharedMemory memory_;
};

}  // namespace weft::host
