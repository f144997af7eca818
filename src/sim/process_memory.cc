#include "sim/process_memory.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace weft::sim {
namespace {

// Cuts a range at page ends; `step(ea, n)` says whether to go on. The last page may be the last of
// the address space, so the loop counts bytes instead of comparing addresses.
template <class Step>
memory::Fault for_each_page(std::uint64_t ea, std::size_t length, Step step) {
  while (length > 0) {
    const std::size_t n = std::min<std::size_t>(length, kPageBytes - ea % kPageBytes);
    if (const memory::Fault fault = step(ea, n); fault != memory::Fault::kNone) return fault;
    ea += n, length -= n;
  }
  return memory::Fault::kNone;
}

VirtualPage join(const SegmentEntry& segment, std::uint64_t ea) {
  return VirtualPage((std::uint64_t{segment.upper} << kSegmentShift | (ea & kInSegmentMask)) >>
                     kPageBits);
}

}  // namespace

ProcessMemory::ProcessMemory(NodeMemory& node) : Vmm(false), node_(node) {}

ProcessMemory::~ProcessMemory() {
  while (context_ != nullptr) close_queue_pair(context_->queue_pairs().back().qpn);
}

void ProcessMemory::update(std::uint32_t id, SegmentEntry entry) {
  table_.set(id, entry);
  node_.controller().segment_update(table_, id);
}

Result<std::uint64_t> ProcessMemory::set_segment(std::uint32_t id, SegmentNumber segment) {
  if (id >= SegmentTable::kMaxSegments) {
    return fail(Errc::kInvalidArgument, "id: beyond the segment table");
  }
  update(id, {segment.value, true});
  return std::uint64_t{id} << kSegmentShift;
}

Result<std::uint64_t> ProcessMemory::allocate(std::uint32_t pages, PageRights rights) {
  const std::uint32_t id = table_.first_free();
  if (id == SegmentTable::kMaxSegments) return fail(Errc::kOutOfMemory, "segment table is full");
  return set_segment(id, node_.create_segment(pages, rights));
}

void ProcessMemory::delete_segment(std::uint32_t id) {
  if (table_.find(id) != nullptr) update(id, {});
}

void ProcessMemory::open_queue_pair(const ControllerTables::QueuePairNote& note) {
  context_ = node_.controller().open(table_, note);
}

void ProcessMemory::close_queue_pair(Qpn qpn) {
  if (context_ != nullptr) context_ = node_.controller().close(context_, qpn);
}

tl::expected<VirtualPage, memory::Fault> ProcessMemory::virtual_page(std::uint64_t ea) const {
  const SegmentEntry* segment = table_.find(ea >> kSegmentShift);
  if (segment == nullptr) return tl::unexpected(memory::Fault::kNoSegment);
  return join(*segment, ea);
}

// The controller's way: by its own tables. Before a queue pair is open it has none, and asks.
tl::expected<FrameNumber, memory::Fault> ProcessMemory::translate(std::uint64_t ea,
                                                                  memory::Intent intent) {
  const std::uint64_t id = ea >> kSegmentShift;
  const SegmentEntry* segment =
      context_ == nullptr ? table_.find(id) : context_->segment(static_cast<std::uint32_t>(id));
  if (segment == nullptr) return tl::unexpected(memory::Fault::kNoSegment);
  const VirtualPage page = join(*segment, ea);
  if (context_ == nullptr) return node_.resolve(page, intent);
  if (const auto kept = node_.controller().find_private(*context_, page.value, intent); kept >= 0) {
    const FrameNumber frame(static_cast<std::uint32_t>(kept));
    node_.mark_touched(frame, intent);
    return frame;
  }
  const auto frame = node_.resolve(page, intent);
  if (frame) {
    const bool writable = allows(node_.rights(page), memory::Intent::kWrite);
    node_.controller().keep_private(*context_, page.value, frame->value, writable);
  }
  return frame;
}

tl::expected<memory::Vmm::View, memory::Fault> ProcessMemory::map(std::uint64_t ea,
                                                                  std::size_t length,
                                                                  memory::Intent intent) {
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

void ProcessMemory::unmap(const View& view) {
  const Held held = held_[view.hold];
  node_.release(held.frame);
  free_held_.push_back(static_cast<std::uint32_t>(view.hold));
  if (held.intent == memory::Intent::kWrite && observer_) observer_(*this, held.ea, view.size);
}

memory::Fault ProcessMemory::check(std::uint64_t ea, std::size_t length, memory::Intent intent) {
  if (length == 0 || length - 1 > ~ea) return memory::Fault::kUnmapped;
  return for_each_page(ea, length, [&](std::uint64_t at, std::size_t) {
    const auto page = virtual_page(at);
    return page ? node_.allowed(*page, intent) : page.error();
  });
}

memory::Fault ProcessMemory::read(std::uint64_t ea, std::span<std::byte> to) {
  return for_each_page(ea, to.size(), [&](std::uint64_t at, std::size_t n) {
    const auto page = virtual_page(at);
    if (!page) return page.error();
    const auto frame = node_.resolve(*page, memory::Intent::kRead);
    if (!frame) return frame.error();
    std::memcpy(to.data() + (at - ea), node_.bytes(*frame).data() + at % kPageBytes, n);
    return memory::Fault::kNone;
  });
}

memory::Fault ProcessMemory::write(std::uint64_t ea, std::span<const std::byte> from) {
  return for_each_page(ea, from.size(), [&](std::uint64_t at, std::size_t n) {
    const auto page = virtual_page(at);
    if (!page) return page.error();
    const auto frame = node_.resolve(*page, memory::Intent::kWrite);
    if (!frame) return frame.error();
    std::memcpy(node_.bytes(*frame).data() + at % kPageBytes, from.data() + (at - ea), n);
    return memory::Fault::kNone;
  });
}

memory::Fault ProcessMemory::pin(std::uint64_t ea, std::size_t length) {
  std::size_t pinned = 0;
  const memory::Fault fault = for_each_page(ea, length, [&](std::uint64_t at, std::size_t n) {
    const auto page = virtual_page(at);
    const memory::Fault one = page ? node_.pin(*page) : page.error();
    if (one == memory::Fault::kNone) pinned += n;
    return one;
  });
  // All or nothing.
  if (fault != memory::Fault::kNone) unpin(ea, pinned);
  return fault;
}

void ProcessMemory::unpin(std::uint64_t ea, std::size_t length) {
  for_each_page(ea, length, [&](std::uint64_t at, std::size_t) {
    if (const auto page = virtual_page(at)) node_.unpin(*page);
    return memory::Fault::kNone;
  });
}

}  // namespace weft::sim
