// Each kind of fault in numbers, in virtual time, and the same again for the same seed.
#include "port/fault_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "support/pipe_port.h"
#include "udp_fixture.h"

namespace weft::port {
namespace {

using test::Bytes;
using test::Collector;
using test::psn_of;

const Gid kHere = Gid::ipv4(10, 0, 0, 1), kThere = Gid::ipv4(10, 0, 0, 2);

/// A sender, a wire, and a receiver with faults. Frames are numbered by their PSN.
class FaultLine {
 public:
  FaultLine(std::string_view spec, std::uint64_t seed)
      : sender_(hub_.make_port(kThere)),
        port(hub_.make_port(kHere), parse_faults(spec).value(), seed, [this] { return now; }) {}

  void send(std::uint32_t first, std::uint32_t count, std::size_t payload_bytes = 16) {
    Bytes payload = test::random_bytes(payload_bytes, first);
    const std::span<std::byte> piece(payload);
    for (std::uint32_t i = 0; i < count; ++i) {
      network::OutFrame frame;
      test::make_send(frame, first + i, {&piece, 1});
      network::Flow flow = test::flow_to(kHere);
      flow.source = kThere;
      const Outgoing out{&frame, flow};
      ASSERT_EQ(sender_->send({&out, 1}).taken, 1u);
    }
  }
  /// Takes what is there now, and what has arrived to be held back.
  void receive() {
    for (std::uint64_t arrived = ~0ull;
         port.receive(got, 64) > 0 || arrived != port.counts().frames;) {
      arrived = port.counts().frames;
    }
    times.resize(got.frames.size(), now);
  }
  /// Sends one frame every `gap`, takes each as it comes, and then waits until nothing is left.
  void run(std::uint32_t count, Nanoseconds gap) {
    for (std::uint32_t psn = 0; psn < count; ++psn) {
      send(psn, 1);
      do {
        receive();
      } while (advance_to(std::min(port.next_deadline(), (psn + 1) * gap)) < (psn + 1) * gap);
    }
    drain();
  }
  void drain() {
    receive();
    while (port.next_deadline() != kNever) {
      advance_to(port.next_deadline());
      receive();
    }
    EXPECT_EQ(port.held(), 0u);
  }
  std::vector<std::uint32_t> order() const {
    std::vector<std::uint32_t> psns;
    for (const auto& frame : got.frames) psns.push_back(psn_of(frame));
    return psns;
  }

  Nanoseconds now = 0;
  Collector got;
  std::vector<Nanoseconds> times;  ///< when each of got.frames was handed up

 private:
  Nanoseconds advance_to(Nanoseconds when) { return now = std::max(now, when); }

  weft::test::PipeHub hub_;
  std::unique_ptr<Port> sender_;

