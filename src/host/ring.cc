#include "host/ring.h"

#include <bit>
#include <utility>

#include "base/assert.h"
#include "base/random.h"

namespace weft::host {
namespace {
/// Records of the ring's own that are skipped in one call: an honest producer puts two in a row.
constexpr int kOwnAtOnce = 4;
}  // namespace

Result<RingProducer> RingProducer::create() {
  auto memory =
      SharedMemory::create("weft-ring", kRingMemoryBytes, kRingControlBytes + kFirstRingBytes,
                           SharedMemory::Peers::kWrite);
  if (!memory) return tl::unexpected(memory.error());
  RingProducer ring;
  ring.memory_ = std::move(*memory);
  ring.secret_ = base::system_random().draw<std::uint64_t>();
  ring.control()->secret = ring.secret_;
  ring.pending_.resize(kFirstRingBytes / kLine);
  return ring;
}

Record* RingProducer::reserve_slowly(std::uint32_t lines) {
  WEFT_ASSERT(lines <= lines_for(max_payload()));
  if (wants_to_grow_) [[unlikely]] {
    if (!empty()) return nullptr;  // the consumer catches up once, then the ring is larger
    grow();
  }
  const auto to_end = static_cast<std::uint32_t>(size_ - (tail_ & (size_ - 1))) / kLine;
  if (lines > to_end) {
    if (!has_room(std::uint64_t{to_end} + lines)) return full();
    RecordHeader pad;
    pad.kind = static_cast<std::uint8_t>(RecordKind::kPad);
    put(to_end, pad, {nullptr, 0});
  } else if (!has_room(lines)) {
    return full();
  }
  find_room();
  reserved_lines_ = lines;
  return at(tail_);
}

/// Up to the end of the memory, or as far as the consumer has given back.
void RingProducer::find_room() {
  const std::uint64_t to_end = size_ - (tail_ & (size_ - 1));
  free_until_ = std::min(tail_ + to_end, collected_ + window_);
}

Record* RingProducer::full() {
  free_until_ = tail_;
  // While a growth is not yet consumed, that is all that is missing.
  wants_to_grow_ = size_ < kMaxRingBytes && window_ == size_;
  return nullptr;
}

// Everything before was given back, so the two geometries share no record but this one; until it is
// consumed, no more is written than fits in both.
void RingProducer::grow() {
  wants_to_grow_ = false;
  const std::uint32_t larger = size_ * 4 <= kMaxRingBytes ? size_ * 4 : kMaxRingBytes;
  if (!memory_.reserve(kRingControlBytes + size_, larger - size_)) return;
  std::vector<Pending> pending(larger / kLine);
  pending_.swap(pending);
  pending_first_ = 0;
  WEFT_ASSERT(pending_count_ == 0);
  RecordHeader header;
  header.kind = static_cast<std::uint8_t>(RecordKind::kGrow);
  header.immediate = larger;
  grown_at_ = tail_;
  window_ = size_;
  put(1, header, {nullptr, 0});
  size_ = larger;
}

bool RingProducer::peek(Answered* out) {
  if (broken_) return false;
  if (collected_ == returned_) {
    // acquire pairs with the release in give_back(): the answers are there.
    const std::uint64_t head = control()->head.load(std::memory_order_acquire);
    if (head - collected_ > tail_ - collected_) {
      broken_ = true;
      return false;
    }
    returned_ = head;
    if (collected_ == returned_) return false;
  }
  const Pending& pending = pending_at(0);
  if (pending.lines * std::uint64_t{kLine} > returned_ - collected_) {
    broken_ = true;  // in the middle of a record
    return false;
  }
  *out = {pending.owner,    pending.cookie,  pending.lines,
          pending.messages, pending.awaited, at(collected_)};
  return true;
}

std::uint8_t RingProducer::pop_followers(const Answered& first, std::uint8_t most) {
  if (first.lines != 1) return 0;
  std::uint8_t count = 0;
  const std::uint64_t given_back = (returned_ - collected_) / kLine;
  while (count < most && count + 1u < given_back) {
    const Pending& next = pending_at(count + 1u);
    const Record* record = at(collected_ + (count + 1u) * kLine);
    if (next.owner != first.owner || next.cookie != first.cookie + count + 1 || next.lines != 1 ||
        next.messages != 1 || next.awaited ||
        __atomic_load_n(&record->status, __ATOMIC_RELAXED) != 0) {
      break;
    }
    ++count;
  }
  // The first of them takes the place of the last, which pop() takes out.
  collected_ += std::uint64_t{count} * kLine;
  pending_first_ = (pending_first_ + count) & (pending_.size() - 1);
  pending_count_ -= count;
  return count;
}

void RingProducer::pop() {
  const Pending& pending = pending_at(0);
  if (window_ != size_ && collected_ >= grown_at_) window_ = size_;
  collected_ += std::uint64_t{pending.lines} * kLine;
  pending_first_ = (pending_first_ + 1) & (pending_.size() - 1);
  --pending_count_;
}

void RingProducer::forget(const void* owner) {
  for (std::size_t i = 0; i < pending_count_; ++i) {
    Pending& pending = pending_at(i);
    if (pending.owner == owner) pending.owner = nullptr;
  }
}

/// The header has been read: that of a record of the ring's own, or one that makes no sense.
bool RingConsumer::take_behind_own(Taken* out) {
  for (int i = 0; i < kOwnAtOnce && !broken_; ++i) {
    if (!fits(out->header)) {
      broken_ = true;
    } else if (is_users(out->header)) {
      accept(*out);
      return true;
    } else {
      broken_ = !skip_own(out->header);
      if (broken_ || !ready()) return false;
      read_header(out);
    }
  }
  return false;
}

/// False: it makes no sense.
bool RingConsumer::skip_own(const RecordHeader& header) {
  position_ += std::uint64_t{header.lines} * kLine;
  if (header.kind == static_cast<std::uint8_t>(RecordKind::kGrow)) {
    if (header.immediate <= size_ || header.immediate > kMaxRingBytes ||
        !std::has_single_bit(header.immediate)) {
      return false;
    }
    size_ = header.immediate;
  }
  give_back();  // nobody else will
  return true;
}

void RingConsumer::give_back() {
  auto* control = reinterpret_cast<RingControl*>(memory_.data());
  // release: whatever was written into the records comes first.
  control->head.store(position_, std::memory_order_release);
  awaited_ = false;
}

}  // namespace weft::host
