// What must be refused: requests that a key, a range, a right or an address does not allow.
#include <algorithm>
#include <optional>
#include <utility>

#include "worlds/posting.h"

namespace weft::worlds {
namespace {

enum class Offence : std::uint8_t {
  kWrongTag,        ///< the right slot under another tag
  kBeyondTheEnd,    ///< one byte too far
  kBeforeTheStart,  ///< one byte too early
  kWrapsAround,     ///< past the end of the address space
  kAtomicsOnly,     ///< memory that only atomics may touch
  kNobodyElses,     ///< memory without any remote right
  kReadOnly,        ///< writing under a key that allows reading
  kSpentKey,        ///< a one-shot key for the second time
  kTowardsAdapter,  ///< right in itself, but an I/O adapter serves no RDMA
};
constexpr std::uint64_t kOffences = 9;

/// A live key of the peer's, if it has one of the kind.
template <class Is>
std::optional<RemoteAddress> key_that(const End& owner, std::uint32_t& length, Is is) {
  for (const auto& exposure : owner.exposures) {
    if (!exposure->offered || exposure->revoked || !is(*exposure)) continue;
    length = std::min(length, exposure->length);
    return RemoteAddress{exposure->address, exposure->key};
  }
  return {};
}

/// Where the offence leads; it may shorten the length.
std::optional<RemoteAddress> forbidden_place(End& from, Offence offence, std::uint32_t& length) {
  sim::Stage& stage = from.stage;
  const End& to = *from.peer;
  const verbs::MemoryRegion& shelf = *to.shelf_region;
  RemoteAddress place = shelf.remote(stage.random.below(to.shelf_half - length + 1));
  switch (offence) {
    case Offence::kWrongTag:
      place.key.value ^= static_cast<std::uint32_t>(stage.between(1, 255));
      return place;
    case Offence::kBeyondTheEnd:
      return shelf.remote(to.shelf_half - length + 1);
    case Offence::kBeforeTheStart:
      place.address = shelf.address() - 1;
      return place;
    case Offence::kWrapsAround:
      place.address = ~std::uint64_t{0} - stage.random.below(length);
      return place;
    case Offence::kAtomicsOnly:
      length = std::min(length, 8u);
      return to.process().word_regions[to.where.card].remote();
    case Offence::kNobodyElses:
      return to.annex_region->remote();
    case Offence::kReadOnly:
      return key_that(to, length, [](const Exposure& key) { return !key.writable; });
    case Offence::kSpentKey:
      // An unreliable first use may have been lost, and then the second is the first.
      if (!from.reliable()) return {};
      return key_that(to, length, [](const Exposure& key) { return key.spent; });
    case Offence::kTowardsAdapter:
      if (peer_serves_rdma(from)) return {};
      return place;
  }
  return {};
}

/// On a reliable connection it must end in an error, on an unreliable one in silence, and in both
/// cases without a byte changed.
bool post_forbidden_rdma(End& from) {
  sim::Stage& stage = from.stage;
  if (!from.peer->present()) return false;
  const auto offence = static_cast<Offence>(stage.random.below(kOffences));
  Work work;
  work.length = static_cast<std::uint32_t>(stage.between(1, from.spec.slot_bytes));
  const auto place = forbidden_place(from, offence, work.length);
  if (!place) return false;
  SendRequest request;
  request.remote = *place;
  std::vector<Sge> sges;
  if (from.reliable() && offence != Offence::kReadOnly && stage.one_in(3)) {
    request.op = SendOp::kRead;
    work.landing_slot = from.landing.take();
    if (work.landing_slot < 0) return false;
    sges = land(from, work);
  } else {
    request.op = SendOp::kWrite;
    work.outbox_slot = from.outbox.take();
    if (work.outbox_slot < 0) return false;
    const std::vector<std::byte> content(work.length, std::byte{0xBD});
    sges = gather(from, work, content);
  }
  request.sges = sges;
  if (from.reliable()) work.expected = CompletionStatus::kRemoteAccessError;
  post(from, request, std::move(work));
  return true;
}

bool post_misaligned_atomic(End& from) {
  if (!from.peer->present() || !from.reliable()) return false;
  Work work;
  work.landing_slot = from.landing.take();
  if (work.landing_slot < 0) return false;
  work.length = 8;
  const verbs::MemoryRegion& words = from.peer->process().word_regions[from.peer->where.card];
  SendRequest request;
  request.op = SendOp::kFetchAdd;
  request.operand = 1;
  request.remote = words.remote();
  request.remote.address += from.stage.between(1, 7);
  work.expected = CompletionStatus::kRemoteInvalidRequest;
  const std::vector<Sge> sges = land(from, work);
  request.sges = sges;
  post(from, request, std::move(work));
  return true;
}

bool post_bad_gather(End& from) {
  Work work;
  work.outbox_slot = from.outbox.take();
  if (work.outbox_slot < 0) return false;
  work.length = 16;
  work.expected = CompletionStatus::kLocalProtectionError;
  Sge sge = from.outbox.sge(from.outbox.at(work.outbox_slot), work.length);
  sge.lkey.value ^= static_cast<std::uint32_t>(from.stage.between(1, 255));
  SendRequest request;
  request.sges = {&sge, 1};
  post(from, request, std::move(work));
  return true;
}

}  // namespace

bool post_mischief(End& from) {
  switch (from.stage.random.below(8)) {
    case 0:
      return post_misaligned_atomic(from);
    case 1:
      return post_bad_gather(from);
    case 2:
      return from.reliable() && post_message(from, SendOp::kSend, true);
    default:
      return post_forbidden_rdma(from);
  }
}

}  // namespace weft::worlds
