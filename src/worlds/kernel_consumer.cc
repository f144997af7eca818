#include "worlds/kernel_consumer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "verbs/objects.h"

namespace weft::worlds {

using memory::Fault;
using sim::FrameNumber;
using sim::kPageBytes;

KernelConsumer::KernelConsumer(sim::NodeMemory& memory,
                               std::shared_ptr<verbs::Controller> controller)
    : memory_(memory), vmm_(memory), device_(std::move(controller)) {
  auto object = std::make_shared<verbs::PdObject>();
  object->controller = device_.controller();
  object->id = device_.controller()->new_pd();
  object->space = &vmm_;
  domain_.emplace(std::move(object));
  vmm_.set_unmapped_handler([this](sim::KernelMemory&, std::uint64_t address) {
    device_.controller()->events().on_unmapped_page(address);
    if (handler_) handler_(*this);
  });
}

KernelConsumer::~KernelConsumer() {
  while (!pages_.empty()) unmap_page(pages_.begin()->first);
  for (const FrameNumber frame : retired_) memory_.free_frame(frame);
}

Result<void> KernelConsumer::map_page(std::uint64_t virtual_address, sim::PageRights rights) {
  const auto frame = memory_.allocate_frame();
  if (!frame) return fail(Errc::kOutOfMemory, "no page frame is free");
  unmap_page(virtual_address);
  auto mapped =
      vmm_.map_local_page(virtual_address, std::uint64_t{frame->value} * kPageBytes, rights);
  if (mapped) {
    pages_.emplace(virtual_address, *frame);
  } else {
    memory_.free_frame(*frame);
  }
  return mapped;
}

void KernelConsumer::unmap_page(std::uint64_t virtual_address) {
  const auto found = pages_.find(virtual_address);
  if (found == pages_.end()) return;
  vmm_.unmap_local_page(virtual_address);
  retired_.push_back(found->second);
  pages_.erase(found);
}

template <class Copy>
Fault KernelConsumer::for_each_page(std::uint64_t address, std::size_t length, Copy copy) {
  for (std::size_t done = 0; done < length;) {
    const std::size_t offset = (address + done) % kPageBytes;
    const std::size_t n = std::min(length - done, kPageBytes - offset);
    const auto page = pages_.find(address + done - offset);
    if (page == pages_.end()) return Fault::kUnmapped;
    copy(memory_.bytes(page->second).subspan(offset, n), done);
    done += n;
  }
  return Fault::kNone;
}

Fault KernelConsumer::read(std::uint64_t address, std::span<std::byte> to) {
  return for_each_page(address, to.size(), [&](std::span<std::byte> page, std::size_t done) {
    std::memcpy(to.data() + done, page.data(), page.size());
  });
}

Fault KernelConsumer::write(std::uint64_t address, std::span<const std::byte> from) {
  return for_each_page(address, from.size(), [&](std::span<std::byte> page, std::size_t done) {
    std::memcpy(page.data(), from.data() + done, page.size());
  });
}

}  // namespace weft::worlds
