#include "host/public_tables.h"

#include <algorithm>
#include <mutex>

#include "host/arena_registry.h"

namespace weft::host {
namespace {

/// Keys get their pages in stretches of this many.
constexpr std::uint32_t kKeysPerStretch = 1024;

}  // namespace

Result<std::unique_ptr<PublicTables>> PublicTables::create(std::uint32_t tag,
                                                           const base::Permutation24& hidden) {
  auto memory = SharedMemory::create("weft-controller", PublicLayout::kBytes, sizeof(PublicLayout),
                                     SharedMemory::Peers::kRead);
  if (!memory) return tl::unexpected(memory.error());
  auto tables = std::make_unique<PublicTables>();
  tables->memory_ = std::move(*memory);
  PublicLayout& layout = tables->layout();
  layout.tag = tag;
  layout.hidden = hidden.secret();
  layout.magic = PublicLayout::kMagic;
  return tables;
}

bool PublicTables::add_block(std::uint32_t block) {
  const std::uint32_t index = layout().block_count.load(std::memory_order_relaxed);
  if (index >= kMaxBlocks) return false;
  if (!memory_.reserve(PublicLayout::kQueuePairsAt + index * PublicLayout::kBlockBytes,
                       PublicLayout::kBlockBytes)) {
    return false;
  }
  layout().blocks[index] = static_cast<std::uint16_t>(block);
  index_of_block_[block] = static_cast<std::uint16_t>(index + 1);
  // release pairs with the acquire in index_of().
  layout().block_count.store(index + 1, std::memory_order_release);
  return true;
}

PublicQueuePair* PublicTables::queue_pair(Qpn qpn) const {
  const std::uint32_t index = index_of_block_[qpn.value >> kBlockBits & (kBlockSize - 1)];
  if (index == 0) return nullptr;
  auto* block = reinterpret_cast<PublicQueuePair*>(memory_.data() + PublicLayout::kQueuePairsAt +
                                                   (index - 1) * PublicLayout::kBlockBytes);
  return &block[qpn.value & (kBlockSize - 1)];
}

bool PublicTables::prepare_key(std::uint32_t slot) {
  if (slot >= PublicLayout::kMaxKeys) return false;
  while (slot >= keys_with_pages_) {
    if (!memory_.reserve(PublicLayout::kKeysAt + keys_with_pages_ * sizeof(PublicKey),
                         kKeysPerStretch * sizeof(PublicKey))) {
      return false;
    }
    keys_with_pages_ += kKeysPerStretch;
    layout().key_count.store(keys_with_pages_, std::memory_order_relaxed);
  }
  return true;
}

std::uint32_t PublicTables::show_key(std::uint32_t slot, const memory::KeyTable::Entry& entry) {
  using memory::KeyEntry;
  PublicKey& shown = key(slot);
  const std::uint32_t control = entry.control.load(std::memory_order_relaxed);
  const bool live = (control & KeyEntry::kRemoteLive) != 0 && entry.vmm->identity();
  if (!live) {
    // Whoever revokes goes on with presence's drain, which orders this.
    shown.control.store(control & ~KeyEntry::kRemoteLive, std::memory_order_relaxed);
    shown.version.fetch_add(1, std::memory_order_release);
    return 0;
  }
  const ArenaPlace place = find_in_arena(reinterpret_cast<const void*>(entry.target), entry.length);
  shown.pd = entry.pd;
  shown.access = entry.access;
  shown.base = entry.base;
  shown.length = entry.length;
  shown.target = entry.target;
  shown.qpn = entry.qpn;
  change_arena(shown, place.arena);
  shown.arena_offset = place.offset;
  shown.version.fetch_add(1, std::memory_order_release);
  // release pairs with the acquire of the initiator's check.
  shown.control.store(control, std::memory_order_release);
  return place.arena;
}

void PublicTables::forget_arena(std::uint32_t slot) { change_arena(key(slot), 0); }

// The arena that a key names is held for it.
void PublicTables::change_arena(PublicKey& shown, std::uint32_t arena) {
  const std::lock_guard guard(arena_lock_);
  const std::uint32_t before = shown.arena;
  if (before == arena) return;
  if (arena != 0) {
    HeldArena& held = arenas_[arena];
    if (held.keys++ == 0) held.arena = hold_arena(arena);
  }
  shown.arena = arena;
  if (before == 0) return;
  // On old kernels a neighbour could have written there.
  const auto at = arenas_.find(before);
  if (at != arenas_.end() && --at->second.keys == 0) arenas_.erase(at);
}

Result<PublicView> PublicView::receive(StrangeFd fd) {
  auto memory = SharedMemory::receive(std::move(fd), PublicLayout::kBytes, PublicLayout::kBytes,
                                      SharedMemory::Peers::kRead);
  if (!memory) return tl::unexpected(memory.error());
  memory->close_fd();
  PublicView view;
  view.memory_ = std::move(*memory);
  if (view.layout().magic != PublicLayout::kMagic) {
    return fail(Errc::kInvalidArgument, "controller's tables: another layout");
  }
  return view;
}

std::uint32_t PublicView::index_of(std::uint32_t block) const {
  const std::uint32_t count =
      std::min(layout().block_count.load(std::memory_order_acquire), kMaxBlocks);
  const auto& blocks = layout().blocks;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (blocks[i] == block) return i;
  }
  return kMaxBlocks;
}

const PublicQueuePair* PublicView::queue_pair(Qpn qpn) const {
  const std::uint32_t index = index_of(qpn.value >> kBlockBits);
  if (index >= kMaxBlocks) return nullptr;
  const auto* block = reinterpret_cast<const PublicQueuePair*>(
      memory_.data() + PublicLayout::kQueuePairsAt + index * PublicLayout::kBlockBytes);
  return &block[qpn.value & (kBlockSize - 1)];
}

const PublicKey* PublicView::key(RemoteKey rkey, std::uint32_t* slot) const {
  *slot = base::Permutation24::backward_through(layout().hidden, rkey.value >> 8);
  // A slot without pages would get one by being looked at.
  const std::uint32_t count = layout().key_count.load(std::memory_order_relaxed);
  if (*slot >= std::min(count, PublicLayout::kMaxKeys)) return nullptr;
  return reinterpret_cast<const PublicKey*>(memory_.data() + PublicLayout::kKeysAt) + *slot;
}

}  // namespace weft::host
