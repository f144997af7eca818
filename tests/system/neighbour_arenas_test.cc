// Arenas that come and go: a peer keeps neither their memory nor anything else of them, whatever it
// does meanwhile.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "support/neighbour_side.h"
#include "support/soak_time.h"

namespace weft::test {
namespace {

constexpr std::size_t kArenaBytes = 8 << 20;
constexpr int kArenas = 6;

/// What a process has of arenas.
struct Held {
  long mappings = 0;
  long resident_kb = 0;
  long fds = 0;

  static Held by(pid_t process) {
    Held held;
    const std::string proc = "/proc/" + std::to_string(process);
    std::ifstream maps(proc + "/smaps");
    bool of_arena = false;
    for (std::string line; std::getline(maps, line);) {
      if (line.find(' ') == 0 || line[line.find(' ') - 1] != ':') {  // a mapping, not a figure
        of_arena = line.find("memfd:weft-arena") != std::string::npos;
        held.mappings += of_arena ? 1 : 0;
      } else if (of_arena && line.starts_with("Rss:")) {
        held.resident_kb += std::stol(line.substr(4));
      }
    }
    const std::filesystem::directory_iterator all(proc + "/fd");
    held.fds = std::distance(begin(all), end(all));
    return held;
  }
};

template <class What>
bool in_time(What what) {
  const std::int64_t give_up = now_ms() + 10'000;
  while (!what()) {
    if (now_ms() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Makes an arena when it is told to, offers it, and destroys it at the next word.
void make_and_destroy(const Wire& wire) {
  Side side;
  side.connect(wire);
  while (wire.get<char>() == 'm') {
    Arena arena = *Arena::create(kArenaBytes);
    const auto bytes = arena.memory();
    auto region = *side.pd.register_memory(bytes, kAllAccess);
    wire.put(region.remote());
    wire.get<char>();
    WEFT_REQUIRE(region.deregister());
    arena = *Arena::create(4096);  // the last handle of the old one goes
    wire.put('g');
  }
}

/// Fills each arena that it is told of, small pieces and large ones, and then waits without a poll.
void fill_arenas(const Wire& wire) {
  Side side;
  Worker worker(side, kArenaBytes);
  side.connect(wire);
  for (RemoteAddress remote; (remote = wire.get<RemoteAddress>()).address != 0;) {
    fill(worker.out, 5);
    for (int i = 0; i < 3; ++i) {
      WEFT_REQUIRE(side.succeeds(side.qp.post_write(worker.out_region.sge(0, 64), remote)));
    }
    WEFT_REQUIRE(side.succeeds(side.qp.post_write(worker.out_region.sge(), remote)));
    WEFT_REQUIRE(side.succeeds(side.qp.post_read(worker.in_region.sge(), remote)));
    WEFT_REQUIRE(worker.in == worker.out);
    wire.put('f');
  }
}

class NeighbourArenas : public testing::Test {
 public:
  NeighbourArenas() { introduce(owner.wire(), peer.wire()); }
  ~NeighbourArenas() override {
    owner.wire().put('d');
    EXPECT_EQ(owner.join(), 0);
    peer.wire().put(RemoteAddress{});
    EXPECT_EQ(peer.join(), 0);
  }
  void come() {
    owner.wire().put('m');
    peer.wire().put(owner.wire().get<RemoteAddress>());
    peer.wire().get<char>();
  }
  void go() {
    owner.wire().put('g');
    owner.wire().get<char>();
  }

  Partner owner{make_and_destroy};
  Partner peer{fill_arenas};
};

TEST_F(NeighbourArenas, that_are_destroyed_leave_nothing_with_an_idle_peer) {
  come();
  EXPECT_EQ(Held::by(peer.pid()).mappings, 1);
  go();
  ASSERT_TRUE(in_time([&] { return Held::by(peer.pid()).mappings == 0; }));
  const Held before = Held::by(peer.pid());
  for (int i = 0; i < kArenas; ++i) {
    come();
    go();
  }
  EXPECT_TRUE(in_time([&] { return Held::by(peer.pid()).mappings == 0; }));
  EXPECT_EQ(Held::by(peer.pid()).fds, before.fds);
}

TEST_F(NeighbourArenas, give_their_memory_back_at_once_also_when_the_peer_is_stopped) {
  for (int i = 0; i < kArenas; ++i) {
    come();
    ASSERT_GE(Held::by(peer.pid()).resident_kb, static_cast<long>(kArenaBytes / 1024));
    peer.signal(SIGSTOP);
    go();
    EXPECT_EQ(Held::by(peer.pid()).resident_kb, 0);
    peer.signal(SIGCONT);
  }
  EXPECT_TRUE(in_time([&] { return Held::by(peer.pid()).mappings == 0; }));
}

TEST(NeighbourArenasOfTheDead, leave_nothing_with_a_peer_that_keeps_its_queue_pair) {
  Partner peer(fill_arenas);
  {
    Partner owner(make_and_destroy);
    introduce(owner.wire(), peer.wire());
    owner.wire().put('m');
    peer.wire().put(owner.wire().get<RemoteAddress>());
    peer.wire().get<char>();
    EXPECT_EQ(Held::by(peer.pid()).mappings, 1);
  }
  EXPECT_TRUE(in_time([&] { return Held::by(peer.pid()).mappings == 0; }));
  peer.wire().put(RemoteAddress{});
  EXPECT_EQ(peer.join(), 0);
}

TEST(NeighbourArenasUnderLoad, come_and_go_while_others_are_written) {
  Partner owner([](const Wire& wire) {
    Side side;
    Served served(side);
    side.connect(wire);
    wire.put(served.offer());
    // One after the other, each offered to peers and withdrawn.
    for (pollfd said{wire.fd(), POLLIN, 0}; ::poll(&said, 1, 0) == 0;) {
      const Arena arena = *Arena::create(1 << 16);
      const auto bytes = arena.memory();
      auto region = *side.pd.register_memory(bytes, kAllAccess);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      WEFT_REQUIRE(region.deregister());
    }
  });
  Partner peer([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    const auto until = std::chrono::steady_clock::now() + soak_time(std::chrono::milliseconds(500));
    for (unsigned seed = 0; std::chrono::steady_clock::now() < until; ++seed) {
      fill(worker.out, seed);
      for (const RemoteAddress& remote : {offer.arena, offer.heap}) {
        WEFT_REQUIRE(side.succeeds(side.qp.post_write(worker.out_region.sge(0, 512), remote)));
        WEFT_REQUIRE(side.succeeds(side.qp.post_read(worker.in_region.sge(0, 512), remote)));
        WEFT_REQUIRE(std::memcmp(worker.in.data(), worker.out.data(), 512) == 0);
      }
    }
    wire.put('y');
    wire.get<char>();
  });
  introduce(owner.wire(), peer.wire());
  peer.wire().put(owner.wire().get<Offer>());
  pollfd said{peer.wire().fd(), POLLIN, 0};
  ::poll(&said, 1, -1);
  char word = 0;
  EXPECT_TRUE(peer.wire().get(&word)) << "the peer failed";
  // Its own and those under way, not all that ever were.
  EXPECT_TRUE(in_time([&] { return Held::by(peer.pid()).mappings <= 3; }));
  owner.wire().put('d');
  EXPECT_EQ(owner.join(), 0);
  peer.wire().put('d');
  EXPECT_EQ(peer.join(), 0);
}

}  // namespace
}  // namespace weft::test
