#include "sim/kernel_memory.h"

#include <algorithm>

#include "base/assert.h"

namespace weft::sim {

KernelMemory::KernelMemory(NodeMemory& node) : Vmm(false), node_(node) {}

KernelMemory::~KernelMemory() {
  for (const auto& [page, local] : pages_) node_.release(local.frame);
}

Result<void> KernelMemory::map_local_page(std::uint64_t virtual_address,
                                          std::uint64_t physical_address, PageRights rights) {
  if (virtual_address % kPageBytes != 0 || physical_address % kPageBytes != 0) {
    return fail(Errc::kInvalidArgument, "address: not a multiple of the page size");
  }
  if (physical_address / kPageBytes >= node_.frame_count()) {
    return fail(Errc::kInvalidArgument, "physical address: no such frame");
  }
  unmap_local_page(virtual_address);
  const FrameNumber frame(static_cast<std::uint32_t>(physical_address / kPageBytes));
  node_.hold(frame);
  pages_[virtual_address / kPageBytes] = {frame, rights};
  return {};
}

void KernelMemory::unmap_local_page(std::uint64_t virtual_address) {
  const auto found = pages_.find(virtual_address / kPageBytes);
  if (found == pages_.end()) return;
  node_.release(found->second.frame);
  pages_.erase(found);
}

tl::expected<memory::Vmm::View, memory::Fault> KernelMemory::map(std::uint64_t virtual_address,
                                                                 std::size_t length,
                                                                 memory::Intent intent) {
  WEFT_ASSERT(length > 0);
  auto found = pages_.find(virtual_address / kPageBytes);
  if (found == pages_.end()) {
    ++unmapped_errors_;
    if (handler_) handler_(*this, virtual_address);
    found = pages_.find(virtual_address / kPageBytes);
    if (found == pages_.end()) return tl::unexpected(memory::Fault::kUnmapped);
  }
  const LocalPage& local = found->second;
  if (!allows(local.rights, intent)) return tl::unexpected(memory::Fault::kProtection);
  node_.hold(local.frame);
  node_.mark_touched(local.frame, intent);
  const std::size_t offset = virtual_address % kPageBytes;
  return View{node_.bytes(local.frame).data() + offset, std::min(length, kPageBytes - offset),
              local.frame.value};
}

void KernelMemory::unmap(const View& view) {
  node_.release(FrameNumber(static_cast<std::uint32_t>(view.hold)));
}

memory::Fault KernelMemory::check_pages(std::uint64_t virtual_address, std::size_t length,
                                        memory::Intent intent, bool others_may_come) const {
  if (length == 0 || length - 1 > ~virtual_address) return memory::Fault::kUnmapped;
  const std::uint64_t first = virtual_address / kPageBytes;
  const std::uint64_t last = (virtual_address + (length - 1)) / kPageBytes;
  std::uint64_t found = 0;
  // By the mapped pages, which are few, and not by the range, which may be anything.
  for (const auto& [page, local] : pages_) {
    if (page < first || page > last) continue;
    if (!allows(local.rights, intent)) return memory::Fault::kProtection;
    ++found;
  }
  return found == last - first + 1 || others_may_come ? memory::Fault::kNone
                                                      : memory::Fault::kUnmapped;
}

}  // namespace weft::sim
