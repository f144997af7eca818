#include "sim/node_memory.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace weft::sim {

NodeMemory::NodeMemory(const Settings& settings)
    : swap_limit_(settings.swap_pages),
      memory_(std::size_t{settings.frames} * kPageBytes),
      frames_(settings.frames),
      segments_(1),  // no segment has number 0, so that virtual address 0 is nobody's
      controller_(settings.segment_tables, settings.page_tables) {
  for (std::uint32_t frame = settings.frames; frame > 0; --frame) free_frames_.push_back(frame - 1);
}

NodeMemory::PageEntry* NodeMemory::entry(VirtualPage page) {
  constexpr unsigned kShift = kSegmentShift - kPageBits;
  const std::uint64_t segment = page.value >> kShift;
  const std::uint64_t index = page.value & ((std::uint64_t{1} << kShift) - 1);
  if (segment >= segments_.size() || index >= segments_[segment].size()) return nullptr;
  return &segments_[segment][index];
}

SegmentNumber NodeMemory::create_segment(std::uint32_t pages, PageRights rights) {
  const SegmentNumber segment(static_cast<std::uint32_t>(segments_.size()));
  PageEntry fresh;
  fresh.mapped = true;
  fresh.rights = rights;
  segments_.emplace_back(pages, fresh);
  return segment;
}

void NodeMemory::destroy_segment(SegmentNumber segment) {
  auto& pages = segments_[segment.value];
  for (std::uint32_t i = 0; i < pages.size(); ++i) unmap_page(page_of(segment, i));
  pages.clear();  // the number is not used again: what still names it finds nothing
}

void NodeMemory::protect(VirtualPage page, PageRights rights) {
  PageEntry* e = entry(page);
  WEFT_ASSERT(e != nullptr);
  e->rights = rights;
  controller_.page_update(page.value);
}

void NodeMemory::unmap_page(VirtualPage page) {
  PageEntry* e = entry(page);
  WEFT_ASSERT(e != nullptr);
  discard(page, *e);
  e->mapped = false;
}

void NodeMemory::map_page(VirtualPage page, PageRights rights) {
  PageEntry* e = entry(page);
  WEFT_ASSERT(e != nullptr && !e->mapped);
  e->mapped = true;
  e->rights = rights;
}

void NodeMemory::discard(VirtualPage page, PageEntry& e) {
  if (e.frame != kNowhere) {
    WEFT_ASSERT(frames_[e.frame].holds == 0);
    frames_[e.frame] = {};
    free_frames_.push_back(e.frame);
    e.frame = kNowhere;
  }
  if (e.swap != kNowhere) free_swap_.push_back(e.swap);
  e.swap = kNowhere;
  controller_.page_update(page.value);
}

bool NodeMemory::migrate(VirtualPage page) {
  PageEntry* e = entry(page);
  if (e == nullptr || e->frame == kNowhere || free_frames_.empty()) return false;
  const std::uint32_t old = e->frame;
  if (frames_[old].holds != 0) return false;
  const std::uint32_t fresh = free_frames_.back();
  free_frames_.pop_back();
  std::memcpy(memory(fresh), memory(old), kPageBytes);
  // What stays behind must not pass for the page's contents.
  std::memset(memory(old), 0xDD, kPageBytes);
  frames_[fresh] = frames_[old];
  frames_[old] = {};
  e->frame = fresh;
  free_frames_.insert(free_frames_.begin(), old);
  controller_.page_update(page.value);
  return true;
}

memory::Fault NodeMemory::pin(VirtualPage page) {
  const auto frame = resolve(page, memory::Intent::kRead);
  if (!frame) return frame.error();
  hold(*frame);
  return memory::Fault::kNone;
}

void NodeMemory::unpin(VirtualPage page) {
  const PageEntry* e = entry(page);
  WEFT_ASSERT(e != nullptr && e->frame != kNowhere);
  release(FrameNumber(e->frame));
}

bool NodeMemory::resident(VirtualPage page) const {
  const PageEntry* e = entry(page);
  return e != nullptr && e->frame != kNowhere;
}

PageRights NodeMemory::rights(VirtualPage page) const {
  const PageEntry* e = entry(page);
  return e == nullptr || !e->mapped ? PageRights::kNone : e->rights;
}

memory::Fault NodeMemory::allowed(VirtualPage page, memory::Intent intent) const {
  const PageEntry* e = entry(page);
  if (e == nullptr || !e->mapped) return memory::Fault::kUnmapped;
  return allows(e->rights, intent) ? memory::Fault::kNone : memory::Fault::kProtection;
}

tl::expected<FrameNumber, memory::Fault> NodeMemory::resolve(VirtualPage page,
                                                             memory::Intent intent) {
  if (const memory::Fault fault = allowed(page, intent); fault != memory::Fault::kNone) {
    return tl::unexpected(fault);
  }
  PageEntry& e = *entry(page);
  if (e.frame == kNowhere) {
    if (const memory::Fault fault = bring_in(page, e); fault != memory::Fault::kNone)
      return tl::unexpected(fault);
  }
  const FrameNumber frame(e.frame);
  mark_touched(frame, intent);
  return frame;
}

void NodeMemory::mark_touched(FrameNumber frame, memory::Intent intent) {
  frames_[frame.value].referenced = true;
  if (intent == memory::Intent::kWrite) frames_[frame.value].dirty = true;
}

void NodeMemory::release(FrameNumber frame) {
  WEFT_ASSERT(frames_[frame.value].holds > 0);
  --frames_[frame.value].holds;
}

std::span<std::byte, kPageBytes> NodeMemory::bytes(FrameNumber frame) {
  return std::span<std::byte, kPageBytes>(memory(frame.value), kPageBytes);
}

std::optional<FrameNumber> NodeMemory::allocate_frame() {
  const std::uint32_t frame = take_frame();
  if (frame == kNowhere) return std::nullopt;
  frames_[frame] = {};
  std::memset(memory(frame), 0, kPageBytes);
  return FrameNumber(frame);
}

void NodeMemory::free_frame(FrameNumber frame) {
  WEFT_ASSERT(!frames_[frame.value].in_table && frames_[frame.value].holds == 0);
  free_frames_.push_back(frame.value);
}

}  // namespace weft::sim
