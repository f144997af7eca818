#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "memory/model_vmm.h"

namespace weft::memory {
namespace {

// Cuts a range at page ends; `step(ea, n)` says whether to go on. The last page may be the last of
// the address space, so the loop counts bytes instead of comparing addresses.
template <class Step>
Fault for_each_page(std::uint64_t ea, std::size_t length, Step step) {
  while (length > 0) {
    const std::size_t n = std::min<std::size_t>(length, kPageBytes - ea % kPageBytes);
    if (const Fault fault = step(ea, n); fault != Fault::kNone) return fault;
    ea += n, length -= n;
  }
  return Fault::kNone;
}

VirtualPage join(const SegmentEntry& segment, std::uint64_t ea) {
  return VirtualPage((std::uint64_t{segment.upper} << kSegmentShift | (ea & kInSegmentMask)) >>
                     kPageBits);
}

}  // namespace

ModelProcess::ModelProcess(ModelNode& node) : Vmm(false), node_(node) {}

ModelProcess::~ModelProcess() {
  while (context_ != nullptr) close_queue_pair(context_->queue_pairs().back().qpn);
}

void ModelProcess::update(std::uint32_t id, SegmentEntry entry) {
  table_.set(id, entry);
  node_.controller().segment_update(table_, id);
}

Result<std::uint64_t> ModelProcess::set_segment(std::uint32_t id, SegmentNumber segment) {
  if (id >= SegmentTable::kMaxSegments) {
    return fail(Errc::kInvalidArgument, "id: beyond the segment table");
  }
  update(id, {segment.value, true});
  return std::uint64_t{id} << kSegmentShift;
}

Result<std::uint64_t> ModelProcess::allocate(std::uint32_t pages, PageRights rights) {
  const std::uint32_t id = table_.first_free();
  if (id == SegmentTable::kMaxSegments) return fail(Errc::kOutOfMemory, "segment table is full");
  return set_segment(id, node_.create_segment(pages, rights));
}

void ModelProcess::delete_segment(std::uint32_t id) {
  if (table_.find(id) != nullptr) update(id, {});
}

void ModelProcess::open_queue_pair(const ModelController::QueuePairNote& note) {
  context_ = node_.controller().open(table_, note);
}

void ModelProcess::close_queue_pair(Qpn qpn) {
  if (context_ != nullptr) context_ = node_.controller().close(context_, qpn);
}

tl::expected<VirtualPage, Fault> ModelProcess::virtual_page(std::uint64_t ea) const {
  const SegmentEntry* segment = table_.find(ea >> kSegmentShift);
  if (segment == nullptr) return tl::unexpected(Fault::kNoSegment);
  return join(*segment, ea);
}

// The controller's way: by its own tables. Before a queue pair is open it has none, and asks.
tl::expected<FrameNumber, Fault> ModelProcess::translate(std::uint64_t ea, Intent intent) {
  const std::uint64_t id = ea >> kSegmentShift;
  const SegmentEntry* segment =
      context_ == nullptr ? table_.find(id) : context_->segment(static_cast<std::uint32_t>(id));
  if (segment == nullptr) return tl::unexpected(Fault::kNoSegment);
  const VirtualPage page = join(*segment, ea);
  if (context_ == nullptr) return node_.resolve(page, intent);
  if (const auto kept = node_.controller().find_private(*context_, page.value, intent); kept >= 0) {
    const FrameNumber frame(static_cast<std::uint32_t>(kept));
    node_.mark_touched(frame, intent);
    return frame;
  }
  const auto frame = node_.resolve(page, intent);
  if (frame) {
    const bool writable = allows(node_.rights(page), Intent::kWrite);
    node_.controller().keep_private(*context_, page.value, frame->value, writable);
  }
  return frame;
}

tl::expected<Vmm::View, Fault> ModelProcess::map(std::uint64_t ea, std::size_t length,
                                                 Intent intent) {
  WEFT_ASSERT(length > 0);
  const auto frame = translate(ea, intent);
  if (!frame) return tl::unexpected(frame.error());
  node_.hold(*frame);
  std::uint32_t note = 0;
  if (free_held_.empty()) {
    note = static_cast<std::uint32_t>(held_.size());
    held_.emplace_back();
  } else {
    note = free_held_.back();
    free_held_.pop_back();
  }
  held_[note] = {ea, *frame, intent};
  const std::size_t offset = ea % kPageBytes;
  return View{node_.bytes(*frame).data() + offset, std::min(length, kPageBytes - offset), note};
}

void ModelProcess::unmap(const View& view) {
  const Held held = held_[view.hold];
  node_.release(held.frame);
  free_held_.push_back(static_cast<std::uint32_t>(view.hold));
  if (held.intent == Intent::kWrite && observer_) observer_(*this, held.ea, view.size);
}

Fault ModelProcess::check(std::uint64_t ea, std::size_t length, Intent intent) {
  if (length == 0 || length - 1 > ~ea) return Fault::kUnmapped;
  return for_each_page(ea, length, [&](std::uint64_t at, std::size_t) {
    const auto page = virtual_page(at);
    return page ? node_.allowed(*page, intent) : page.error();
  });
}

Fault ModelProcess::read(std::uint64_t ea, std::span<std::byte> to) {
  return for_each_page(ea, to.size(), [&](std::uint64_t at, std::size_t n) {
    const auto page = virtual_page(at);
    if (!page) return page.error();
    const auto frame = node_.resolve(*page, Intent::kRead);
    if (!frame) return frame.error();
    std::memcpy(to.data() + (at - ea), node_.bytes(*frame).data() + at % kPageBytes, n);
    return Fault::kNone;
  });
}

Fault ModelProcess::write(std::uint64_t ea, std::span<const std::byte> from) {
  return for_each_page(ea, from.size(), [&](std::uint64_t at, std::size_t n) {
    const auto page = virtual_page(at);
    if (!page) return page.error();
    const auto frame = node_.resolve(*page, Intent::kWrite);
    if (!frame) return frame.error();
    std::memcpy(node_.bytes(*frame).data() + at % kPageBytes, from.data() + (at - ea), n);
    return Fault::kNone;
  });
}

Fault ModelProcess::pin(std::uint64_t ea, std::size_t length) {
  std::size_t pinned = 0;
  const Fault fault = for_each_page(ea, length, [&](std::uint64_t at, std::size_t n) {
    const auto page = virtual_page(at);
    const Fault one = page ? node_.pin(*page) : page.error();
    if (one == Fault::kNone) pinned += n;
    return one;
  });
  // All or nothing.
  if (fault != Fault::kNone) unpin(ea, pinned);
  return fault;
}

void ModelProcess::unpin(std::uint64_t ea, std::size_t length) {
  for_each_page(ea, length, [&](std::uint64_t at, std::size_t) {
    if (const auto page = virtual_page(at)) node_.unpin(*page);
    return Fault::kNone;
  });
}

}  // namespace weft::memory
