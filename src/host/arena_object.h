// What the handles of an arena share: its memory, and which stretches of it are free. The books are
// kept in this process's own memory, because peers can write to the arena. Owned by shared_ptr: the
// arena's handles and the regions in it. Any thread. In a child after fork an inherited arena is
// empty for ever: nothing can be allocated, and what is given back is ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <span>
#include <utility>

#include "base/lock.h"
#include "host/shared_memory.h"
#include "weft/result.h"

namespace weft::host {

class ArenaObject final : public std::pmr::memory_resource {
 public:
  static Result<std::shared_ptr<ArenaObject>> create(std::size_t bytes);
  ArenaObject(SharedMemory memory, std::uint32_t number);
  ~ArenaObject() override;

  /// nullptr when no stretch is free, or the alignment is not a power of two up to a page.
  void* take(std::size_t bytes, std::size_t alignment);
  void give_back(void* block);

  const SharedMemory& memory() const { return memory_; }
  std::uint32_t number() const { return number_; }
  std::size_t free_bytes() const;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  // (size, offset) of what is free, so that the smallest stretch that does is found at once.
  using Sizes = std::set<std::pair<std::size_t, std::size_t>>;
  struct Stretch {
    std::size_t size = 0;
    Sizes::node_type parked;  // of a block: its future entry, so that giving back allocates nothing
    bool is_free() const { return parked.empty(); }
  };
  using Stretches = std::map<std::size_t, Stretch>;  // by offset, without gaps

  bool inherited() const;
  void park(Stretches::iterator stretch);
  void release(Stretches::iterator stretch);
  Stretches::iterator cut(Stretches::iterator block, std::size_t offset);
  static Stretch make_block(std::size_t size);

  SharedMemory memory_;
  const std::uint32_t number_;
  const unsigned generation_;

  mutable base::Lock lock_;  // for what follows; all sizes and offsets are whole granules
  Stretches stretches_;      // never two free ones side by side
  Sizes sizes_;
  std::size_t free_bytes_ = 0;
};

}  // namespace weft::host
