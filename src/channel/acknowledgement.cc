#include "channel/acknowledgement.h"

#include <array>

namespace weft::channel {
namespace {

constexpr std::size_t kHead = 0, kBody = 4, kCheck = 40, kTail = 44;

/// FNV-1a with a final mix. It guards against torn and damaged writes, not against a liar: what a
/// liar grants is judged by range, and his own queue pair pays for the rest.
std::uint32_t check_code(const std::byte* bytes) {
  std::uint32_t h = 0x811c9dc5;
  for (std::size_t i = kBody; i < kCheck; ++i) {
    h = (h ^ static_cast<std::uint8_t>(bytes[i])) * 0x01000193;
  }
  h ^= h >> 15;
  return h * 0x2c1b3c6d;
}

}  // namespace

void emit(const Acknowledgement& answer, AcknowledgementSlot to) {
  store(&to[kHead], tag_of(answer.sequence));
  store(&to[4], answer.sequence);
  store(&to[8], answer.phase);
  store(&to[12], static_cast<std::uint32_t>(answer.verdict));
  store(&to[16], answer.address);
  store(&to[24], answer.key.value);
  store(&to[28], answer.slots);
  store(&to[32], answer.slot_bytes);
  store(&to[36], answer.retry_after_us);
  store(&to[kCheck], check_code(to.data()));
  store(&to[kTail], tag_of(answer.sequence));
}

void clear_flags(AcknowledgementSlot slot) {
  store(&slot[kHead], std::uint32_t{0});
  store(&slot[kTail], std::uint32_t{0});
}

Found look(AcknowledgementSlot slot, std::uint32_t sequence, Acknowledgement& answer) {
  const std::uint32_t tail = watch32(&slot[kTail]);
  const std::uint32_t head = watch32(&slot[kHead]);
  if (head == 0 && tail == 0) return Found::kNothing;
  // Different flags: an older answer, over which a newer one is being written.
  if (head != tail) return Found::kTorn;
  std::array<std::byte, kAcknowledgementBytes> copy;
  std::memcpy(copy.data(), slot.data(), copy.size());
  answer.sequence = load<std::uint32_t>(&copy[4]);
  if (load<std::uint32_t>(&copy[kCheck]) != check_code(copy.data()) ||
      load<std::uint32_t>(&copy[kHead]) != tag_of(answer.sequence) ||
      load<std::uint32_t>(&copy[kTail]) != tag_of(answer.sequence)) {
    return Found::kCorrupt;
  }
  if (answer.sequence != sequence) return Found::kStale;
  answer.phase = load<std::uint32_t>(&copy[8]);
  answer.verdict = static_cast<Verdict>(load<std::uint32_t>(&copy[12]));
  answer.address = load<std::uint64_t>(&copy[16]);
  answer.key = RemoteKey(load<std::uint32_t>(&copy[24]));
  answer.slots = load<std::uint32_t>(&copy[28]);
  answer.slot_bytes = load<std::uint32_t>(&copy[32]);
  answer.retry_after_us = load<std::uint32_t>(&copy[36]);
  return Found::kAnswer;
}

}  // namespace weft::channel
