// Demand paging of NodeMemory: bringing pages in and choosing which ones go out.
#include <cstring>

#include "base/assert.h"
#include "sim/node_memory.h"

namespace weft::sim {

memory::Fault NodeMemory::bring_in(VirtualPage page, PageEntry& e) {
  ++counters_.faults;
  const std::uint32_t frame = take_frame();
  if (frame == kNowhere) return memory::Fault::kUnmapped;
  if (e.swap != kNowhere) {
    std::memcpy(memory(frame), swapped(e.swap), kPageBytes);
    ++counters_.swap_ins;
  } else {
    std::memset(memory(frame), 0, kPageBytes);
  }
  frames_[frame] = {};
  frames_[frame].page = page;
  frames_[frame].in_table = true;
  e.frame = frame;
  return memory::Fault::kNone;
}

std::uint32_t NodeMemory::take_frame() {
  if (free_frames_.empty() && evict(1) == 0) return kNowhere;
  const std::uint32_t frame = free_frames_.back();
  free_frames_.pop_back();
  return frame;
}

// Second chance: the hand passes a touched frame once. Two rounds meet every frame untouched.
std::uint32_t NodeMemory::choose_victim() {
  for (std::size_t step = 0; step < 2 * frames_.size(); ++step) {
    const std::uint32_t at = clock_hand_;
    clock_hand_ = (clock_hand_ + 1) % frame_count();
    Frame& frame = frames_[at];
    if (!frame.in_table || frame.holds > 0) continue;
    if (frame.referenced) {
      frame.referenced = false;
      continue;
    }
    return at;
  }
  return kNowhere;
}

bool NodeMemory::swap_out(std::uint32_t frame) {
  const VirtualPage page = frames_[frame].page;
  PageEntry& e = *entry(page);
  WEFT_ASSERT(e.frame == frame);
  if (e.swap == kNowhere || frames_[frame].dirty) {
    if (e.swap == kNowhere) {
      if (!free_swap_.empty()) {
        e.swap = free_swap_.back();
        free_swap_.pop_back();
      } else if (swap_.size() / kPageBytes < swap_limit_) {
        e.swap = static_cast<std::uint32_t>(swap_.size() / kPageBytes);
        swap_.resize(swap_.size() + kPageBytes);
      } else {
        return false;
      }
    }
    std::memcpy(swapped(e.swap), memory(frame), kPageBytes);
  }
  // A stale translation of this frame must be seen to be stale.
  std::memset(memory(frame), 0xDD, kPageBytes);
  e.frame = kNowhere;
  frames_[frame] = {};
  free_frames_.push_back(frame);
  ++counters_.swap_outs;
  controller_.page_update(page.value);
  return true;
}

std::uint32_t NodeMemory::evict(std::uint32_t n) {
  std::uint32_t done = 0;
  while (done < n) {
    const std::uint32_t victim = choose_victim();
    if (victim == kNowhere || !swap_out(victim)) break;
    ++done;
  }
  return done;
}

}  // namespace weft::sim
