// An end of a connection that leaves it, or a writer that is stopped or killed, while writes go on
// without a pause: the owner of the memory gets it back for good, and waits for it exactly as long
// as somebody may still be writing.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <tuple>

#include "support/hammered_memory.h"

namespace weft::test {
namespace {

/// A region under a writer's hammer, in the owner's process.
class LeavingOwner {
 public:
  LeavingOwner(const Wire& wire, MemoryKind kind, Mailbox<Anvil>& anvil)
      : wire_(wire), anvil_(anvil), memory_(kind, kHammeredBytes) {
    run_on_processor(0);
  }

  /// A new connection, and writes that come through it.
  void begin() {
    side_.qp = *side_.pd.create_queue_pair(side_.cq, side_.cq, kUnreliable);
    side_.connect(wire_);
    bytes_.fill(std::byte{0});
    region = memory_.grant(side_.pd, kAllAccess);
    anvil_->set(region->remote());
    WEFT_REQUIRE(bytes_.wait_for_writes(side_.cq));
    Hammered::spin(std::chrono::microseconds(random_() % 100));
  }
  verbs::QueuePair& qp() { return side_.qp; }
  const verbs::ProtectionDomain& pd() { return side_.pd; }
  bool stays_as_it_is() const { return bytes_.stays_as_it_is() && memory_.guards_intact(); }
  void end() {
    anvil_->key.store(0);
    region.reset();
  }
  std::uint32_t draw() { return static_cast<std::uint32_t>(random_()); }

  static constexpr verbs::QueuePairOptions kUnreliable{.service = Service::kUnreliableConnection};
  std::optional<verbs::MemoryRegion> region;

