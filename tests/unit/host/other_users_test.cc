// Names that another user has taken: they are in nobody's way, and nobody is found there.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "host/local_socket.h"
#include "host/multicast_names.h"
#include "host/own_names.h"
#include "support/kernel_filters.h"
#include "support/name_taker.h"
#include "support/soak_time.h"
#include "unit/host/host_kit.h"

namespace weft::host {
namespace {

using weft::host::test::unique_name;
using weft::test::NameHold;
using weft::test::NameTaker;
using weft::test::Partner;
using weft::test::Wire;
using SteadyTime = std::chrono::steady_clock;

constexpr std::array kWaysToHold{NameHold::kBound, NameHold::kListening, NameHold::kFull};
constexpr int kFakes = 6000;

class OtherUsers : public testing::Test {
 protected:
  void SetUp() override {
    if (!weft::test::can_be_two_users()) GTEST_SKIP() << "only root can be two users";
  }
};

/// True: a message of `caller` comes out at `listener`.
bool is_reached(const LocalSocket& caller, const LocalSocket& listener) {
  const std::array<std::byte, 1> hello{std::byte{7}};
  if (!caller.send(hello, {})) return false;
  // Others may have called only to see who is there.
  for (auto accepted = listener.accept(); accepted; accepted = listener.accept()) {
    const auto message = accepted->receive(1, 1000);
    if (message) return message->bytes.front() == hello.front();
  }
  return false;
}

/// What this user can do with a name that another one holds.
void use_held_name(const std::string& name) {
  auto listener = LocalSocket::listen(name);
  WEFT_REQUIRE(listener);
  const auto second = LocalSocket::listen(name);
  WEFT_REQUIRE(!second && second.error().code == Errc::kBusy);
  // What was remembered of the names may be a moment old.
  const auto deadline = SteadyTime::now() + std::chrono::seconds(10);
  auto caller = LocalSocket::connect(name);
  while (!caller && SteadyTime::now() < deadline) caller = LocalSocket::connect(name);
  WEFT_REQUIRE(caller);
  WEFT_REQUIRE(is_reached(*caller, *listener));
  listener->close();
  WEFT_REQUIRE(LocalSocket::listen(name));
}

TEST_F(OtherUsers, a_name_that_another_user_holds_can_be_taken_and_found) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  for (const NameHold how : kWaysToHold) {
    const std::string name = unique_name();
    const NameTaker taker({name}, how);
    ASSERT_TRUE(taker.ready());
    Partner us([&](const Wire&) { use_held_name(name); });
    EXPECT_EQ(us.join(), 0) << static_cast<int>(how);
  }
}

TEST_F(OtherUsers, nobody_is_reached_at_a_name_that_another_user_holds) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  for (const NameHold how : kWaysToHold) {
    const std::string name = unique_name();
    const NameTaker taker({name}, how);
    ASSERT_TRUE(taker.ready());
    const auto begun = SteadyTime::now();
    const auto caller = LocalSocket::connect(name);
    EXPECT_LT(SteadyTime::now() - begun, std::chrono::seconds(10));
    ASSERT_FALSE(caller);
    EXPECT_EQ(caller.error().code, how == NameHold::kBound ? Errc::kNotFound : Errc::kNotPermitted);
    if (how != NameHold::kListening) continue;
    EXPECT_NE(caller.error().message.find("user 65534"), std::string::npos);
  }
}

TEST_F(OtherUsers, a_name_beside_is_kept_when_the_other_user_lets_go) {
  const std::string name = unique_name();
  auto taker = std::make_unique<NameTaker>(std::vector{name}, NameHold::kListening);
  ASSERT_TRUE(taker->ready());
  const auto listener = LocalSocket::listen(name);
  ASSERT_TRUE(listener);
  taker.reset();
  EXPECT_EQ(LocalSocket::listen(name).error().code, Errc::kBusy) << "it is ours already";
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto caller = LocalSocket::connect(name);
  ASSERT_TRUE(caller);
  EXPECT_TRUE(is_reached(*caller, *listener));
}

TEST_F(OtherUsers, fakes_beside_a_name_are_passed_by) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  const std::string name = unique_name();
  const NameTaker taker([&] {
    weft::test::hold_name(name, NameHold::kFull);
    for (int i = 0; i < kFakes; ++i) {
      weft::test::hold_name(name + "~" + std::to_string(i), NameHold::kListening);
    }
  });
  ASSERT_TRUE(taker.ready());
  Partner us([&](const Wire&) { use_held_name(name); });
  EXPECT_EQ(us.join(), 0);
}

