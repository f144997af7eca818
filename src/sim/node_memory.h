// The memory of a simulated node: page frames, a swap space, and the system's page table. Virtual
// memory consists of segments; a virtual address is the segment's number (the upper 24 bits), a
// page (28) and an offset (12). Pages come into being, zeroed, at first touch; under memory
// pressure unheld, unpinned frames are swapped out by second chance and come back when touched.
// Owned by the simulation, outlives its processes; one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tl/expected.hpp>
#include <vector>

#include "memory/vmm.h"
#include "sim/controller_tables.h"
#include "weft/types.h"

namespace weft::sim {

inline constexpr unsigned kPageBits = 12;
inline constexpr std::size_t kPageBytes = 1U << kPageBits;
inline constexpr unsigned kSegmentShift = 40;
inline constexpr std::uint64_t kInSegmentMask = (std::uint64_t{1} << kSegmentShift) - 1;

/// Upper bits of a virtual address: one segment of the node's virtual memory.
using SegmentNumber = Strong<struct SegmentNumberTag, std::uint32_t>;
/// A virtual address without its offset.
using VirtualPage = Strong<struct VirtualPageTag, std::uint64_t>;
/// Number of a page frame; physical address = frame * kPageBytes.
using FrameNumber = Strong<struct FrameNumberTag, std::uint32_t>;

enum class PageRights : std::uint8_t { kNone, kRead, kReadWrite };
constexpr bool allows(PageRights rights, memory::Intent intent) {
  return rights == PageRights::kReadWrite ||
         (rights == PageRights::kRead && intent == memory::Intent::kRead);
}

constexpr VirtualPage page_of(SegmentNumber segment, std::uint32_t page) {
  return VirtualPage(std::uint64_t{segment.value} << (kSegmentShift - kPageBits) | page);
}
constexpr VirtualPage page_of(std::uint64_t virtual_address) {
  return VirtualPage(virtual_address >> kPageBits);
}

class NodeMemory {
 public:
  struct Settings {
    std::uint32_t frames = 1024;
    std::uint32_t swap_pages = 1U << 20;
    SegmentTables segment_tables = SegmentTables::kCopied;
    PageTables page_tables = PageTables::kSystem;
  };
  struct Counters {
    std::uint64_t faults = 0;     ///< touches of pages without a frame
    std::uint64_t swap_ins = 0;   ///< pages read back from swap
    std::uint64_t swap_outs = 0;  ///< pages that lost their frame
  };

  explicit NodeMemory(const Settings& settings);

  SegmentNumber create_segment(std::uint32_t pages, PageRights rights);
  /// No view of it may be held, nor one of its pages pinned.
  void destroy_segment(SegmentNumber segment);
  void protect(VirtualPage page, PageRights rights);
  /// The page's contents are gone, and touching it is a fault, until map_page().
  void unmap_page(VirtualPage page);
  void map_page(VirtualPage page, PageRights rights);
  /// Moves the page to another frame; false when it has none, is in use, or no frame is free.
  bool migrate(VirtualPage page);

  /// A pinned page keeps its frame.
  memory::Fault pin(VirtualPage page);
  void unpin(VirtualPage page);
  bool resident(VirtualPage page) const;
  /// Memory pressure: swaps out up to n frames, tells how many it found.
  std::uint32_t evict(std::uint32_t n);

  /// The frame behind a page, brought in if need be, and marked as touched.
  tl::expected<FrameNumber, memory::Fault> resolve(VirtualPage page, memory::Intent intent);
  /// Whether the page may be touched so, without touching it.
  memory::Fault allowed(VirtualPage page, memory::Intent intent) const;
  PageRights rights(VirtualPage page) const;
  void mark_touched(FrameNumber frame, memory::Intent intent);
  /// A held frame is not evicted; holds count.
  void hold(FrameNumber frame) { ++frames_[frame.value].holds; }
  void release(FrameNumber frame);
  /// Frames that are held or pinned now; 0 when nobody uses the memory any more.
  std::size_t held_frames() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(frames_, [](const Frame& frame) { return frame.holds > 0; }));
  }
  std::span<std::byte, kPageBytes> bytes(FrameNumber frame);

  /// A frame outside virtual memory, for kernel-like consumers; never evicted.
  std::optional<FrameNumber> allocate_frame();
  void free_frame(FrameNumber frame);

  ControllerTables& controller() { return controller_; }
  const Counters& counters() const { return counters_; }
  std::uint32_t frame_count() const { return static_cast<std::uint32_t>(frames_.size()); }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  struct PageEntry {
    std::uint32_t frame = kNowhere;  ///< valid when not kNowhere
    std::uint32_t swap = kNowhere;   ///< a copy in swap, good while the frame is clean
    bool mapped = false;
    PageRights rights = PageRights::kNone;
  };
  struct Frame {
    VirtualPage page;  ///< whose it is, if in_table
    std::uint32_t holds = 0;
    bool in_table = false;
    bool referenced = false;
    bool dirty = false;
  };

  PageEntry* entry(VirtualPage page);
  const PageEntry* entry(VirtualPage page) const {
    return const_cast<NodeMemory*>(this)->entry(page);
  }
  std::uint32_t take_frame();
  std::uint32_t choose_victim();
  bool swap_out(std::uint32_t frame);
  memory::Fault bring_in(VirtualPage page, PageEntry& entry);
  void discard(VirtualPage page, PageEntry& entry);
  std::byte* memory(std::uint32_t frame) { return &memory_[std::size_t{frame} * kPageBytes]; }
  std::byte* swapped(std::uint32_t slot) { return &swap_[std::size_t{slot} * kPageBytes]; }

  const std::uint32_t swap_limit_;
  std::vector<std::byte> memory_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> free_frames_;
  std::vector<std::byte> swap_;
  std::vector<std::uint32_t> free_swap_;
  std::vector<std::vector<PageEntry>> segments_;  ///< the page table, by segment and page
  std::uint32_t clock_hand_ = 0;
  ControllerTables controller_;
  Counters counters_;
};

}  // namespace weft::sim
