#include "channel/ring_store.h"

#include <utility>

#include "channel/layout.h"

namespace weft::channel {
namespace {

constexpr int kTrimsUntilUnwanted = 10;
constexpr std::uint64_t kLargeRing = std::uint64_t{32} << 10;
constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

RingStore::~RingStore() {
  finish();
  if (spare_ != nullptr) free(std::move(spare_));
}

std::unique_ptr<Registration> RingStore::make(std::uint64_t bytes, Freed freed) {
  if (freed == Freed::kAtOnce) return make_own(bytes, 0);
  auto made = std::make_unique<Registration>();
  made->block = slab_.allocate(bytes);
  if (made->block.memory == nullptr) return nullptr;
  return made;
}

// Whole pages, and one key for exactly the bytes.
std::unique_ptr<Registration> RingStore::make_own(std::uint64_t bytes, int access) {
  auto made = std::make_unique<Registration>();
  made->block = pages_.allocate(bytes);
  if (made->block.memory == nullptr) return nullptr;
  made->region = ibv_reg_mr(pd_, made->block.memory, bytes, access);
  if (made->region != nullptr) return made;
  pages_.free(made->block);
  return nullptr;
}

LocalKey RingStore::local_key(const Registration& made) {
  return Slab::has_key(made.block) ? Slab::local_key(made.block) : LocalKey(made.region->lkey);
}

std::unique_ptr<Registration> RingStore::make_writable(RingShape shape, bool again, Freed freed) {
  if (again) {
    if (wanted_ != shape && spare_ != nullptr) {
      free(std::move(spare_));
      budget_.give_back(wanted_.taken());
    }
    wanted_ = shape;
    idle_ = 0;
    if (spare_ != nullptr) {
      budget_.give_back(shape.taken());
      return std::exchange(spare_, nullptr);
    }
  }
  // A ring needs no second key. Where pages under a key cannot be changed, a large one had better
  // have none: so it can go.
  const bool alone =
      freed == Freed::kAtOnce || (!slab_.has_arenas() && shape.bytes() >= kLargeRing);
  auto made = alone ? make_own(shape.bytes(), kWritable) : make(shape.bytes(), Freed::kSometime);
  if (made == nullptr) return nullptr;
  if (!alone) made->region = ibv_reg_mr(pd_, made->block.memory, shape.bytes(), kWritable);
  if (made->region == nullptr) {
    slab_.free(made->block);
    return nullptr;
  }
  clear(made->block.memory, shape);
  return made;
}

void RingStore::clear(std::byte* memory, RingShape shape) {
  for (std::uint32_t i = 1; i <= shape.slots; ++i) {
    store(memory + std::size_t{i} * shape.slot_bytes - kTailBytes, std::uint64_t{0});
  }
}

void RingStore::revoke(Registration& made) {
  if (made.region != nullptr) ibv_dereg_mr(made.region);
  made.region = nullptr;
}

void RingStore::free(std::unique_ptr<Registration> made) {
  revoke(*made);
  (Slab::has_key(made->block) ? slab_ : pages_).free(made->block);
}

void RingStore::free_later(std::unique_ptr<Registration> made, std::uint64_t charged) {
  waiting_.push_back({std::move(made), charged});
}

void RingStore::free_oldest() {
  Waiting oldest = std::move(waiting_.front());
  waiting_.pop_front();
  free(std::move(oldest.made));
  budget_.give_back(oldest.charged);
}

bool RingStore::do_chore() {
  if (!waiting_.empty()) {
    free_oldest();
    return true;
  }
  if (wanted_.slots == 0 || spare_ != nullptr) return false;
  const RingShape shape = std::exchange(wanted_, {});
  if (!budget_.take_spare(shape.taken())) return true;
  spare_ = make_writable(shape, false, Freed::kSometime);
  if (spare_ != nullptr) {
    wanted_ = shape;
  } else {
    budget_.give_back(shape.taken());
  }
  return true;
}

void RingStore::finish() {
  while (!waiting_.empty()) free_oldest();
}

void RingStore::trim() {
  finish();
  pages_.trim();
  if (wanted_.slots == 0 || ++idle_ < kTrimsUntilUnwanted) return;
  if (spare_ != nullptr) {
    free(std::move(spare_));
    budget_.give_back(wanted_.taken());
  }
  wanted_ = {};
}

}  // namespace weft::channel
