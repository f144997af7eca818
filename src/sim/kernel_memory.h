// Memory of a kernel-like consumer on a simulated node: it names memory by virtual addresses that
// it has mapped to physical ones with map_local_page(). Owned by the simulation, lives shorter than
// its node and longer than regions on it; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "memory/vmm.h"
#include "sim/node_memory.h"
#include "weft/result.h"

namespace weft::sim {

class KernelMemory final : public memory::Vmm {
 public:
  /// The default handler of asynchronous errors: an access met a page that was never mapped. It may
  /// map it, and the access goes on.
  using UnmappedHandler = std::function<void(KernelMemory&, std::uint64_t virtual_address)>;

  explicit KernelMemory(NodeMemory& node);
  ~KernelMemory() override;

  /// MapLocalPage: both addresses are multiples of the page size; the frame is kept from eviction.
  Result<void> map_local_page(std::uint64_t virtual_address, std::uint64_t physical_address,
                              PageRights rights = PageRights::kReadWrite);
  void unmap_local_page(std::uint64_t virtual_address);
  void set_unmapped_handler(UnmappedHandler handler) { handler_ = std::move(handler); }
  std::uint64_t unmapped_errors() const { return unmapped_errors_; }

  tl::expected<View, memory::Fault> map(std::uint64_t virtual_address, std::size_t length,
                                        memory::Intent intent) override;
  void unmap(const View& view) override;
  /// With a handler, pages that are not mapped yet pass: the handler may map them.
  memory::Fault check(std::uint64_t virtual_address, std::size_t length,
                      memory::Intent intent) override {
    return check_pages(virtual_address, length, intent, handler_ != nullptr);
  }
  memory::Fault check_now(std::uint64_t virtual_address, std::size_t length,
                          memory::Intent intent) override {
    return check_pages(virtual_address, length, intent, false);
  }

 private:
  struct LocalPage {
    FrameNumber frame;
    PageRights rights;
  };

  memory::Fault check_pages(std::uint64_t virtual_address, std::size_t length,
                            memory::Intent intent, bool others_may_come) const;

  NodeMemory& node_;
  std::unordered_map<std::uint64_t, LocalPage> pages_;
  UnmappedHandler handler_;
  std::uint64_t unmapped_errors_ = 0;
};

}  // namespace weft::sim
