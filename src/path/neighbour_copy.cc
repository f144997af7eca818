#include "path/neighbour_copy.h"

#include <array>
#include <cerrno>

#include "path/direct_copy.h"

namespace weft::path {
namespace {

using memory::Intent;
using Direction = host::Outbound::Direction;

Copied copied(CompletionStatus status) {
  if (status == CompletionStatus::kSuccess) return Copied::kDone;
  return status == CompletionStatus::kLocalProtectionError ? Copied::kOwnFault
                                                           : Copied::kTargetFault;
}

memory::Place mapped_place(const queue::QueuePair& qp, const TargetPlace& place) {
  return {qp.space, reinterpret_cast<std::uint64_t>(place.mapped)};
}

/// Why the kernel would not copy: `own` is this process's part.
Copied why_not(queue::QueuePair& qp, const host::Outbound& link, memory::Place own, std::uint64_t n,
               Intent intent) {
  const int error = errno;
  if (error == ESRCH || !link.process.alive()) return Copied::kTargetGone;
  // Also while it is about to exec: if it does, that is its end.
  if (!link.can_copy() || error == EAGAIN) return Copied::kNotAllowed;
  const auto blamed = blame(qp, own, n, intent, CompletionStatus::kRemoteAccessError);
  return blamed == CompletionStatus::kLocalProtectionError ? Copied::kOwnFault
                                                           : Copied::kTargetFault;
}

/// One stretch. The end of a message that is written is a piece of its own, since programs poll on
/// it: the kernel copies pieces of ours in order, while a second piece of the other process's would
/// cost another look for its pages.
bool copy_stretch(const host::Outbound& link, Direction direction, std::byte* near,
                  std::uint64_t remote, std::uint64_t n, bool ends_message) {
  const bool whole = direction == Direction::kRead || !ends_message || n <= 8;
  const std::uint64_t body = whole ? 0 : ((remote + n - 1) & ~std::uint64_t{7}) - remote;
  const std::array<iovec, 2> here{iovec{near, body}, iovec{near + body, n - body}};
  const iovec there{reinterpret_cast<std::byte*>(remote), n};
  return link.copy(direction, std::span(here).subspan(body == 0 ? 1 : 0), {&there, 1}, n);
}

/// By system call, one list element after the other.
Copied copy_list(queue::QueuePair& qp, queue::SendWqe& wqe, const host::Outbound& link,
                 Direction direction, std::uint64_t offset, std::uint64_t n, std::uint64_t remote) {
  const Intent intent = direction == Direction::kWrite ? Intent::kRead : Intent::kWrite;
  Copied result = Copied::kDone;
  const CompletionStatus status = queue::for_each_part(
      wqe.sge_list(), offset, n,
      [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t before) {
        const auto own = check_part(qp, sge, at, part, intent, memory::Hold::kLocal);
        if (!own) {
          result = Copied::kOwnFault;
        } else if (!copy_stretch(link, direction, memory::detail::pointer(*own), remote + before,
                                 part, offset + before + part == wqe.length)) {
          result = why_not(qp, link, *own, part, intent);
        }
        return result == Copied::kDone ? CompletionStatus::kSuccess
                                       : CompletionStatus::kLocalProtectionError;
      });
  memory::Flight::clear(memory::Hold::kLocal);
  return status == CompletionStatus::kLocalLengthError ? Copied::kOwnFault : result;
}

}  // namespace

Copied copy_to_target(queue::QueuePair& qp, queue::SendWqe& wqe, const host::Outbound& link,
                      std::uint64_t offset, std::uint64_t n, const TargetPlace& to) {
  if (to.mapped != nullptr) {
    return copied(
        copy_out(qp, wqe, offset, n, mapped_place(qp, to), CompletionStatus::kRemoteAccessError));
  }
  if (!wqe.is_inline()) {
    return copy_list(qp, wqe, link, Direction::kWrite, offset, n, to.address);
  }
  std::byte* bytes = wqe.inline_bytes() + offset;
  const memory::Place own{qp.space, reinterpret_cast<std::uint64_t>(bytes)};
  return copy_stretch(link, Direction::kWrite, bytes, to.address, n, offset + n == wqe.length)
             ? Copied::kDone
             : why_not(qp, link, own, n, Intent::kRead);
}

bool write_by_system_call(const host::Outbound& link, const std::byte* from, std::uint64_t to,
                          std::uint64_t n) {
  return copy_stretch(link, Direction::kWrite, const_cast<std::byte*>(from), to, n, true);
}

bool read_by_system_call(const host::Outbound& link, std::byte* to, std::uint64_t from,
                         std::uint64_t n) {
  return copy_stretch(link, Direction::kRead, to, from, n, true);
}

Copied copy_from_target(queue::QueuePair& qp, queue::SendWqe& wqe, const host::Outbound& link,
                        std::uint64_t offset, std::uint64_t n, const TargetPlace& from) {
  if (from.mapped != nullptr) {
    return copied(
        copy_in(qp, wqe, offset, n, mapped_place(qp, from), CompletionStatus::kRemoteAccessError));
  }
  return copy_list(qp, wqe, link, Direction::kRead, offset, n, from.address);
}

}  // namespace weft::path
