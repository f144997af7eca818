// A queue pair with nothing under way, whose peer's process ends. As on a wire it notices nothing:
// it stays ready, its receives stay posted and no event is given, until it is used. Then it fails
// like any other whose peer does not answer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "support/neighbour_side.h"

namespace weft::test {
namespace {

enum class Leaves { kExits, kIsKilled, kExecutes };
std::string name_of(Leaves how) {
  constexpr std::array kNames{"exits", "is_killed", "executes"};
  return kNames[static_cast<std::size_t>(how)];
}

/// Two connections: nothing happens on the first, and the second waits for a message to be taken.
void run_leaver(const Wire& wire, Leaves how) {
  Side idle, silent;
  idle.connect(wire);
  silent.connect(wire);
  wire.get<char>();
  switch (how) {
    case Leaves::kExits:
      std::exit(0);
    case Leaves::kIsKilled:
      kill(getpid(), SIGKILL);
      break;
    case Leaves::kExecutes:
      execl("/bin/true", "true", nullptr);
  }
  _exit(9);
}

/// Without a completion, for longer than it takes to give up a dead peer.
bool stays_quiet(Side& side) {
  const bool quiet = !side.cq.wait(200ms);
  return quiet && side.qp.state() == QpState::kReadyToSend && !side.device.next_event();
}

class PeerOfIdle : public testing::TestWithParam<Leaves> {};

TEST_P(PeerOfIdle, leaves_and_is_missed_only_when_it_is_needed) {
  const Leaves how = GetParam();
  Partner leaver([how](const Wire& wire) { run_leaver(wire, how); });
  Partner idler([](const Wire& wire) {
    Side idle, asking;
    Served served(idle);
    Worker worker(idle), asker(asking);
    idle.connect(wire);
    served.post_all();
    asking.connect(wire);
    WEFT_REQUIRE(asking.qp.post_send(asker.out_region.sge(0, 64), 1));
    wire.put('l');
    // This one has work under way: when it fails, the end of the process is known here.
    const Completion failed = asking.wait();
    WEFT_REQUIRE(failed.wr_id == 1 && failed.status == CompletionStatus::kRetryExceeded);
    WEFT_REQUIRE(asking.qp.state() == QpState::kError);
    WEFT_REQUIRE(!asking.device.next_event());
    WEFT_REQUIRE(stays_quiet(idle));

    WEFT_REQUIRE(idle.qp.post_send(worker.out_region.sge(0, 64), 7777));
    const Completion first = idle.wait();
    WEFT_REQUIRE(first.wr_id == 7777 && first.status == CompletionStatus::kRetryExceeded);
    for (std::uint64_t i = 0; i < Served::kMessages; ++i) {
      const Completion receive = idle.wait();
      WEFT_REQUIRE(receive.wr_id == i && receive.status == CompletionStatus::kFlushed);
    }
    WEFT_REQUIRE(idle.qp.state() == QpState::kError);
    WEFT_REQUIRE(!idle.device.next_event());
  });
  introduce(leaver.wire(), idler.wire());
  introduce(leaver.wire(), idler.wire());
  idler.wire().get<char>();
  leaver.wire().put('x');
  leaver.join();
  EXPECT_EQ(idler.join(), 0);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, PeerOfIdle,
                         testing::Values(Leaves::kExits, Leaves::kIsKilled, Leaves::kExecutes),
                         [](const auto& how) { return name_of(how.param); });

/// Everything that the idle end could do without asking: the fast paths have been warmed up.
TEST(NeighbourIdle, fast_paths_that_were_known_end_with_the_peer) {
  Partner target(run_target);
  Partner initiator([](const Wire& wire) {
    Side side, asking;
    Worker worker(side), asker(asking);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    for (unsigned seed = 0; seed < 8; ++seed) WEFT_REQUIRE(worker.round(offer, seed));
    const Sge small = worker.out_region.sge(0, 8);
    for (int i = 0; i < 8; ++i) {
      WEFT_REQUIRE(side.succeeds(side.qp.post_write(small, offer.arena)));
      WEFT_REQUIRE(side.succeeds(side.qp.post_write(small, offer.heap)));
    }
    wire.put('l');
    wire.get<char>();
    // Sooner or later, and from then on; until it is known a write may still find the memory.
    const std::int64_t give_up = now_ms() + 10'000;
    Completion last{};
    do {
      WEFT_REQUIRE(now_ms() < give_up);
      WEFT_REQUIRE(side.qp.post_write(small, offer.arena));
      last = side.wait();
    } while (last.ok());
    WEFT_REQUIRE(last.status == CompletionStatus::kRetryExceeded);
    WEFT_REQUIRE(side.qp.state() == QpState::kError);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  initiator.wire().get<char>();
  target.signal(SIGKILL);
  EXPECT_EQ(target.join(), -1);
  initiator.wire().put('x');
  EXPECT_EQ(initiator.join(), 0);
}

}  // namespace
}  // namespace weft::test
