#include "verbs/qpn_blocks.h"

#include <mutex>
#include <numeric>

namespace weft::verbs {

QpnBlocks::QpnBlocks(base::Random& random) : random_(random) {
  std::iota(shuffled_.begin(), shuffled_.end(), std::uint16_t{0});
  std::array<std::uint32_t, kSize> drawn;
  random.fill(std::as_writable_bytes(std::span(drawn)));
  for (std::uint32_t i = kSize - 1; i > 0; --i)
    std::swap(shuffled_[i], shuffled_[drawn[i] % (i + 1)]);
  for (std::uint32_t i = 0; i < kSize; ++i)
    unshuffled_[shuffled_[i]] = static_cast<std::uint16_t>(i);
}

Result<std::uint32_t> QpnBlocks::draw_block() {
  for (std::uint32_t attempt = 0; attempt < 16 * kSize; ++attempt) {
    // QP0 and QP1 are for management, the last number is for multicast: their blocks stay unused.
    const std::uint32_t any = random_.draw<std::uint32_t>() % kSize;
    const std::uint32_t block = any - any % slots_ + slot_;
    if (block == 0 || block == kSize - 1) continue;
    if (indices_[block].load(std::memory_order_relaxed) == 0) return block;
  }
  return fail(Errc::kOutOfMemory, "no queue-pair number of this process is left");
}

Result<Qpn> QpnBlocks::number_of(std::uint32_t slot) {
  const std::uint32_t index = slot >> kBits;
  // acquire pairs with the release below: the block is there.
  if (claimed_.load(std::memory_order_acquire) <= index) {
    const std::lock_guard guard(lock_);
    for (std::uint32_t next = claimed_.load(std::memory_order_relaxed); next <= index; ++next) {
      if (next >= kSize - 2) return fail(Errc::kOutOfMemory, "no queue-pair number is left");
      auto block = claim_ ? claim_() : draw_block();
      if (!block) return tl::unexpected(block.error());
      blocks_[next] = static_cast<std::uint16_t>(*block);
      indices_[*block].store(static_cast<std::uint16_t>(next + 1), std::memory_order_release);
      claimed_.store(next + 1, std::memory_order_release);
    }
  }
  return Qpn(std::uint32_t{blocks_[index]} << kBits | shuffled_[slot & (kSize - 1)]);
}

std::uint32_t QpnBlocks::slot_of(Qpn qpn) const {
  if (qpn.value > kMask24) return kNone;
  const std::uint32_t index = indices_[qpn.value >> kBits].load(std::memory_order_acquire);
  if (index == 0) return kNone;
  return (index - 1) << kBits | unshuffled_[qpn.value & (kSize - 1)];
}

}  // namespace weft::verbs
