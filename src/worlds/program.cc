// The random program of a link: which request comes next, and what must come of it.
#include <algorithm>
#include <utility>

#include "sim/pattern.h"
#include "worlds/end.h"
#include "worlds/link.h"
#include "worlds/posting.h"

namespace weft::worlds {
namespace {

/// Memory of the peer that a request may go to.
struct Target {
  RemoteAddress remote;
  std::uint32_t shelf_offset = 0;
  std::uint32_t length = 0;
  std::shared_ptr<Exposure> exposure;
};

struct Range {
  std::uint32_t offset, length;
};

Range draw_range(End& from, std::uint32_t size) {
  const std::uint32_t length = draw_length(from, std::min(size, from.spec.slot_bytes));
  return {static_cast<std::uint32_t>(from.stage.random.below(size - length + 1)), length};
}

std::optional<Target> draw_target(End& from, bool to_write) {
  End& to = *from.peer;
  if (!to.present()) return {};
  std::vector<std::shared_ptr<Exposure>> usable;
  for (const auto& exposure : to.exposures) {
    if (!exposure->offered || exposure->revoked || exposure->spent) continue;
    if (exposure->writable || !to_write) usable.push_back(exposure);
  }
  if (usable.empty() || from.stage.one_in(2)) {
    return Target{to.shelf_region->remote(), 0, to.shelf_half, nullptr};
  }
  const auto& exposure = usable[from.stage.random.below(usable.size())];
  return Target{{exposure->address, exposure->key}, exposure->offset, exposure->length, exposure};
}

bool reads_from(const End& from, Range range) {
  return std::ranges::any_of(from.ledger.outstanding(), [&](const Work& work) {
    return work.op == SendOp::kRead && work.shelf_offset < range.offset + range.length &&
           range.offset < work.shelf_offset + work.length;
  });
}

/// A transfer of nothing needs no key, and uses none up.
void use(const Target& target, Range range) {
  if (range.length > 0 && target.exposure != nullptr &&
      target.exposure->kind == Exposure::Kind::kOneShot) {
    target.exposure->spent = true;
  }
}

// ---- messages and writes --------------------------------------------------------------------

bool post_write(End& from, bool immediate) {
  if (!peer_serves_rdma(from)) return false;
  const auto target = draw_target(from, true);
  if (!target) return false;
  const Range range = draw_range(from, target->length);
  Work work;
  work.outbox_slot = from.outbox.take();
  if (work.outbox_slot < 0) return false;
  use(*target, range);
  SendRequest request;
  request.op = immediate ? SendOp::kWriteImmediate : SendOp::kWrite;
  request.remote = {target->remote.address + range.offset, target->remote.key};
  work.length = range.length;
  work.shelf_offset = target->shelf_offset + range.offset;
  work.exposure = target->exposure;
  work.sequence = from.next_sequence++;
  request.immediate = static_cast<std::uint32_t>(work.sequence);
  // A read that was not answered yet may be answered again, after this write.
  if (reads_from(from, {work.shelf_offset, work.length}) || from.stage.one_in(16)) {
    request.flags = request.flags | SendFlags::kFence;
  }
  std::vector<std::byte> content(work.length);
  sim::fill_message(from.key, work.sequence, content);
  if (from.reliable()) {
    from.peer->shelf.posted(work.shelf_offset, content, work.sequence);
  } else {
    from.peer->shelf.possible(work.shelf_offset, content);
  }
  if (immediate) {
    from.announced.push_back(
        {work.sequence, work.length, true, work.shelf_offset, true, false, nullptr});
  }
  const std::vector<Sge> sges = gather(from, work, content);
  request.sges = sges;
  post(from, request, std::move(work));
  return true;
}

// ---- reads and atomics ----------------------------------------------------------------------

bool post_read(End& from) {
  if (!peer_serves_rdma(from)) return false;
  const auto target = draw_target(from, false);
  if (!target) return false;
  const Range range = draw_range(from, target->length);
  Work work;
  work.landing_slot = from.landing.take();
  if (work.landing_slot < 0) return false;
  use(*target, range);
  SendRequest request;
  request.op = SendOp::kRead;
  request.remote = {target->remote.address + range.offset, target->remote.key};
  work.length = range.length;
  work.shelf_offset = target->shelf_offset + range.offset;
  work.exposure = target->exposure;
  work.wanted = from.peer->shelf.promised(work.shelf_offset, work.length);
  const std::vector<Sge> sges = land(from, work);
  request.sges = sges;
  post(from, request, std::move(work));
  return true;
}

bool post_atomic(End& from) {
  if (!peer_serves_rdma(from) || !from.peer->present()) return false;
  Work work;
  work.landing_slot = from.landing.take();
  if (work.landing_slot < 0) return false;
  Process& owner = from.peer->process();
  const verbs::MemoryRegion& region = owner.word_regions[from.peer->where.card];
  work.word = from.stage.random.below(Process::kWords);
  work.length = 8;
  SendRequest request;
  if (from.stage.one_in(2)) {
    request.op = SendOp::kFetchAdd;
    work.operand = from.stage.between(1, 1000);
    request.remote = region.remote(8 * work.word);
    owner.counters[work.word].posted(work.operand);
  } else {
    request.op = SendOp::kCompareSwap;
    work.operand = from.stage.random.next();
    work.compare = owner.swaps[work.word].guess();
    request.remote = region.remote(8 * (Process::kWords + work.word));
    owner.swaps[work.word].posted(work.operand);
  }
  request.operand = work.operand;
  request.compare = work.compare;
  const std::vector<Sge> sges = land(from, work);
  request.sges = sges;
  post(from, request, std::move(work));
  return true;
}

bool post_delay(End& from) {
  SendRequest request;
  request.op = SendOp::kDelay;
  request.delay_ns = from.stage.random.below(50'000);
  post(from, request, {});
  return true;
}

}  // namespace

bool post_message(End& from, SendOp op, bool too_long) {
  Work work;
  SendRequest request;
  request.op = op;
  work.length = too_long ? from.spec.slot_bytes + 1 : draw_length(from, from.spec.slot_bytes);
  if (!from.reliable() && op == SendOp::kSend) work.length = std::max(work.length, 8u);
  std::shared_ptr<Exposure> invalidated;
  if (op == SendOp::kSendInvalidate) {
    for (const auto& exposure : from.peer->exposures) {
      if (exposure->kind == Exposure::Kind::kWindow2 && exposure->offered && !exposure->revoked) {
        invalidated = exposure;
      }
    }
    if (invalidated == nullptr) return false;
  }
  work.outbox_slot = from.outbox.take();
  if (work.outbox_slot < 0) return false;
  if (invalidated != nullptr) {
    // Reads under the key must be over before it goes.
    request.flags = request.flags | SendFlags::kFence;
    request.invalidate_key = invalidated->key;
    invalidated->revoked = true;
    work.exposure = invalidated;
  }
  work.sequence = from.next_sequence++;
  std::vector<std::byte> content(work.length);
  sim::fill_message(from.key, work.sequence, content);
  const std::vector<Sge> sges = gather(from, work, content);
  request.sges = sges;
  request.immediate = static_cast<std::uint32_t>(work.sequence);
  request.flags = from.stage.one_in(4) ? request.flags | SendFlags::kSolicited : request.flags;
  if (work.length <= from.spec.limits.max_inline_bytes && from.stage.one_in(2)) {
    request.flags = request.flags | SendFlags::kInline;
  }
  if (too_long) work.expected = CompletionStatus::kRemoteInvalidRequest;
  from.announced.push_back(
      {work.sequence, work.length, false, 0, op == SendOp::kSendImmediate, too_long, invalidated});
  post(from, request, std::move(work));
  return true;
}

bool post_something(End& from) {
  if (!from.present() || from.ledger.outstanding().size() + 2 >= from.spec.limits.max_send_wr) {
    return false;
  }
  sim::Stage& stage = from.stage;
  if (from.spec.mischief != 0 && stage.one_in(from.spec.mischief)) return post_mischief(from);
  const std::uint64_t draw = stage.random.below(100);
  if (draw < 20) return post_message(from, SendOp::kSend, false);
  if (draw < 28) return post_message(from, SendOp::kSendImmediate, false);
  if (draw < 48) return post_write(from, false);
  if (draw < 56) return post_write(from, true);
  if (draw < 58) return post_delay(from);
  if (draw < 70) return do_owner_work(from);
  if (!from.reliable()) return post_message(from, SendOp::kSendImmediate, false);
  if (draw < 73) return post_message(from, SendOp::kSendInvalidate, false);
  if (draw < 87) return post_read(from);
  return post_atomic(from);
}

}  // namespace weft::worlds
