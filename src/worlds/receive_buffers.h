// Receive buffers of one queue pair or of one shared receive queue: posts them as scatter lists
// that straddle pages, grants them to the controller exactly while they are posted, and checks that
// each completes once. Owned by an end of a link, or shared by several; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/stage.h"
#include "worlds/node.h"

namespace weft::worlds {

class ReceiveBuffers {
 public:
  struct Buffer {
    std::vector<Sge> sges;
    std::vector<GrantId> grants;
    std::uint64_t ea = 0;
  };
  using Post = std::function<Result<void>(const ReceiveRequest&)>;

  ReceiveBuffers(sim::Stage& stage, Process& process, std::uint32_t card, std::uint32_t count,
                 std::uint32_t bytes, std::uint32_t max_sge);

  /// Posts up to `most` of the buffers that are free.
  void post(std::size_t most, const Post& post);
  /// The buffer that completed; the controller may not write to it any more. nullptr: it was not
  /// posted, or it has completed before.
  const Buffer* completed(std::uint64_t wr_id);
  /// The queue is gone: no completion will come.
  void abandon();
  std::size_t posted() const { return posted_.size(); }
  std::size_t free() const { return free_.size(); }

  /// The first bytes of what a buffer received.
  std::vector<std::byte> content(const Buffer& buffer, std::uint32_t length) const;

 private:
  void scatter(Buffer& buffer);

  sim::Stage& stage_;
  Process& process_;
  const std::uint32_t bytes_, max_sge_;
  std::vector<Buffer> buffers_;
  verbs::MemoryRegion region_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, std::uint32_t> posted_;  ///< by request number
};

/// A shared receive queue of a process on one card, and its buffers.
struct SharedReceive {
  SharedReceive(sim::Stage& stage, Process& process, std::uint32_t card, std::uint32_t bytes);
  ~SharedReceive() { buffers.abandon(); }
  void refill();

  static constexpr std::uint32_t kBuffers = 24;
  static constexpr std::uint32_t kMaxSge = 3;
  verbs::SharedReceiveQueue queue;
  ReceiveBuffers buffers;
};

/// Marks the request numbers of receives.
inline constexpr std::uint64_t kReceiveMark = std::uint64_t{1} << 63;

}  // namespace weft::worlds
