#include "queue/scatter.h"

#include "memory/copy.h"
#include "queue/sge_list.h"

namespace weft::queue {
namespace {

/// The part of a list that one element describes; `vanished` tells whether its memory has gone.
CompletionStatus scatter_part(QueuePair& qp, const Sge& sge, std::uint64_t at,
                              std::span<const std::byte> bytes, memory::Hold hold, bool& vanished) {
  const auto place = qp.shared->keys->check_local(sge.lkey, qp.pd, sge.address + at, bytes.size(),
                                                  memory::Intent::kWrite, hold);
  if (!place) [[unlikely]]
    return CompletionStatus::kLocalProtectionError;
  vanished = memory::store(*place, bytes) != memory::Fault::kNone;
  return vanished ? CompletionStatus::kLocalProtectionError : CompletionStatus::kSuccess;
}

inline CompletionStatus scatter_list(QueuePair& qp, std::span<const Sge> sges, std::uint64_t offset,
                                     std::span<const std::byte> bytes, memory::Hold hold,
                                     bool& vanished) {
  if (bytes.empty()) return CompletionStatus::kSuccess;
  CompletionStatus status = CompletionStatus::kSuccess;
  if (!sges.empty() && offset + bytes.size() <= sges.front().length) [[likely]] {
    status = scatter_part(qp, sges.front(), offset, bytes, hold, vanished);
  } else {
    status = for_each_part(
        sges, offset, bytes.size(),
        [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t done) {
          return scatter_part(qp, sge, at, bytes.subspan(done, part), hold, vanished);
        });
  }
  memory::Flight::clear(hold);
  return status;
}

}  // namespace

CompletionStatus scatter(QueuePair& qp, std::span<const Sge> sges, std::uint64_t offset,
                         std::span<const std::byte> bytes, memory::Hold hold) {
  bool vanished = false;
  const CompletionStatus status = scatter_list(qp, sges, offset, bytes, hold, vanished);
  if (vanished) [[unlikely]]
    qp.count(obs::Counter::kVanishedMemory);
  return status;
}

CompletionStatus try_scatter(QueuePair& qp, std::span<const Sge> sges, std::uint64_t offset,
                             std::span<const std::byte> bytes) {
  bool vanished = false;
  return scatter_list(qp, sges, offset, bytes, memory::Hold::kScatter, vanished);
}

}  // namespace weft::queue
