// The answer to a control message, as it is RDMA-written into the sender's control block (A8):
//
//    0  head flag          12  verdict        24  key           36  retry after, microseconds
//    4  sequence           16  address        28  slots         40  check code of 4 to 39
//    8  phase                                 32  slot bytes    44  tail flag
//
// Head and tail are set to the sequence's tag; both are cleared before each control message.
// Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "channel/layout.h"

namespace weft::channel {

enum class Verdict : std::uint32_t { kGranted = 1, kRefused = 2, kPostponed = 3 };

struct Acknowledgement {
  std::uint32_t sequence = 0;
  std::uint32_t phase = 0;
  Verdict verdict = Verdict::kRefused;
  std::uint64_t address = 0;
  RemoteKey key;
  std::uint32_t slots = 0;
  std::uint32_t slot_bytes = 0;
  std::uint32_t retry_after_us = 0;
};

/// What the sender finds when it looks into the slot.
enum class Found { kNothing, kTorn, kCorrupt, kStale, kAnswer };

using AcknowledgementSlot = std::span<std::byte, kAcknowledgementBytes>;

void emit(const Acknowledgement& answer, AcknowledgementSlot to);
void clear_flags(AcknowledgementSlot slot);
/// Copies the slot once and judges the copy. kStale: well-formed, but for another sequence.
Found look(AcknowledgementSlot slot, std::uint32_t sequence, Acknowledgement& answer);

}  // namespace weft::channel
