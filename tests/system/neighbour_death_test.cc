// One of two processes is killed at a random point, again and again, under mixed traffic in both
// directions. The survivor keeps its device and its memory through all of it: nothing hangs,
// everything that it had under way completes, a queue pair that had nothing stays as it was until
// it is used, nothing outside of granted ranges changes, and nothing of the dead stays behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "support/mailbox.h"
#include "support/mixed_traffic.h"

namespace weft::test {
namespace {

/// The bound that a loaded machine must keep as well; the aim, 200 ms, is printed next to it.
constexpr std::int64_t kNoticeLimit_us = 2'000'000 * kSlowness;

enum class Initiates : std::uint8_t { kBoth, kVictim, kSurvivor };
enum class Death : std::uint8_t {
  kBeforeItConnects,
  kInTraffic,
  kStoppedBefore,  ///< in the middle of whatever it did; the survivor goes on for a while
};

struct Round {
  unsigned seed;
  Initiates initiates;
  Death death;
  Service service;
  bool survivor_sleeps;  ///< its helper is on its own when the victim dies
};

struct Report {
  bool connected;
  bool early;    ///< something failed before anybody died
  bool idle;     ///< nothing was under way, and nothing has happened
  bool event;    ///< an asynchronous event told of what a completion tells
  bool notices;  ///< what is posted afterwards fails, or is lost as the service has it
  bool guards_intact;
  bool nothing_left;          ///< as many fds and mappings as before
  std::int64_t completed_us;  ///< the last completion
  std::int64_t first_error_us;
  std::uint64_t completions;
};

std::int64_t now_us() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000 + t.tv_nsec / 1000;
}

/// What a process holds of the shared kind.
struct Holdings {
  long fds = 0, mappings = 0;
  static Holdings now() {
    Holdings holdings;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      static_cast<void>(entry);
      ++holdings.fds;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/memfd:") != std::string::npos) ++holdings.mappings;
    }
    return holdings;
  }
  bool operator==(const Holdings&) const = default;
};

void run_victim(const Wire& wire, const Round& round) {
  const verbs::Device device = Side::open();
  const auto pd = *device.allocate_pd();
  TrafficMemory memory(pd);
  MixedTraffic traffic(device, pd, memory, round.service, round.seed);
  wire.put(traffic.offer());
  const auto peer = wire.get<TrafficOffer>();
  WEFT_REQUIRE(traffic.connect(peer));
  wire.sync();
  for (;;) {
    traffic.take();
    if (round.initiates != Initiates::kSurvivor) traffic.post_something();
    WEFT_REQUIRE(!traffic.failed());
  }
}

class Survivor {
 public:
  explicit Survivor(const Wire& wire) : wire_(wire), device_(Side::open()) {
    WEFT_REQUIRE(device_.event_fd());
    // The first queue pair brings a name that stays.
    MixedTraffic(device_, pd_, memory_, Service::kReliableConnection, 1);
    before_ = Holdings::now();
  }

  void run() {
    for (;;) {
      const auto round = wire_.get<Round>();
      if (round.seed == 0) return;
      Report report{};
      live_through(round, report);
      report.guards_intact = memory_.guards_intact();
      report.nothing_left = comes_back_to(before_);
      wire_.put(report);
    }
  }

 private:
  void live_through(const Round& round, Report& report) {
    MixedTraffic traffic(device_, pd_, memory_, round.service, round.seed + 1);
    wire_.put(traffic.offer());
    const auto peer = wire_.get<TrafficOffer>();
    report.connected = traffic.connect(peer);
    wire_.sync();
    while (!said_something(wire_)) {
      traffic.take();
      if (!report.connected) continue;
      if (round.initiates != Initiates::kVictim) traffic.post_something();
      if (traffic.failed() && report.first_error_us == 0) report.first_error_us = now_us();
      if (round.survivor_sleeps && !traffic.failed()) sleep();
    }
    const auto died_us = wire_.get<std::int64_t>();
    report.early = report.first_error_us != 0 && report.first_error_us < died_us;
    if (!report.connected) return;
    const std::int64_t give_up_us = died_us + 3 * kNoticeLimit_us;
    const auto take_until = [&](auto is_enough) {
      while (now_us() < give_up_us && !is_enough()) {
        if (traffic.take() || report.completed_us == 0) report.completed_us = now_us() - died_us;
      }
    };
    take_until([&] { return traffic.all_sent(); });
    report.idle = !traffic.failed();
    // A queue pair that has failed brings its receives back; any other keeps them.
    if (report.idle) WEFT_REQUIRE(traffic.state() == QpState::kReadyToSend);
    if (report.idle) report.notices = notices(round, traffic, take_until);
    if (report.idle && !traffic.failed()) traffic.give_up();
    take_until([&] { return traffic.all_completed(); });
    while (const auto event = device_.next_event()) {
      report.event |= event->kind != verbs::AsyncEventKind::kCommunicationEstablished;
    }
    WEFT_REQUIRE(traffic.all_completed());
    report.completions = traffic.completed();
  }

  /// The queue pair is used once more: reliable, it fails.
  template <class TakeUntil>
  static bool notices(const Round& round, MixedTraffic& traffic, TakeUntil take_until) {
    traffic.send();
    const bool reliable = round.service == Service::kReliableConnection;
    take_until([&] { return traffic.all_sent() && (traffic.failed() || !reliable); });
    return traffic.failed() == reliable;
  }

