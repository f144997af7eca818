// Memory that is taken back while another process writes to it without a pause: when the call or
// the work that takes it back has ended, not one byte more lands.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <optional>
#include <string>
#include <tuple>

#include "support/hammered_memory.h"

namespace weft::test {
namespace {

/// Unreliable, as a refused write would end a reliable connection.
constexpr verbs::QueuePairOptions kUnreliable{.service = Service::kUnreliableConnection};
constexpr int kTurns = 300;
constexpr int kFewestTurns = 10;  ///< however long they take
constexpr auto kTimePerWay = 600ms;

enum class Way : std::uint8_t {
  kDeregister,
  kUnmap,       ///< deregister, and other memory takes the place
  kReregister,  ///< under a new key, for reading only
  kInvalidate,  ///< a window of type 2, by work on the send queue
  kUnbind,      ///< a window of type 1, likewise
  kRebind,      ///< the same to other memory
  kDeallocate,  ///< the window goes
};

struct Outcome {
  int turns, landed;
  bool guards_intact;
};

void run_writer(const Wire& wire, Mailbox<Anvil>& anvil) {
  Side side(kUnreliable);
  Hammer hammer(side.pd);
  side.connect(wire);
  while (!anvil->over.load(std::memory_order_relaxed)) hammer.swing(side.qp, side.cq, *anvil);
}

class Owner {
 public:
  Owner(const Wire& wire, Way way, MemoryKind kind, Mailbox<Anvil>& anvil)
      : way_(way), anvil_(anvil), side_(kUnreliable), memory_(kind, kHammeredBytes) {
    side_.connect(wire);
    run_on_processor(0);
  }

  Outcome run() {
    Outcome outcome{};
    const auto end = Hammered::Clock::now() + kTimePerWay;
    while (outcome.turns < kTurns &&
           (outcome.turns < kFewestTurns || Hammered::Clock::now() < end)) {
      ++outcome.turns;
      if (!turn()) ++outcome.landed;
    }
    anvil_->over.store(true);
    outcome.guards_intact = memory_.guards_intact() && other_.guards_intact();
    return outcome;
  }

 private:
  /// False: a byte landed too late.
  bool turn() {
    if (way_ == Way::kUnmap) map();
    const Hammered bytes(way_ == Way::kUnmap ? std::span(mapped_, kHammeredBytes)
                                             : memory_.bytes());
    bytes.fill(std::byte{0});
    region_ = *side_.pd.register_memory(bytes.data(), kHammeredBytes, kAllAccess);
    anvil_->set(grant());
    WEFT_REQUIRE(bytes.wait_for_writes(side_.cq));
    Hammered::spin(std::chrono::microseconds(random_() % 100));
    take_back();
    const bool clean = bytes.stays_as_it_is();
    window_.reset();
    region_.reset();
    return clean;
  }

  RemoteAddress grant() {
    if (way_ <= Way::kReregister) return region_->remote();
    window_ = *side_.pd.allocate_window(way_ == Way::kInvalidate ? verbs::WindowType::kType2
                                                                 : verbs::WindowType::kType1);
    do_work(window_->bind_request(*region_, 0, kHammeredBytes, Access::kRemoteWrite));
    return {region_->address(), window_->rkey()};
  }

  void take_back() {
    SendRequest invalidate;
    switch (way_) {
      case Way::kDeregister:
        return region_.reset();
      case Way::kUnmap:
        WEFT_REQUIRE(region_->deregister());
        return map();
      case Way::kReregister:
        region_ = *side_.pd.register_memory(memory_.data(), kHammeredBytes, Access::kRemoteRead);
        return;
      case Way::kInvalidate:
        invalidate.op = SendOp::kLocalInvalidate;
        invalidate.invalidate_key = window_->rkey();
        return do_work(invalidate);
      case Way::kUnbind:
        return do_work(window_->bind_request(*region_, 0, 0, Access::kNone));
      case Way::kRebind:
        return do_work(window_->bind_request(other_region_, 0, 4096, Access::kRemoteWrite));
      case Way::kDeallocate:
        return window_.reset();
    }
  }

  void do_work(const SendRequest& request) {
    WEFT_REQUIRE(side_.qp.post_send(request));
    WEFT_REQUIRE(side_.wait().ok());
  }

  /// Fresh memory at the same place.
  void map() {
    void* at = mmap(mapped_, kHammeredBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | (mapped_ != nullptr ? MAP_FIXED : 0), -1, 0);
    WEFT_REQUIRE(at != MAP_FAILED);
    mapped_ = static_cast<std::byte*>(at);
  }

  const Way way_;
  Mailbox<Anvil>& anvil_;
  Side side_;
  const GuardedMemory memory_;
  const GuardedMemory other_{MemoryKind::kHeap, 4096};
  const verbs::MemoryRegion other_region_ = other_.grant(side_.pd, kAllAccess);
  std::byte* mapped_ = nullptr;
  std::optional<verbs::MemoryRegion> region_;
  std::optional<verbs::MemoryWindow> window_;
  std::mt19937 random_{std::random_device()()};
};

class NeighbourRevocation : public testing::TestWithParam<std::tuple<Way, MemoryKind>> {};

TEST_P(NeighbourRevocation, lets_nothing_land_afterwards) {
  const auto [way, kind] = GetParam();
  Mailbox<Anvil> anvil;
  Partner writer([&](const Wire& wire) { run_writer(wire, anvil); });
  Partner owner(
      [&, w = way, k = kind](const Wire& wire) { wire.put(Owner(wire, w, k, anvil).run()); });
  introduce(owner.wire(), writer.wire());
  Outcome outcome{};
  ASSERT_TRUE(owner.wire().get(&outcome));
  EXPECT_EQ(outcome.landed, 0) << "of " << outcome.turns;
  EXPECT_GE(outcome.turns, kFewestTurns);
  EXPECT_TRUE(outcome.guards_intact);
  EXPECT_EQ(owner.join(), 0);
  EXPECT_EQ(writer.join(), 0);
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Way, MemoryKind>>& info) {
  constexpr std::array kNames{"deregister", "unmap",  "reregister", "invalidate",
                              "unbind",     "rebind", "deallocate"};
  const auto [way, kind] = info.param;
  return std::string(kNames[static_cast<std::size_t>(way)]) + "_" + name_of(kind);
}
INSTANTIATE_TEST_SUITE_P(Heap, NeighbourRevocation,
                         testing::Combine(testing::Values(Way::kDeregister, Way::kUnmap,
                                                          Way::kReregister, Way::kInvalidate,
                                                          Way::kUnbind, Way::kRebind,
                                                          Way::kDeallocate),
                                          testing::Values(MemoryKind::kHeap)),
                         name_of_case);
// Memory of an arena is never unmapped while somebody may use it.
INSTANTIATE_TEST_SUITE_P(Arena, NeighbourRevocation,
                         testing::Combine(testing::Values(Way::kDeregister, Way::kReregister,
                                                          Way::kInvalidate, Way::kUnbind,
                                                          Way::kRebind, Way::kDeallocate),
                                          testing::Values(MemoryKind::kArena)),
                         name_of_case);

}  // namespace
}  // namespace weft::test