 private:
  const Wire& wire_;
  Mailbox<Anvil>& anvil_;
  Side side_;
  const GuardedMemory memory_;
  const Hammered bytes_{memory_.bytes()};
  std::mt19937 random_{std::random_device()()};
};

// ---- leaving the connection -------------------------------------------------------------------

enum class Exit : std::uint8_t { kError, kReset, kDestroy };
constexpr int kExits = 40;

/// Writes through one connection until told to stop.
void run_leavers_writer(const Wire& wire, Mailbox<Anvil>& anvil) {
  Side side(LeavingOwner::kUnreliable);
  Hammer hammer(side.pd);
  side.connect(wire);
  while (!said_something(wire)) hammer.swing(side.qp, side.cq, *anvil);
}

/// The same through one connection after the other.
void run_steady_writer(const Wire& wire, Mailbox<Anvil>& anvil) {
  Side side;
  Hammer hammer(side.pd);
  for (int i = 0; i < kExits; ++i) {
    side.qp = *side.pd.create_queue_pair(side.cq, side.cq, LeavingOwner::kUnreliable);
    side.connect(wire);
    while (!said_something(wire)) hammer.swing(side.qp, side.cq, *anvil);
    wire.get<char>();
  }
}

void leave(verbs::QueuePair& qp, Exit exit) {
  switch (exit) {
    case Exit::kError:
      return WEFT_REQUIRE(qp.modify(QpState::kError));
    case Exit::kReset:
      return WEFT_REQUIRE(qp.modify(QpState::kReset));
    case Exit::kDestroy:
      static_cast<void>(verbs::QueuePair(std::move(qp)));
  }
}

class Leaving : public testing::TestWithParam<std::tuple<Exit, MemoryKind>> {};

TEST_P(Leaving, lets_nothing_land_afterwards) {
  // The region lives on, but nobody reaches it through a queue pair that is gone.
  const auto [exit, kind] = GetParam();
  Mailbox<Anvil> anvil;
  Partner writer([&](const Wire& wire) { run_steady_writer(wire, anvil); });
  Partner partner([&, how = exit, of = kind](const Wire& wire) {
    LeavingOwner owner(wire, of, anvil);
    for (int i = 0; i < kExits; ++i) {
      owner.begin();
      leave(owner.qp(), how);
      wire.put(owner.stays_as_it_is());
      owner.end();
    }
  });
  int landed = 0;
  for (int i = 0; i < kExits; ++i) {
    introduce(partner.wire(), writer.wire());
    bool clean = false;
    ASSERT_TRUE(partner.wire().get(&clean));
    if (!clean) ++landed;
    writer.wire().put('x');
  }
  EXPECT_EQ(landed, 0) << "of " << kExits;
  EXPECT_EQ(partner.join(), 0);
  EXPECT_EQ(writer.join(), 0);
}
std::string name_of_exit(const testing::TestParamInfo<std::tuple<Exit, MemoryKind>>& info) {
  constexpr std::array kNames{"error", "reset", "destroy"};
  const auto [exit, kind] = info.param;
  return std::string(kNames[static_cast<std::size_t>(exit)]) + "_" + name_of(kind);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, Leaving,
                         testing::Combine(testing::Values(Exit::kError, Exit::kReset,
                                                          Exit::kDestroy),
                                          testing::Values(MemoryKind::kHeap, MemoryKind::kArena)),
                         name_of_exit);

// ---- writers that are stopped or killed -------------------------------------------------------

class Writer : public testing::TestWithParam<MemoryKind> {};

/// Kills the process and takes the memory back at once: a thread of it may still be in the kernel.
TEST_P(Writer, that_is_killed_writes_nothing_afterwards) {
  constexpr int kDeaths = 40;
  Mailbox<Anvil> anvil;
  Partner partner([&](const Wire& wire) {
    LeavingOwner owner(wire, GetParam(), anvil);
    for (int i = 0; i < kDeaths; ++i) {
      const auto writer = wire.get<pid_t>();
      owner.begin();
      ::kill(writer, SIGKILL);
      Hammered::spin(std::chrono::microseconds(owner.draw() % 20));
      owner.region.reset();
      wire.put(owner.stays_as_it_is());
      owner.end();
    }
  });
  int landed = 0;
  for (int i = 0; i < kDeaths; ++i) {
    Partner writer([&](const Wire& wire) { run_leavers_writer(wire, anvil); });
    partner.wire().put(writer.pid());
    introduce(partner.wire(), writer.wire());
    bool clean = false;
    ASSERT_TRUE(partner.wire().get(&clean));
    if (!clean) ++landed;
    EXPECT_EQ(writer.join(), -1);
  }
  EXPECT_EQ(landed, 0) << "of " << kDeaths;
  EXPECT_EQ(partner.join(), 0);
}

/// How a revocation went that began while the writer was stopped.
struct Stop {
  bool waited;   ///< the writer was stopped in the middle of a write
  bool in_time;  ///< it ended when the writer went on, or died
  bool clean;
};

Stop revoke_under_stopped_writer(LeavingOwner& owner, pid_t writer, int ended_by) {
  Stop stop{};
  ::kill(writer, SIGSTOP);
  std::this_thread::sleep_for(10ms);  // until all of its threads stand
  auto revocation = std::async(std::launch::async, [&] { owner.region.reset(); });
  stop.waited = revocation.wait_for(150ms) == std::future_status::timeout;
  ::kill(writer, ended_by);
  stop.in_time = revocation.wait_for(5s) == std::future_status::ready;
  WEFT_REQUIRE(stop.in_time);
  stop.clean = owner.stays_as_it_is();
  return stop;
}

/// Stopped between its look at the key and the end of its copy, the writer holds the owner up.
TEST_P(Writer, that_is_stopped_in_the_middle_is_waited_for_until_it_goes_on_or_dies) {
  constexpr int kTries = 40;
  Mailbox<Anvil> anvil;
  Partner partner([&](const Wire& wire) {
    LeavingOwner owner(wire, GetParam(), anvil);
    for (;;) {
      const auto writer = wire.get<pid_t>();
      if (writer == 0) return;
      const auto ended_by = wire.get<int>();
      owner.begin();
      wire.put(revoke_under_stopped_writer(owner, writer, ended_by));
      owner.end();
    }
  });
  for (const int ended_by : {SIGCONT, SIGKILL}) {
    bool waited = false;
    for (int i = 0; i < kTries && !waited; ++i) {
      Partner writer([&](const Wire& wire) { run_leavers_writer(wire, anvil); });
      partner.wire().put(writer.pid());
      partner.wire().put(ended_by);
      introduce(partner.wire(), writer.wire());
      Stop stop{};
      ASSERT_TRUE(partner.wire().get(&stop));
      EXPECT_TRUE(stop.in_time && stop.clean);
      waited = stop.waited;
    }
    EXPECT_TRUE(waited) << "never in the middle of a write, in " << kTries << " tries";
  }
  partner.wire().put(pid_t{0});
  EXPECT_EQ(partner.join(), 0);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, Writer, testing::Values(MemoryKind::kHeap, MemoryKind::kArena),
                         [](const auto& kind) { return name_of(kind.param); });

}  // namespace
}  // namespace weft::test