 public:
  FaultPort port;
};

constexpr std::uint32_t kManyFrames = 20'000;
constexpr Nanoseconds kGap = 1'000;

/// Five standard deviations of so many throws with this chance.
void expect_share(std::uint64_t count, double share) {
  const double expected = share * kManyFrames;
  EXPECT_NEAR(static_cast<double>(count), expected, 5 * std::sqrt(expected * (1 - share)));
}

std::uint64_t inversions(const std::vector<std::uint32_t>& psns) {
  std::uint64_t overtaken = 0;
  std::uint32_t highest = 0;
  for (const std::uint32_t psn : psns) {
    if (psn < highest) ++overtaken;
    highest = std::max(highest, psn);
  }
  return overtaken;
}

TEST(FaultPort, without_faults_passes_everything_at_once) {
  FaultLine line("loss=0%", 1);
  line.send(0, 100);
  line.receive();
  EXPECT_EQ(line.got.frames.size(), 100u);
  EXPECT_EQ(line.port.next_deadline(), kNever);
}

TEST(FaultPort, loses_the_share_that_was_asked_for) {
  FaultLine line("loss=5%", 7);
  line.run(kManyFrames, kGap);
  expect_share(line.port.counts().lost, 0.05);
  EXPECT_EQ(line.got.frames.size(), kManyFrames - line.port.counts().lost);
  EXPECT_EQ(inversions(line.order()), 0u);
}

TEST(FaultPort, repeats_the_share_that_was_asked_for) {
  FaultLine line("dup=5%", 7);
  line.run(kManyFrames, kGap);
  expect_share(line.port.counts().duplicated, 0.05);
  std::map<std::uint32_t, int> times;
  for (const std::uint32_t psn : line.order()) ++times[psn];
  EXPECT_EQ(times.size(), kManyFrames);
  const auto twice = std::count_if(times.begin(), times.end(), [](const auto& t) {
    EXPECT_LE(t.second, 2);
    return t.second == 2;
  });
  EXPECT_EQ(static_cast<std::uint64_t>(twice), line.port.counts().duplicated);
}

TEST(FaultPort, lets_the_share_that_was_asked_for_be_overtaken_and_loses_none) {
  FaultLine line("reorder=5%", 7);
  line.run(kManyFrames, kGap);
  expect_share(line.port.counts().reordered, 0.05);
  auto psns = line.order();
  // Some are held up for less than the gap to the next frame, or together with it.
  expect_share(inversions(psns), 0.05);
  std::sort(psns.begin(), psns.end());
  ASSERT_EQ(psns.size(), kManyFrames);
  EXPECT_EQ(std::unique(psns.begin(), psns.end()), psns.end());
}

TEST(FaultPort, corrupts_so_that_the_receivers_check_finds_out) {
  FaultLine line("corrupt=5%", 7);
  line.run(kManyFrames, kGap);
  const FaultCounts& counts = line.port.counts();
  expect_share(counts.corrupted, 0.05);
  EXPECT_EQ(line.got.malformed, 0u);
  EXPECT_EQ(line.got.frames.size() + line.got.bad_checksums, kManyFrames);
  // But for flips in the one byte that the ICRC leaves out, and for two flips of one bit.
  EXPECT_LE(line.got.bad_checksums, counts.corrupted);
  EXPECT_GT(line.got.bad_checksums, counts.corrupted * 9 / 10);
  for (const auto& frame : line.got.frames) {
    const std::uint32_t psn = psn_of(frame);
    const Bytes payload = test::random_bytes(16, psn);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), frame.packet.begin() + 12));
  }
}

