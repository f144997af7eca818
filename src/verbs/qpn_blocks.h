// Queue-pair numbers for the slots of a controller: blocks of 4096, claimed as they are needed so
// that no two processes with the same address have the same number, and in random order inside a
// block, so that one number says little about the next. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/lock.h"
#include "base/random.h"
#include "host/number_blocks.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::verbs {

class QpnBlocks {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  using Claim = std::function<Result<std::uint32_t>()>;

  /// Without a claim, blocks are drawn at random: the controller has its address for itself.
  explicit QpnBlocks(base::Random& random);
  void set_claim(Claim claim) { claim_ = std::move(claim); }
  /// Only the blocks n, n + `slots`, ...: the others of the address belong to other processes.
  void set_slot(std::uint32_t n, std::uint32_t slots) {
    slot_ = n;
    slots_ = slots;
  }

  /// Claims a block if the slot's has none yet.
  Result<Qpn> number_of(std::uint32_t slot);
  /// kNone: not one of ours.
  std::uint32_t slot_of(Qpn qpn) const;

 private:
  static constexpr unsigned kBits = host::kBlockBits;
  static constexpr std::uint32_t kSize = host::kBlockSize;

  Result<std::uint32_t> draw_block();

  base::Random& random_;
  Claim claim_;
  std::uint32_t slot_ = 0, slots_ = 1;
  std::array<std::uint16_t, kSize> shuffled_, unshuffled_;
  base::Lock lock_;
  std::atomic<std::uint32_t> claimed_{0};
  std::array<std::uint16_t, kSize> blocks_{};                ///< by slot >> 12; set before claimed_
  std::array<std::atomic<std::uint16_t>, kSize> indices_{};  ///< by block; plus 1
};

}  // namespace weft::verbs
