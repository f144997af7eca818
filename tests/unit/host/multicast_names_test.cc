#include "host/multicast_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace weft::host {
namespace {

constexpr Gid kGroup = Gid::ipv4(239, 1, 2, 3);
constexpr Gid kMember = Gid::ipv4(127, 0, 0, 1);
constexpr const char* kOneMember =
    "weft-mc/00000000000000000000ffffef010203/00000000000000000000ffff7f000001/abc";

/// The whole host sees who is in a group: this one is used by no other process at this time.
Gid own_group(std::uint8_t last = 1) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  return Gid::ipv4(static_cast<std::uint8_t>(232 + (pid >> 16) % 7),
                   static_cast<std::uint8_t>(pid >> 8), static_cast<std::uint8_t>(pid), last);
}

TEST(MulticastNames, a_member_is_seen_by_others_until_it_leaves) {
  MulticastNames here, there;
  const Gid group = own_group();
  ASSERT_TRUE(here.join(group, kMember, Qpn(0xABC123)));
  ASSERT_TRUE(here.join(group, kMember, Qpn(0xABC456)));
  const auto seen = there.members(group, 1'000'000'000);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen.front().address, kMember);
  EXPECT_EQ(seen.front().block, 0xABCU);
  EXPECT_TRUE(there.members(own_group(2), 1'000'000'000).empty());
  here.leave(group);
  EXPECT_EQ(there.members(group, 2'000'000'000).size(), 1U);
  here.leave(group);
  EXPECT_TRUE(there.members(group, 3'000'000'000).empty());
}

TEST(MulticastNames, a_new_member_is_heard_of_after_a_moment) {
  MulticastNames here, there;
  const Gid group = own_group();
  EXPECT_TRUE(there.members(group, 1'000'000'000).empty());
  ASSERT_TRUE(here.join(group, kMember, Qpn(0xABC123)));
  EXPECT_TRUE(there.members(group, 1'000'000'001).empty());  // what is remembered
  // The kernel's list is remembered too, for longer where a look at it took long.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  Nanoseconds now = 1'100'000'000;
  while (there.members(group, now).empty() && std::chrono::steady_clock::now() < deadline) {
    now += 100'000'000;
    std::this_thread::yield();
  }
  EXPECT_EQ(there.members(group, now).size(), 1U);
}

std::size_t count_members(const std::string& name) {
  return parse_members(std::vector{name}, kGroup).size();
}

TEST(MulticastNames, names_that_only_look_like_members_are_passed_by) {
  EXPECT_EQ(count_members(kOneMember), 1U);
  EXPECT_EQ(parse_members(std::vector<std::string>(2, kOneMember), kGroup).size(), 1U);
  const std::string text = kOneMember;
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    EXPECT_EQ(count_members(text.substr(0, text.size() - cut)), 0U) << cut;
    EXPECT_EQ(count_members(text.substr(cut)), 0U) << cut;
  }
  EXPECT_EQ(count_members(text + "d"), 0U);
  EXPECT_EQ(count_members(text.substr(0, text.size() - 1) + "@"), 0U);
  EXPECT_EQ(count_members(text + "~1a2b"), 1U) << "a member beside another user's name";
}

}  // namespace
}  // namespace weft::host
