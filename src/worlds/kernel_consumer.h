// A consumer of kernel kind on a simulated node. It uses a controller as a process does: it has a
// protection domain, creates queue pairs, posts, polls and binds. But it names memory by virtual
// addresses, each of which it has mapped to a physical page by MapLocalPage, and peers get opaque
// addresses for them. Whoever reaches an address that is not mapped gives the controller an
// asynchronous event with that address; the default handler then runs and may map it, and the
// access goes on. Otherwise the request fails as with any memory that is not there. Owned by its
// node, lives shorter than the controller and the node's memory; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/kernel_memory.h"
#include "verbs/controller.h"
#include "weft/verbs.h"

namespace weft::worlds {

class KernelConsumer {
 public:
  /// Runs when an event waits; fetches it by next_event() and may map the page.
  using DefaultHandler = std::function<void(KernelConsumer&)>;

  KernelConsumer(sim::NodeMemory& memory, std::shared_ptr<verbs::Controller> controller);
  ~KernelConsumer();
  KernelConsumer(const KernelConsumer&) = delete;
  KernelConsumer& operator=(const KernelConsumer&) = delete;

  const verbs::Device& device() const { return device_; }
  const verbs::ProtectionDomain& domain() const { return *domain_; }

  /// Virtual addresses as peers may know them: by an address that tells nothing.
  Result<verbs::MemoryRegion> register_virtual(std::uint64_t address, std::uint64_t length,
                                               Access access) const {
    return domain_->register_range(address, length, access | Access::kOpaqueAddress);
  }
  /// MapLocalPage, to a physical page of its own.
  Result<void> map_page(std::uint64_t virtual_address,
                        sim::PageRights rights = sim::PageRights::kReadWrite);
  void unmap_page(std::uint64_t virtual_address);
  /// Its own loads and stores; no event comes of them.
  memory::Fault read(std::uint64_t address, std::span<std::byte> to);
  memory::Fault write(std::uint64_t address, std::span<const std::byte> from);

  void set_default_handler(DefaultHandler handler) { handler_ = std::move(handler); }
  /// The oldest event of its controller.
  std::optional<verbs::AsyncEvent> next_event() const { return device_.next_event(); }
  std::uint64_t unmapped_errors() const { return vmm_.unmapped_errors(); }

 private:
  /// copy(bytes of a mapped page, how many came before) for each page of the range.
  template <class Copy>
  memory::Fault for_each_page(std::uint64_t address, std::size_t length, Copy copy);

  sim::NodeMemory& memory_;
  sim::KernelMemory vmm_;
  verbs::Device device_;
  std::optional<verbs::ProtectionDomain> domain_;
  std::unordered_map<std::uint64_t, sim::FrameNumber> pages_;  ///< by virtual address
  std::vector<sim::FrameNumber> retired_;  ///< the controller may look at them for a moment
  DefaultHandler handler_;
};

}  // namespace weft::worlds
