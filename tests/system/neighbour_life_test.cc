// fork, spawn and exit between processes of one host: a child owns nothing of its parent's
// connections and harms nothing, and whoever goes in the middle of a transfer is noticed.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "support/neighbour_side.h"

namespace {
bool is_child_of_threads = false;
}
#if defined(__SANITIZE_ADDRESS__)
// What the parent's other threads had allocated for themselves is a leak in a child that exits.
extern "C" int __lsan_is_turned_off() { return is_child_of_threads ? 1 : 0; }
#endif

namespace weft::test {
namespace {

/// What the child of a test does with what it inherited.
enum class Child { kDestroys, kExits, kUses, kTalks };
std::string name_of(Child child) {
  constexpr std::array kNames{"destroys", "exits", "uses", "talks"};
  return kNames[static_cast<std::size_t>(child)];
}

bool ends_well(pid_t child) {
  for (int waited_ms = 0; waited_ms < 10'000; ++waited_ms) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    std::this_thread::sleep_for(1ms);
  }
  std::fprintf(stderr, "child %d hangs\n", child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return false;
}

/// All of it in the child: two queue pairs of a device of its own.
bool talks_to_itself() {
  auto device = verbs::Device::open();
  if (!device) return false;
  auto pd = *device->allocate_pd();
  auto cq = *device->create_cq(16);
  auto pair = pd.create_connected_pair(cq);
  std::array<std::byte, 64> bytes{};
  auto region = pd.register_memory(bytes, kAllAccess);
  if (!pair || !region || !pair->second.post_receive(region->sge(32, 32)) ||
      !pair->first.post_send(region->sge(0, 32))) {
    return false;
  }
  return cq.wait(5s) && cq.wait(5s);
}

void be_child(Child kind, std::unique_ptr<Side>& side, std::unique_ptr<Worker>& worker,
              const Offer& offer) {
  alarm(20);
  is_child_of_threads = true;
  switch (kind) {
    case Child::kDestroys:
      worker.reset();
      side.reset();
      _exit(0);
    case Child::kExits:
      std::exit(0);
    case Child::kUses: {
      // Everything is refused, or does nothing; it never reaches the parent's peer.
      std::fill(worker->out.begin(), worker->out.end(), std::byte{0xEE});
      static_cast<void>(side->qp.post_send(worker->out_region.sge(0, 64)));
      static_cast<void>(side->qp.post_write(worker->out_region.sge(), offer.arena));
      static_cast<void>(side->qp.post_write(worker->out_region.sge(), offer.heap));
      for (int i = 0; i < 100; ++i) side->cq.poll();
      const bool refused = !side->qp.modify(QpState::kError) &&
                           !side->pd.register_memory(worker->in, kAllAccess) &&
                           !side->pd.create_queue_pair(side->cq, side->cq);
      _exit(refused ? 0 : 1);
    }
    case Child::kTalks:
      _exit(talks_to_itself() ? 0 : 1);
  }
  _exit(9);
}

class ForkedChild : public testing::TestWithParam<Child> {};

TEST_P(ForkedChild, does_not_disturb_its_parents_traffic) {
  // B1.7: from a process with traffic in another thread, again and again.
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "the sanitizer's allocator of g++ 12 does not survive a fork beside other threads";
#endif
  const Child kind = GetParam();
  Partner target(run_target);
  Partner initiator([kind](const Wire& wire) {
    auto side = std::make_unique<Side>();
    auto worker = std::make_unique<Worker>(*side);
    side->connect(wire);
    const auto offer = wire.get<Offer>();
    std::atomic<bool> stop{false};
    std::atomic<unsigned> rounds{0};
    std::thread traffic([&] {
      for (unsigned seed = 0; !stop; ++seed) {
        require(worker->round(offer, seed), "a round beside forks");
        ++rounds;
      }
    });
    for (int i = 0; i < 40; ++i) {
      const pid_t child = fork();
      if (child == 0) be_child(kind, side, worker, offer);
      WEFT_REQUIRE(child > 0 && ends_well(child));
      for (const unsigned before = rounds; rounds < before + 2;) std::this_thread::yield();
    }
    stop = true;
    traffic.join();
    leave_last(wire);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  finish(target, initiator);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, ForkedChild,
                         testing::Values(Child::kDestroys, Child::kExits, Child::kUses,
                                         Child::kTalks),
                         [](const auto& kind) { return name_of(kind.param); });

TEST(NeighbourLife, child_talks_to_its_parent_and_to_its_parents_peer) {
  Partner peer([](const Wire& wire) {
    Side first, second;
    Served served(first), for_child(second);
    first.connect(wire);
    served.post_all();
    wire.put(served.offer());
    second.connect(wire);
    for_child.post_all();
    wire.put(for_child.offer());
    for (char said = 0; said != 'd';) {
      // Both are polled: the first in receive(), the other by the helper thread.
      said = served.receive(wire);
    }
  });
  Partner parent([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    WEFT_REQUIRE(worker.round(offer, 1));
    std::array<int, 2> ends{};
    WEFT_REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      const Wire to_parent(ends[1]);
      close(ends[0]);
      Side own, to_peer;
      Worker own_worker(own), peer_worker(to_peer);
      // The parent has the same number of devices; only the address tells them apart.
      to_parent.put(own.qp.endpoint());
      WEFT_REQUIRE(own.qp.connect(to_parent.get<verbs::Endpoint>()));
      const auto parents = to_parent.get<Offer>();
      WEFT_REQUIRE(own_worker.round(parents, 7));
      to_peer.connect(wire);
      WEFT_REQUIRE(peer_worker.round(wire.get<Offer>(), 8));
      _exit(0);
    }
    close(ends[1]);
    const Wire to_child(ends[0]);
    Side for_child;
    Served served(for_child);
    const auto childs = to_child.get<verbs::Endpoint>();
    WEFT_REQUIRE(for_child.qp.connect(childs));
    served.post_all();
    to_child.put(for_child.qp.endpoint());
    to_child.put(served.offer());
    WEFT_REQUIRE(ends_well(child));
    for_child.cq.poll();
    WEFT_REQUIRE(is_filled({served.heap.data(), 4096}, 7));  // in the parent, not in a copy
    WEFT_REQUIRE(worker.round(offer, 2));
    leave_last(wire);
  });
  introduce(peer.wire(), parent.wire());
  parent.wire().put(peer.wire().get<Offer>());
  introduce(peer.wire(), parent.wire());
  parent.wire().put(peer.wire().get<Offer>());
  finish(peer, parent);
}

TEST(NeighbourLife, end_of_a_parent_is_seen_while_its_child_lives) {
  Partner target(run_bereaved_target);
  Partner parent([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    WEFT_REQUIRE(worker.round(offer, 1));
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (;;) pause();
    }
    wire.put(child);
    worker.rounds_until_failure(offer);
  });
  introduce(target.wire(), parent.wire());
  parent.wire().put(target.wire().get<Offer>());
  const auto child = parent.wire().get<pid_t>();
  std::this_thread::sleep_for(20ms);
  const std::int64_t killed = now_ms();
  parent.signal(SIGKILL);
  target.wire().put('d');
  const auto noticed = target.wire().get<std::int64_t>();
  EXPECT_EQ(kill(child, 0), 0) << "the child was to live on";
  kill(child, SIGKILL);
  EXPECT_NE(noticed, 0);
  EXPECT_LE(noticed - killed, kNotice_ms);
  EXPECT_EQ(target.join(), 0);
}

char program[] = "/bin/true";
char* const arguments[] = {program, nullptr};

pid_t spawn_program() {
  pid_t child = 0;
  require(posix_spawn(&child, program, nullptr, nullptr, arguments, environ) == 0, "posix_spawn");
  return child;
}

[[gnu::noinline]] pid_t vfork_program() {
  const pid_t child = vfork();
  if (child == 0) {
    execv(program, arguments);
    _exit(127);
  }
  return child;
}

TEST(NeighbourLife, spawned_programs_do_not_disturb_traffic) {
  Partner target(run_target);
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    std::atomic<bool> stop{false};
    std::thread traffic([&] {
      for (unsigned seed = 0; !stop; ++seed) require(worker.round(offer, seed), "a round");
    });
    for (int i = 0; i < 15; ++i) {
      WEFT_REQUIRE(ends_well(spawn_program()));
      WEFT_REQUIRE(ends_well(vfork_program()));
    }
    stop = true;
    traffic.join();
    leave_last(wire);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  finish(target, initiator);
}

/// How a process goes while it is in the middle of a large write.
enum class End { kUnderscoreExit, kExit, kKilled, kExec };
std::string name_of(End end) {
  constexpr std::array kNames{"at_once", "exit", "killed", "exec"};
  return kNames[static_cast<std::size_t>(end)];
}

class Ending : public testing::TestWithParam<End> {};

TEST_P(Ending, of_an_initiator_in_the_middle_of_a_transfer_is_seen_by_its_target) {
  // B4.10: outstanding receives come back, and that soon.
  const End end = GetParam();
  Partner target(run_bereaved_target);
  Partner initiator([end](const Wire& wire) {
    Side side;
    Worker worker(side, 1'000'000);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    for (int i = 0; i < 40; ++i) {
      const auto posted = side.qp.post_write(worker.out_region.sge(), offer.heap);
      WEFT_REQUIRE(posted);
    }
    wire.put(now_ms());
    switch (end) {
      case End::kUnderscoreExit:
        _exit(0);
      case End::kExit:
        std::exit(0);
      case End::kKilled:
        kill(getpid(), SIGKILL);
        break;
      case End::kExec:
        execl("/bin/sleep", "sleep", "10", nullptr);
    }
    _exit(9);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  const auto ended = initiator.wire().get<std::int64_t>();
  target.wire().put('d');
  const auto noticed = target.wire().get<std::int64_t>();
  EXPECT_NE(noticed, 0);
  EXPECT_LE(noticed - ended, kNotice_ms);
  EXPECT_EQ(target.join(), 0);
}

TEST_P(Ending, of_a_target_in_the_middle_of_a_transfer_is_seen_by_its_initiator) {
  const End end = GetParam();
  Partner target([end](const Wire& wire) {
    Side side;
    Served served(side);
    side.connect(wire);
    served.post_all();
    wire.put(served.offer());
    static_cast<void>(served.receive(wire));
    wire.put(now_ms());
    switch (end) {
      case End::kUnderscoreExit:
        _exit(0);
      case End::kExit:
        std::exit(0);
      case End::kKilled:
        kill(getpid(), SIGKILL);
        break;
      case End::kExec:
        execl("/bin/sleep", "sleep", "10", nullptr);
    }
    _exit(9);
  });
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side, 1'000'000);
    side.connect(wire);
    wire.put(worker.rounds_until_failure(wire.get<Offer>()));
    // Whatever is posted now comes back too. No event tells: the completions did.
    WEFT_REQUIRE(side.qp.state() == QpState::kError);
    WEFT_REQUIRE(!side.qp.post_send(worker.out_region.sge()) || !side.wait().ok());
    WEFT_REQUIRE(!side.device.next_event());
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  std::this_thread::sleep_for(30ms);
  target.wire().put('e');
  const auto ended = target.wire().get<std::int64_t>();
  const auto noticed = initiator.wire().get<std::int64_t>();
  EXPECT_LE(noticed - ended, kNotice_ms);
  EXPECT_EQ(initiator.join(), 0);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, Ending,
                         testing::Values(End::kUnderscoreExit, End::kExit, End::kKilled,
                                         End::kExec),
                         [](const auto& end) { return name_of(end.param); });

}  // namespace
}  // namespace weft::test