TEST(FaultPort, delays_within_the_range_keeps_the_order_and_loses_none) {
  FaultLine line("delay=50us..200us", 7);
  line.run(kManyFrames, kGap);
  ASSERT_EQ(line.got.frames.size(), kManyFrames);
  EXPECT_EQ(inversions(line.order()), 0u);
  Nanoseconds shortest = kNever, longest = 0;
  for (std::uint32_t psn = 0; psn < kManyFrames; ++psn) {
    shortest = std::min(shortest, line.times[psn] - psn * kGap);
    longest = std::max(longest, line.times[psn] - psn * kGap);
  }
  EXPECT_GE(shortest, 50'000u);
  EXPECT_LE(longest, 200'000u);
  EXPECT_GT(longest, 190'000u);
}

TEST(FaultPort, hands_up_at_the_deadline_and_not_before) {
  FaultLine line("delay=3us", 7);
  line.send(0, 1);
  line.receive();
  EXPECT_EQ(line.port.next_deadline(), 3'000u);
  line.now = 2'999;
  line.receive();
  EXPECT_TRUE(line.got.frames.empty());
  line.now = 3'000;
  line.receive();
  EXPECT_EQ(line.got.frames.size(), 1u);
  EXPECT_EQ(line.port.next_deadline(), kNever);
}

TEST(FaultPort, carries_no_more_than_its_rate) {
  constexpr std::uint32_t kCount = 1'000;
  constexpr std::size_t kPayload = 4096;
  FaultLine line("rate=1Gbit", 7);
  for (std::uint32_t psn = 0; psn < kCount; psn += 100) line.send(psn, 100, kPayload);
  line.drain();
  ASSERT_EQ(line.got.frames.size(), kCount);
  // IPv4, UDP, BTH and ICRC; a bit takes a nanosecond.
  constexpr std::size_t kBits = 8 * (20 + 8 + 12 + kPayload + 4);
  EXPECT_EQ(line.times.front(), kBits);
  EXPECT_EQ(line.times.back(), kBits * kCount);
  // An idle link has saved nothing up.
  line.now += 1'000'000'000;
  const Nanoseconds again = line.now;
  line.send(kCount, 2, kPayload);
  line.drain();
  EXPECT_EQ(line.times.back(), again + 2 * kBits);
}

TEST(FaultPort, drops_what_finds_no_room) {
  FaultLine line("delay=1s", 7);
  line.send(0, FaultPort::kMostHeld + 10);
  line.drain();
  EXPECT_EQ(line.got.frames.size(), FaultPort::kMostHeld);
  EXPECT_EQ(line.port.counts().overflowed, 10u);
}

TEST(FaultPort, hands_up_no_more_than_asked_and_forgets_nothing) {
  FaultLine line("delay=1us", 7);
  line.send(0, 100);
  line.receive();
  line.now = 1'000;
  EXPECT_EQ(line.port.receive(line.got, 30), 30u);
  EXPECT_LE(line.port.next_deadline(), line.now);
  EXPECT_EQ(line.port.receive(line.got, 100), 70u);
  EXPECT_EQ(inversions(line.order()), 0u);
}

TEST(FaultPort, marks_what_may_be_marked_and_nothing_else) {
  weft::test::PipeHub hub;
  const auto sender = hub.make_port(kThere);
  FaultPort port(hub.make_port(kHere), parse_faults("mark=100%").value(), 7, [] { return 0; });
  struct Classes : Receiver {
    void on_frame(const Incoming& frame) override { all.push_back(frame.flow.traffic_class); }
    void on_bad_checksum() override {}
    void on_malformed() override {}
    std::vector<std::uint8_t> all;
  } got;
  Bytes payload = test::random_bytes(16, 1);
  const std::span<std::byte> piece(payload);
  for (const int traffic_class : {0x20, 0x22, 0x21, 0x23}) {
    network::OutFrame frame;
    test::make_send(frame, 0, {&piece, 1});
    network::Flow flow = test::flow_to(kHere);
    flow.source = kThere;
    flow.traffic_class = static_cast<std::uint8_t>(traffic_class);
    const Outgoing out{&frame, flow};
    ASSERT_EQ(sender->send({&out, 1}).taken, 1u);
  }
  port.receive(got, 64);
  EXPECT_EQ(got.all, (std::vector<std::uint8_t>{0x20, 0x23, 0x23, 0x23}));
  EXPECT_EQ(port.counts().marked, 3u);
}

TEST(FaultPort, does_the_same_again_for_the_same_seed) {
  const auto run = [](std::uint64_t seed) {
    FaultLine line("loss=3%,dup=3%,reorder=5%,corrupt=3%,delay=1us..90us,rate=10Gbit", seed);
    line.run(3'000, 500);
    return std::pair(line.order(), line.times);
  };
  const auto once = run(42);
  EXPECT_EQ(once, run(42));
  EXPECT_NE(once, run(43));
}

TEST(Fates, of_one_kind_do_not_depend_on_the_others_and_grow_with_their_share) {
  Fates few(parse_faults("loss=2%").value(), 9);
  Fates more(parse_faults("loss=4%,dup=50%,delay=1us..9us").value(), 9);
  std::size_t lost = 0;
  for (int i = 0; i < 10'000; ++i) {
    const bool by_few = few.next().lost, by_more = more.next().lost;
    EXPECT_TRUE(!by_few || by_more);
    lost += by_few ? 1 : 0;
  }
  EXPECT_GT(lost, 100u);
}

}  // namespace
}  // namespace weft::port
