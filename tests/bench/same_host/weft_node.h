// One process's weft for the benchmark: a device, the default one unless told, with what every
// measurement needs, and the usual steps, each of which ends the process when it fails. Owned by
// the function that measures; one thread.
#pragma once

#include <weft/arena.h>
#include <weft/verbs.h>

#include <cstddef>
#include <optional>
#include <utility>

#include "lane.h"
#include "pages.h"

namespace weft::bench {

/// The value, or the end of this process.
template <class T>
T must(Result<T> result, const char* what) {
  if (!result) give_up(what, result.error().message.c_str());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Node {
  explicit Node(const verbs::DeviceOptions& options = {});

  /// A queue pair of this process, connected to the one that the other side makes by the same call.
  verbs::QueuePair connect(const Lane& lane, const QueuePairLimits& limits) const;

  verbs::Device device;
  verbs::ProtectionDomain pd;
  verbs::CompletionQueue send_cq;
  verbs::CompletionQueue receive_cq;
};

enum class Place { kHeap, kArena };

/// Registered memory, all rights granted, of either place.
class Memory {
 public:
  Memory(const Node& node, Place place, std::size_t bytes);

  std::byte* data() const { return data_; }
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(data_); }
  const verbs::MemoryRegion& region() const { return *region_; }

 private:
  std::optional<Arena> arena_;
  Pages heap_;
  std::byte* data_ = nullptr;
  std::optional<verbs::MemoryRegion> region_;
};

/// Spins until a completion is there; a failed one ends this process.
Completion take_completion(const verbs::CompletionQueue& cq);
void expect_good(const Completion& completion);

/// Limits of a queue pair with room for `depth` requests each way, and 8 bytes inline.
QueuePairLimits limits_for(std::uint32_t depth);

/// Which of many small requests ask for a completion: one in this many.
inline constexpr std::uint64_t kSignalEach = 64;
inline SendFlags signalled_each(std::uint64_t i) {
  return i % kSignalEach == 0 ? SendFlags::kInline | SendFlags::kSignaled : SendFlags::kInline;
}

}  // namespace weft::bench