  /// Until something happens, without a look at weft.
  void sleep() const {
    std::array<pollfd, 2> wait{pollfd{wire_.fd(), POLLIN, 0},
                               pollfd{*device_.event_fd(), POLLIN, 0}};
    ::poll(wait.data(), wait.size(), 1);
  }

  bool comes_back_to(const Holdings& before) const {
    const std::int64_t give_up_us = now_us() + kNoticeLimit_us;
    while (Holdings::now() != before) {
      if (now_us() > give_up_us) {
        const Holdings now = Holdings::now();
        std::fprintf(stderr, "survivor: %ld fds, %ld mappings; before: %ld, %ld\n", now.fds,
                     now.mappings, before.fds, before.mappings);
        return false;
      }
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  const Wire& wire_;
  verbs::Device device_;
  verbs::ProtectionDomain pd_ = *device_.allocate_pd();
  TrafficMemory memory_{pd_};
  Holdings before_;
};

/// Names under which a process of this address could be called, in this network namespace.
bool has_names(const Gid& gid) {
  std::string name = "@weft/";
  for (const std::uint8_t byte : gid.raw) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    if (line.find(name) != std::string::npos) return true;
  }
  return false;
}

/// One victim, from its start to its end and what came of it.
class Scene {
 public:
  Scene(const Round& round, const Wire& survivor, std::mt19937& random)
      : round_(round),
        survivor_(survivor),
        random_(random),
        victim_([&round](const Wire& wire) { run_victim(wire, round); }) {}

  /// False: the survivor is silent.
  bool play(Report* report) {
    survivor_.put(round_);
    TrafficOffer offer;
    if (!survivor_.get(&offer) || !victim_.wire().get(&offer_)) return false;
    EXPECT_TRUE(has_names(offer_.end.gid));
    survivor_.put(offer_);
    if (round_.death == Death::kBeforeItConnects) pause(500);
    victim_.wire().put(offer);
    char ready = 0;
    if (round_.death == Death::kBeforeItConnects) {
      pause(500);
      kill();
    } else {
      if (!victim_.wire().get(&ready)) return false;
      victim_.wire().put('x');
    }
    if (!survivor_.get(&ready)) return false;
    survivor_.put('x');
    if (round_.death != Death::kBeforeItConnects) kill_in_traffic();
    survivor_.put(died_us_);
    EXPECT_EQ(victim_.join(), -1);
    EXPECT_FALSE(has_names(offer_.end.gid));
    return survivor_.get(report);
  }

 private:
  void kill_in_traffic() {
    pause(8000);
    if (round_.death == Death::kStoppedBefore) {
      victim_.signal(SIGSTOP);
      pause(2000);
    }
    kill();
  }
  void kill() {
    died_us_ = now_us();
    victim_.signal(SIGKILL);
  }
  /// Not at all, or up to so long.
  void pause(std::uint32_t most_us) {
    if (random_() % 4 == 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % most_us));
  }

  const Round round_;
  const Wire& survivor_;
  std::mt19937& random_;
  Partner victim_;
  TrafficOffer offer_;
  std::int64_t died_us_ = 0;
};

Round draw_round(int i, std::mt19937& random) {
  constexpr std::array kDeaths{Death::kBeforeItConnects, Death::kInTraffic, Death::kInTraffic,
                               Death::kInTraffic,        Death::kInTraffic, Death::kStoppedBefore,
                               Death::kStoppedBefore};
  return {static_cast<unsigned>(random()) | 1, static_cast<Initiates>(i % 3),
          kDeaths[random() % kDeaths.size()],
          i % 8 == 7 ? Service::kUnreliableConnection : Service::kReliableConnection, i % 5 == 4};
}

void print(std::vector<std::int64_t> noticed_us, std::uint64_t completions) {
  std::sort(noticed_us.begin(), noticed_us.end());
  const auto at = [&](std::size_t percent) {
    return static_cast<long>(noticed_us[(noticed_us.size() - 1) * percent / 100]);
  };
  std::printf(
      "all work ended after a death: median %ld us, p90 %ld us, p99 %ld us, longest %ld us (aim "
      "200000 us); %zu deaths, %llu completions\n",
      at(50), at(90), at(99), at(100), noticed_us.size(),
      static_cast<unsigned long long>(completions));
}

TEST(NeighbourDeath, leaves_nothing_undone_and_nothing_behind) {
  constexpr int kDeaths = 200;
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  Partner survivor([](const Wire& wire) { Survivor(wire).run(); });
  std::vector<std::int64_t> noticed_us;
  std::uint64_t completions = 0;
  for (int i = 0; i < kDeaths && !HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", death " + std::to_string(i));
    const Round round = draw_round(i, random);
    Report report;
    ASSERT_TRUE(Scene(round, survivor.wire(), random).play(&report)) << "the survivor is silent";
    EXPECT_FALSE(report.early);
    EXPECT_TRUE(report.guards_intact);
    EXPECT_TRUE(report.nothing_left);
    if (!report.connected) {
      EXPECT_EQ(round.death, Death::kBeforeItConnects);
      continue;
    }
    EXPECT_FALSE(report.event);
    EXPECT_TRUE(report.notices || !report.idle);
    EXPECT_LT(report.completed_us, kNoticeLimit_us);
    noticed_us.push_back(report.completed_us);
    completions += report.completions;
  }
  survivor.wire().put(Round{});
  EXPECT_EQ(survivor.join(), 0);
  ASSERT_GT(noticed_us.size(), std::size_t{kDeaths / 2});
  print(noticed_us, completions);
}

}  // namespace
}  // namespace weft::test
