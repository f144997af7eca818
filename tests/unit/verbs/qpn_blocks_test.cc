#include "verbs/qpn_blocks.h"

#include <gtest/gtest.h>

#include <set>
#include <unordered_set>

namespace weft::verbs {
namespace {

constexpr std::uint32_t kBlock = 4096;
constexpr std::uint32_t kMostBlocks = 4094;

TEST(QpnBlocks, give_each_slot_a_number_of_its_own_and_find_it_again) {
  base::SeededRandom random(1);
  QpnBlocks blocks(random);
  std::unordered_set<std::uint32_t> numbers;
  for (std::uint32_t slot = 0; slot < 5 * kBlock; ++slot) {
    const auto qpn = blocks.number_of(slot);
    ASSERT_TRUE(qpn);
    ASSERT_LE(qpn->value, kMask24);
    ASSERT_TRUE(numbers.insert(qpn->value).second) << "given twice";
    ASSERT_EQ(blocks.slot_of(*qpn), slot);
    ASSERT_EQ(*blocks.number_of(slot), *qpn) << "a slot keeps its number";
  }
}

TEST(QpnBlocks, know_only_their_own_numbers) {
  base::SeededRandom random(2);
  QpnBlocks blocks(random);
  const std::uint32_t mine = blocks.number_of(0)->value / kBlock;
  EXPECT_EQ(blocks.slot_of(Qpn((mine ^ 1) * kBlock)), QpnBlocks::kNone);
  EXPECT_EQ(blocks.slot_of(Qpn(0xFFFFFFFF)), QpnBlocks::kNone);
  EXPECT_EQ(blocks.slot_of(Qpn(1u << 24 | mine * kBlock)), QpnBlocks::kNone);
  EXPECT_LT(blocks.slot_of(Qpn(mine * kBlock)), kBlock);
}

TEST(QpnBlocks, say_little_about_the_next_number) {
  base::SeededRandom random(3);
  QpnBlocks blocks(random);
  std::set<std::uint32_t> steps;
  for (std::uint32_t slot = 0; slot + 1 < kBlock; ++slot) {
    steps.insert((blocks.number_of(slot + 1)->value - blocks.number_of(slot)->value) % kBlock);
  }
  EXPECT_GT(steps.size(), kBlock / 2);
}

TEST(QpnBlocks, differ_from_one_controller_to_the_next) {
  base::SeededRandom random(4);
  QpnBlocks one(random), other(random);
  int same = 0;
  for (std::uint32_t slot = 0; slot < kBlock; ++slot) {
    same += one.number_of(slot)->value % kBlock == other.number_of(slot)->value % kBlock ? 1 : 0;
  }
  EXPECT_LT(same, 20);
}

TEST(QpnBlocks, are_claimed_when_they_are_needed) {
  base::SeededRandom random(5);
  QpnBlocks blocks(random);
  std::uint32_t claims = 0;
  blocks.set_claim([&]() -> Result<std::uint32_t> { return 100 + claims++; });
  EXPECT_EQ(claims, 0u);
  EXPECT_EQ(blocks.number_of(17)->value / kBlock, 100u);
  EXPECT_EQ(blocks.number_of(kBlock - 1)->value / kBlock, 100u);
  EXPECT_EQ(claims, 1u);
  EXPECT_EQ(blocks.number_of(kBlock)->value / kBlock, 101u);
  EXPECT_EQ(claims, 2u);
}

TEST(QpnBlocks, claim_that_fails_may_succeed_the_next_time) {
  base::SeededRandom random(6);
  QpnBlocks blocks(random);
  bool possible = false;
  blocks.set_claim([&]() -> Result<std::uint32_t> {
    if (!possible) return weft::fail(Errc::kBusy, "not now");
    return 7;
  });
  EXPECT_EQ(blocks.number_of(0).error().code, Errc::kBusy);
  EXPECT_EQ(blocks.slot_of(Qpn(7 * kBlock)), QpnBlocks::kNone);
  possible = true;
  EXPECT_EQ(blocks.number_of(0)->value / kBlock, 7u);
}

TEST(QpnBlocks, leave_out_the_reserved_numbers_and_end_when_all_are_given) {
  base::SeededRandom random(7);
  QpnBlocks blocks(random);
  std::set<std::uint32_t> seen;
  for (std::uint32_t i = 0; i < kMostBlocks; ++i) {
    seen.insert(blocks.number_of(i * kBlock)->value / kBlock);
  }
  EXPECT_EQ(seen.size(), kMostBlocks);
  EXPECT_EQ(seen.count(0), 0u) << "QP0 and QP1";
  EXPECT_EQ(seen.count(kBlock - 1), 0u) << "multicast";
  EXPECT_EQ(blocks.number_of(kMostBlocks * kBlock).error().code, Errc::kOutOfMemory);
}

}  // namespace
}  // namespace weft::verbs
