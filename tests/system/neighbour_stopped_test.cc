// SIGSTOP between processes of one host: the memory of a stopped target can be read and written,
// its messages wait for it, and a stopped initiator holds up nobody but itself.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "support/neighbour_side.h"

namespace weft::test {
namespace {

/// The kernel's word for what a process does; the number behind the name, which may hold spaces.
char state_of(pid_t process) {
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), line);
  const auto at = line.rfind(')');
  return at == std::string::npos || at + 2 >= line.size() ? '?' : line[at + 2];
}

void stop(const Partner& partner) {
  partner.signal(SIGSTOP);
  for (int i = 0; i < 2000 && state_of(partner.pid()) != 'T'; ++i) {
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_EQ(state_of(partner.pid()), 'T');
}

TEST(NeighbourStopped, targets_memory_is_read_and_written) {
  // B4.8: the initiator does the work; the target's processor takes no part.
  Partner target(run_target);
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side, 1'000'000);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    WEFT_REQUIRE(worker.round(offer, 1));
    wire.sync();  // now it stands still
    for (const RemoteAddress& remote : {offer.heap, offer.arena}) {
      for (unsigned seed = 2; seed < 6; ++seed) {
        fill(worker.out, seed);
        WEFT_REQUIRE(side.succeeds(side.qp.post_write(worker.out_region.sge(), remote)));
        WEFT_REQUIRE(side.succeeds(side.qp.post_read(worker.in_region.sge(), remote)));
        WEFT_REQUIRE(worker.in == worker.out);
      }
    }
    WEFT_REQUIRE(worker.adds(offer.arena));
    // A message waits, and what stands behind it too: nothing is overtaken.
    fill(worker.out, 9);
    WEFT_REQUIRE(side.qp.post_send(worker.out_region.sge(0, 64), 1));
    WEFT_REQUIRE(side.qp.post_write(worker.out_region.sge(), offer.heap, 2));
    WEFT_REQUIRE(!side.cq.wait(300ms));
    wire.sync();  // now it goes on
    WEFT_REQUIRE(side.wait().wr_id == 1);
    const Completion last = side.wait();
    WEFT_REQUIRE(last.ok() && last.wr_id == 2);
    WEFT_REQUIRE(worker.round(offer, 10));
    leave_last(wire);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  initiator.wire().get<char>();
  stop(target);
  initiator.wire().put('x');
  char said = 0;
  EXPECT_TRUE(initiator.wire().get(&said));
  EXPECT_EQ(state_of(target.pid()), 'T');
  target.signal(SIGCONT);
  initiator.wire().put('x');
  finish(target, initiator);
}

TEST(NeighbourStopped, initiator_in_the_middle_holds_up_nobody_else) {
  Partner target([](const Wire& wire) {
    Side to_first, to_second;
    Served for_first(to_first), for_second(to_second);
    to_first.connect(wire);
    for_first.post_all();
    wire.put(for_first.offer());
    to_second.connect(wire);
    for_second.post_all();
    wire.put(for_second.offer());
    std::int64_t first_failed = 0;
    while (for_second.receive(wire) != 's') {
    }
    // Memory that the stopped one has no part in is registered and revoked at once.
    const std::int64_t before = now_ms();
    std::vector<std::byte> own(100'000);
    for (int i = 0; i < 100; ++i) WEFT_REQUIRE(to_second.pd.register_memory(own, kAllAccess));
    WEFT_REQUIRE(now_ms() - before < 1000 * kSlowness);
    wire.put('r');
    while (for_second.receive(wire) != 'd') {
    }
    static_cast<void>(for_first.receive(wire, &first_failed));
  });
  Partner stopped([](const Wire& wire) {
    Side side;
    Worker worker(side, 1'000'000);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    for (unsigned seed = 0;; ++seed) {
      WEFT_REQUIRE(worker.round(offer, seed));
      pollfd said{wire.fd(), POLLIN, 0};
      if (::poll(&said, 1, 0) == 1) break;
    }
  });
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    for (unsigned seed = 0; seed < 200; ++seed) WEFT_REQUIRE(worker.round(offer, seed));
    leave_last(wire);
  });
  introduce(target.wire(), stopped.wire());
  stopped.wire().put(target.wire().get<Offer>());
  introduce(target.wire(), initiator.wire());
  const auto offer = target.wire().get<Offer>();
  std::this_thread::sleep_for(20ms);
  stop(stopped);
  const std::int64_t began = now_ms();
  initiator.wire().put(offer);
  target.wire().put('s');
  EXPECT_EQ(target.wire().get<char>(), 'r');
  char said = 0;
  EXPECT_TRUE(initiator.wire().get(&said));
  EXPECT_LT(now_ms() - began, 5000 * kSlowness);
  EXPECT_EQ(state_of(stopped.pid()), 'T');
  // It goes on as if nothing had happened.
  stopped.signal(SIGCONT);
  std::this_thread::sleep_for(20ms);
  stopped.wire().put('d');
  EXPECT_EQ(stopped.join(), 0);
  target.wire().put('d');
  target.wire().put('d');
  EXPECT_EQ(target.join(), 0);
  initiator.wire().put('d');
  EXPECT_EQ(initiator.join(), 0);
}

}  // namespace
}  // namespace weft::test
