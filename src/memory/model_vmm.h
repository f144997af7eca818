// The two kinds of memory users on a simulated node. ModelProcess: an ordinary process; it names
// memory by effective addresses, which go through its own segment table and therefore reach nothing
// but its own segments. ModelKernel: a kernel-like consumer; it names memory by virtual addresses
// that it has mapped to physical ones with map_local_page(). Both are owned by the simulation, live
// shorter than their node and longer than regions on them; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "memory/model_node.h"
#include "memory/segment_table.h"
#include "memory/vmm.h"
#include "weft/result.h"

namespace weft::memory {

class ModelProcess final : public Vmm {
 public:
  /// Told of each stretch that the controller has written, once the bytes are in place.
  using WriteObserver = std::function<void(ModelProcess&, std::uint64_t ea, std::size_t n)>;

  explicit ModelProcess(ModelNode& node);
  ~ModelProcess() override;

  /// A new segment of this process at a free id; its first effective address.
  Result<std::uint64_t> allocate(std::uint32_t pages, PageRights rights = PageRights::kReadWrite);
  /// Adds, changes and deletes an entry of the segment table; sharing is adding the same segment to
  /// two processes. Returns the first effective address.
  Result<std::uint64_t> set_segment(std::uint32_t id, SegmentNumber segment);
  void delete_segment(std::uint32_t id);
  const SegmentTable& segments() const { return table_; }

  /// From the first opening to the last closing the controller has a context for this process.
  void open_queue_pair(const ModelController::QueuePairNote& note);
  void close_queue_pair(Qpn qpn);
  const ModelController::Context* context() const { return context_; }

  /// The process's own loads and stores; no observer hears of them.
  Fault read(std::uint64_t ea, std::span<std::byte> to);
  Fault write(std::uint64_t ea, std::span<const std::byte> from);
  Fault pin(std::uint64_t ea, std::size_t length);
  void unpin(std::uint64_t ea, std::size_t length);
  tl::expected<VirtualPage, Fault> virtual_page(std::uint64_t ea) const;

  void set_write_observer(WriteObserver observer) { observer_ = std::move(observer); }

  // The controller's accesses on behalf of this process.
  tl::expected<View, Fault> map(std::uint64_t ea, std::size_t length, Intent intent) override;
  void unmap(const View& view) override;
  Fault check(std::uint64_t ea, std::size_t length, Intent intent) override;

 private:
  struct Held {
    std::uint64_t ea;
    FrameNumber frame;
    Intent intent;
  };

  void update(std::uint32_t id, SegmentEntry entry);
  tl::expected<FrameNumber, Fault> translate(std::uint64_t ea, Intent intent);

  ModelNode& node_;
  SegmentTable table_;
  ModelController::Context* context_ = nullptr;
  std::vector<Held> held_;
  std::vector<std::uint32_t> free_held_;
  WriteObserver observer_;
};

class ModelKernel final : public Vmm {
 public:
  /// The default handler of asynchronous errors: an access met a page that was never mapped. It may
  /// map it, and the access goes on.
  using UnmappedHandler = std::function<void(ModelKernel&, std::uint64_t virtual_address)>;

  explicit ModelKernel(ModelNode& node);
  ~ModelKernel() override;

  /// MapLocalPage: both addresses are multiples of the page size; the frame is kept from eviction.
  Result<void> map_local_page(std::uint64_t virtual_address, std::uint64_t physical_address,
                              PageRights rights = PageRights::kReadWrite);
  void unmap_local_page(std::uint64_t virtual_address);
  void set_unmapped_handler(UnmappedHandler handler) { handler_ = std::move(handler); }
  std::uint64_t unmapped_errors() const { return unmapped_errors_; }

  tl::expected<View, Fault> map(std::uint64_t virtual_address, std::size_t length,
                                Intent intent) override;
  void unmap(const View& view) override;
  /// With a handler, pages that are not mapped yet pass: the handler may map them.
  Fault check(std::uint64_t virtual_address, std::size_t length, Intent intent) override {
    return check_pages(virtual_address, length, intent, handler_ != nullptr);
  }
  Fault check_now(std::uint64_t virtual_address, std::size_t length, Intent intent) override {
    return check_pages(virtual_address, length, intent, false);
  }

 private:
  struct LocalPage {
    FrameNumber frame;
    PageRights rights;
  };

  Fault check_pages(std::uint64_t virtual_address, std::size_t length, Intent intent,
                    bool others_may_come) const;

  ModelNode& node_;
  std::unordered_map<std::uint64_t, LocalPage> pages_;
  UnmappedHandler handler_;
  std::uint64_t unmapped_errors_ = 0;
};

}  // namespace weft::memory