std::string fake_member(const Gid& group, int i) {
  std::string name = "weft-mc/";
  char two[8];
  for (const std::uint8_t byte : group.raw) {
    std::snprintf(two, sizeof two, "%02x", byte);
    name += two;
  }
  char rest[64];
  std::snprintf(rest, sizeof rest, "/00000000000000000000ffff7f%06x/%03x", i, i % 4094 + 1);
  return name + rest;
}

Gid group_of_this_process() {
  const auto pid = static_cast<std::uint32_t>(getpid());
  return Gid::ipv4(239, static_cast<std::uint8_t>(pid >> 16), static_cast<std::uint8_t>(pid >> 8),
                   static_cast<std::uint8_t>(pid));
}

/// The member is found, and so is a second one, in bounded time.
void find_members(const Gid& group) {
  const Gid address = Gid::ipv4(127, 0, 0, 1);
  MulticastNames here, there;
  WEFT_REQUIRE(here.join(group, address, Qpn(0x00A000)));
  const auto deadline = SteadyTime::now() + std::chrono::seconds(20);
  Nanoseconds now = 1'000'000'000;
  const auto finds = [&](std::uint32_t block) {
    do {
      now += 10'000'000'000;
      const auto seen = there.members(group, now);
      const GroupMember wanted{address, block};
      if (std::find(seen.begin(), seen.end(), wanted) != seen.end()) return true;
    } while (SteadyTime::now() < deadline);
    return false;
  };
  WEFT_REQUIRE(finds(0x00A));
  WEFT_REQUIRE(there.join(group, address, Qpn(0x00B000)));
  WEFT_REQUIRE(finds(0x00B));
  WEFT_REQUIRE(there.members(group, now + 10'000'000'000).size() == 2);
}

TEST_F(OtherUsers, members_of_a_group_are_found_among_thousands_of_fakes) {
  const Gid group = group_of_this_process();
  const NameTaker taker([&] {
    for (int i = 0; i < kFakes; ++i) {
      weft::test::hold_name(fake_member(group, i),
                            i % 2 == 0 ? NameHold::kBound : NameHold::kListening);
    }
  });
  ASSERT_TRUE(taker.ready());
  Partner us([&](const Wire&) { find_members(group); });
  EXPECT_EQ(us.join(), 0);
}

TEST_F(OtherUsers, it_is_the_same_where_the_kernel_does_not_tell_owners) {
  WEFT_NEEDS_KERNEL_FILTERS();
  const std::string name = unique_name();
  const Gid group = group_of_this_process();
  const NameTaker taker([&] {
    weft::test::hold_name(name, NameHold::kListening);
    for (int i = 0; i < kFakes / 4; ++i) {
      weft::test::hold_name(fake_member(group, i),
                            i % 2 == 0 ? NameHold::kFull : NameHold::kListening);
    }
  });
  ASSERT_TRUE(taker.ready());
  Partner us([&](const Wire&) {
    weft::test::refuse_sockets(AF_NETLINK, EAFNOSUPPORT);
    use_held_name(name);
    find_members(group);
    WEFT_REQUIRE(!owners_are_told());
  });
  EXPECT_EQ(us.join(), 0);
}

/// In memory that several processes share.
struct Turns {
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> taken{0};
  std::atomic<bool> broken{false};
};

TEST_F(OtherUsers, who_takes_and_drops_a_name_never_gives_it_to_two_of_us) {
  const std::string name = unique_name();
  void* const memory =
      mmap(nullptr, sizeof(Turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& turns = *new (memory) Turns;
  const auto end = SteadyTime::now() + weft::test::soak_time(std::chrono::milliseconds(500));
  Partner other([&](const Wire&) {
    weft::test::require(weft::test::become(weft::test::kNobody), "to be another user");
    while (SteadyTime::now() < end) {
      const int fd = weft::test::hold_name(name, NameHold::kFull);
      usleep(200);
      if (fd >= 0) close(fd);
    }
  });
  const auto take_turns = [&](const Wire&) {
    while (SteadyTime::now() < end || turns.taken == 0) {
      const auto held = LocalSocket::listen(name);
      if (!held) {
        WEFT_REQUIRE(held.error().code == Errc::kBusy);
        continue;
      }
      if (turns.inside.fetch_add(1) != 0) turns.broken = true;
      turns.taken.fetch_add(1);
      usleep(100);
      turns.inside.fetch_sub(1);
    }
  };
  Partner first(take_turns), second(take_turns), third(take_turns);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - SteadyTime::now());
  const int patience_ms = static_cast<int>(std::max<long>(left.count(), 0)) + 30'000;
  for (Partner* each : {&first, &second, &third, &other}) {
    EXPECT_EQ(each->join(patience_ms), 0);
  }
  EXPECT_FALSE(turns.broken);
  EXPECT_GT(turns.taken, 0u);
  munmap(memory, sizeof(Turns));
}

}  // namespace
}  // namespace weft::host
