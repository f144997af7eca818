#include "target/remote_access.h"

#include "memory/copy.h"
#include "memory/flight.h"

namespace weft::target {

tl::expected<memory::Place, memory::AccessError> open(const queue::QueuePair& qp,
                                                      const RemoteRange& range) {
  if (!serves(qp, range.need)) return tl::unexpected(memory::AccessError::kNoRights);
  memory::KeyTable& keys = *qp.shared->keys;
  memory::RemoteAccess access{qp.pd,      qp.qpn,   range.address, range.request_bytes,
                              range.need, range.use};
  if (range.bytes < range.request_bytes) {
    if (const auto whole = keys.check_remote(range.key, access); !whole) return whole;
    access.length = range.bytes;
  }
  return keys.check_remote(range.key, access);
}

namespace {

bool is_there(queue::QueuePair& qp, memory::Fault fault) {
  if (fault == memory::Fault::kNone) [[likely]]
    return true;
  qp.count(obs::Counter::kVanishedMemory);
  return false;
}

tl::expected<std::uint64_t, memory::Fault> touch(memory::Place at, const AtomicRequest& request) {
  switch (request.op) {
    case SendOp::kCompareSwap:
      return memory::compare_swap(at, request.compare, request.operand);
    case SendOp::kFetchAdd:
      return memory::fetch_add(at, request.operand);
    default: {
      const memory::Fault fault = memory::store_word(at, request.operand);
      if (fault != memory::Fault::kNone) return tl::unexpected(fault);
      return 0;
    }
  }
}

}  // namespace

bool store(queue::QueuePair& qp, memory::Place to, std::span<const std::byte> bytes) {
  return is_there(qp, memory::store(to, bytes));
}

bool load(queue::QueuePair& qp, std::span<std::byte> bytes, memory::Place from) {
  return is_there(qp, memory::load(bytes, from));
}

tl::expected<std::uint64_t, Refusal> execute(queue::QueuePair& qp, const AtomicRequest& request,
                                             std::uint64_t use) {
  constexpr std::uint64_t kWord = 8;
  if (request.address % kWord != 0) return tl::unexpected(Refusal::kInvalid);
  const memory::Flight::Adopted<memory::Hold::kRemote> flight;
  const auto at = open(qp, {request.key, request.address, kWord, kWord, need_of(request.op), use});
  if (!at) return tl::unexpected(Refusal::kAccess);
  const auto original = touch(*at, request);
  if (!is_there(qp, original ? memory::Fault::kNone : original.error())) {
    return tl::unexpected(Refusal::kAccess);
  }
  return *original;
}

}  // namespace weft::target
