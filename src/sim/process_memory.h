// Memory of an ordinary process on a simulated node: it names memory by effective addresses, which
// go through its own segment table and therefore reach nothing but its own segments. Owned by the
// simulation, lives shorter than its node and longer than regions on it; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "memory/vmm.h"
#include "sim/node_memory.h"
#include "sim/segment_table.h"
#include "weft/result.h"

namespace weft::sim {

class ProcessMemory final : public memory::Vmm {
 public:
  /// Told of each stretch that the controller has written, once the bytes are in place.
  using WriteObserver = std::function<void(ProcessMemory&, std::uint64_t ea, std::size_t n)>;

  explicit ProcessMemory(NodeMemory& node);
  ~ProcessMemory() override;

  /// A new segment of this process at a free id; its first effective address.
  Result<std::uint64_t> allocate(std::uint32_t pages, PageRights rights = PageRights::kReadWrite);
  /// Adds, changes and deletes an entry of the segment table; sharing is adding the same segment to
  /// two processes. Returns the first effective address.
  Result<std::uint64_t> set_segment(std::uint32_t id, SegmentNumber segment);
  void delete_segment(std::uint32_t id);
  const SegmentTable& segments() const { return table_; }

  /// From the first opening to the last closing the controller has a context for this process.
  void open_queue_pair(const ControllerTables::QueuePairNote& note);
  void close_queue_pair(Qpn qpn);
  const ControllerTables::Context* context() const { return context_; }

  /// The process's own loads and stores; no observer hears of them.
  memory::Fault read(std::uint64_t ea, std::span<std::byte> to);
  memory::Fault write(std::uint64_t ea, std::span<const std::byte> from);
  memory::Fault pin(std::uint64_t ea, std::size_t length);
  void unpin(std::uint64_t ea, std::size_t length);
  tl::expected<VirtualPage, memory::Fault> virtual_page(std::uint64_t ea) const;

  void set_write_observer(WriteObserver observer) { observer_ = std::move(observer); }

  // The controller's accesses on behalf of this process.
  tl::expected<View, memory::Fault> map(std::uint64_t ea, std::size_t length,
                                        memory::Intent intent) override;
  void unmap(const View& view) override;
  memory::Fault check(std::uint64_t ea, std::size_t length, memory::Intent intent) override;

 private:
  struct Held {
    std::uint64_t ea;
    FrameNumber frame;
    memory::Intent intent;
  };

  void update(std::uint32_t id, SegmentEntry entry);
  tl::expected<FrameNumber, memory::Fault> translate(std::uint64_t ea, memory::Intent intent);

  NodeMemory& node_;
  SegmentTable table_;
  ControllerTables::Context* context_ = nullptr;
  std::vector<Held> held_;
  std::vector<std::uint32_t> free_held_;
  WriteObserver observer_;
};

}  // namespace weft::sim
