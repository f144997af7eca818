// The random program of a link: which request comes next, and what must come of it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/end.h"
#include "sim/link.h"
#include "sim/owner_work.h"
#include "sim/pattern.h"

namespace weft::sim {
namespace {

constexpr std::uint32_t kMaxUnsignaled = 4;

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

bool peer_serves_rdma(const End& from) {
  const End& to = *from.peer;
  return to.node.spec().cards[to.where.card].kind == verbs::NodeKind::kHost;
}

/// Lengths around the edges of frames are the interesting ones.
std::uint32_t draw_length(End& from, std::uint32_t most) {
  Stage& stage = from.stage;
  const std::uint32_t mtu = bytes(from.spec.attributes.path_mtu);
  switch (stage.random.below(8)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return static_cast<std::uint32_t>(stage.between(1, std::min(64u, most)));
    case 3: {
      const std::uint64_t frames = stage.between(1, 1 + most / mtu);
      const std::uint64_t length = frames * mtu + stage.random.below(3) - 1;
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, most));
    }
    default:
      return static_cast<std::uint32_t>(stage.between(1, most));
  }
}

Range draw_range(End& from, std::uint32_t size) {
  const std::uint32_t length = draw_length(from, std::min(size, from.spec.slot_bytes));
  return {static_cast<std::uint32_t>(from.stage.random.below(size - length + 1)), length};
}

void post(End& from, SendRequest& request, Work work) {
  Stage& stage = from.stage;
  request.wr_id = work.wr_id = stage.next_wr_id++;
  work.op = request.op;
  work.signaled = from.unsignaled >= kMaxUnsignaled || !stage.one_in(3);
  from.unsignaled = work.signaled ? 0 : from.unsignaled + 1;
  const SendFlags signal = work.signaled ? SendFlags::kSignaled : SendFlags::kNone;
  request.flags = request.flags | signal;
  ++stage.stats.requests;
  stage.trace.posted(from.node.number(), from.qp->number(), request.op, request.wr_id, work.length);
  from.ledger.posted(std::move(work));
  if (auto ok = from.qp->post_send(request); !ok) {
    stage.judge.violated(fmt::format("{}: post_send of #{} ({}): {}", from.name(), request.wr_id,
                                     to_string(request.op), ok.error().message));
  }
  from.node.stir();
}

/// Puts the content into an outbox slot, in pieces that lie apart, and gives the gather list.
std::vector<Sge> gather(End& from, Work& work, std::span<const std::byte> content) {
  Stage& stage = from.stage;
  const std::uint64_t elements = stage.between(1, from.spec.limits.max_send_sge);
  std::uint64_t room = from.outbox.bytes_each - content.size();
  std::uint64_t at = from.outbox.at(work.outbox_slot);
  std::vector<Sge> sges;
  for (std::uint64_t i = 1; i <= elements; ++i) {
    const std::uint64_t gap = stage.random.below(room / elements + 1);
    at += gap, room -= gap;
    const std::size_t n = i == elements ? content.size() : stage.random.below(content.size() + 1);
    from.process().shadow.store(at, content.first(n));
    sges.push_back(from.outbox.sge(at, static_cast<std::uint32_t>(n)));
    content = content.subspan(n);
    at += n;
  }
  return sges;
}

std::optional<Target> draw_target(End& from) {
  End& to = *from.peer;
  if (!to.present()) return {};
  std::vector<std::shared_ptr<Exposure>> usable;
  for (const auto& exposure : to.exposures) {
    if (exposure->offered && !exposure->revoked && !exposure->spent) usable.push_back(exposure);
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
  fill_message(from.key, work.sequence, content);
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

bool post_write(End& from, bool immediate) {
  if (!peer_serves_rdma(from)) return false;
  const auto target = draw_target(from);
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
  fill_message(from.key, work.sequence, content);
  if (from.reliable()) {
    from.peer->shelf.posted(work.shelf_offset, content);
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

/// The landing place, in one or two elements; granted until the request is over.
std::vector<Sge> land(End& from, Work& work) {
  const std::uint64_t at = from.landing.at(work.landing_slot);
  work.landing_grant = from.process().shadow.grant(at, work.length);
  const std::uint32_t first =
      from.spec.limits.max_send_sge > 1
          ? static_cast<std::uint32_t>(from.stage.random.below(work.length + 1))
          : work.length;
  std::vector<Sge> sges{from.landing.sge(at, first)};
  if (first < work.length) sges.push_back(from.landing.sge(at + first, work.length - first));
  return sges;
}

bool post_read(End& from) {
  if (!peer_serves_rdma(from)) return false;
  const auto target = draw_target(from);
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

// ---- what must be refused -------------------------------------------------------------------

/// A key, range, right or address that does not allow the request. On a reliable connection it must
/// end in an error, on an unreliable one in silence, and in both cases without a byte changed.
bool post_forbidden_rdma(End& from) {
  Stage& stage = from.stage;
  End& to = *from.peer;
  if (!to.present()) return false;
  const verbs::MemoryRegion& words = to.process().word_regions[to.where.card];
  Work work;
  SendRequest request;
  request.op = SendOp::kWrite;
  work.expected = CompletionStatus::kRemoteAccessError;
  work.length = static_cast<std::uint32_t>(stage.between(1, from.spec.slot_bytes));
  const std::uint64_t inside = stage.random.below(to.shelf_half - work.length + 1);
  request.remote = to.shelf_region->remote(inside);
  // An I/O adapter refuses even what would be right elsewhere.
  const bool is_right = !peer_serves_rdma(from) && stage.one_in(2);
  switch (is_right ? 99 : stage.random.below(7)) {
    case 99:
      break;
    case 0:  // the right slot under a wrong tag
      request.remote.key.value ^= static_cast<std::uint32_t>(stage.between(1, 255));
      break;
    case 1:  // one byte beyond the end
      request.remote = to.shelf_region->remote(to.shelf_half - work.length + 1);
      break;
    case 2:  // one byte before the beginning
      request.remote.address = to.shelf_region->address() - 1;
      break;
    case 3:  // memory that only atomics may touch
      request.remote = words.remote();
      work.length = 8;
      break;
    case 4:  // memory that nobody else may touch
      request.remote = to.annex_region->remote();
      break;
    case 5:  // a one-shot key for the second time
      for (const auto& exposure : to.exposures) {
        if (!exposure->spent || exposure->revoked) continue;
        request.remote = {exposure->address, exposure->key};
        work.length = std::min(work.length, exposure->length);
      }
      if (request.remote.key == to.shelf_region->rkey()) return false;
      break;
    default:  // wraps around the end of the address space
      request.remote.address = ~std::uint64_t{0} - stage.random.below(work.length);
      break;
  }
  work.outbox_slot = from.outbox.take();
  if (work.outbox_slot < 0) return false;
  // An unreliable one completes like any other; what it must not do is show on the shelf.
  if (!from.reliable()) work.expected = CompletionStatus::kSuccess;
  std::vector<std::byte> content(work.length, std::byte{0xBD});
  const std::vector<Sge> sges = gather(from, work, content);
  request.sges = sges;
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

}  // namespace

void post_owner_request(End& from, SendRequest& request, Work work) {
  post(from, request, std::move(work));
}

void post_signaled_end(End& from) {
  from.unsignaled = kMaxUnsignaled;
  SendRequest request;
  request.op = SendOp::kDelay;
  post(from, request, {});
}

bool post_something(End& from) {
  if (!from.present() || from.ledger.outstanding().size() + 2 >= from.spec.limits.max_send_wr) {
    return false;
  }
  Stage& stage = from.stage;
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

}  // namespace weft::sim
