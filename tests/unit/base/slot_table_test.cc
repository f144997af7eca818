#include "base/slot_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace weft::base {
namespace {

struct Item {
  std::atomic<std::uint32_t> mark{0};
};

TEST(SlotTable, has_nothing_at_numbers_never_handed_out) {
  SlotTable<Item> table(1U << 20);
  EXPECT_EQ(table.at(0), nullptr);
  EXPECT_EQ(table.at((1U << 20) - 1), nullptr);
  EXPECT_EQ(table.at(1U << 20), nullptr);
  EXPECT_EQ(table.at(~0U), nullptr);
}

TEST(SlotTable, keeps_an_object_in_its_place_while_it_grows) {
  SlotTable<Item> table(1U << 20);
  std::vector<Item*> items;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    std::uint32_t index = 0;
    Item* item = table.acquire(&index);
    ASSERT_NE(item, nullptr);
    ASSERT_EQ(index, i);
    item->mark = i;
    items.push_back(item);
  }
  for (std::uint32_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(table.at(i), items[i]);
    EXPECT_EQ(items[i]->mark, i);
  }
  EXPECT_EQ(table.in_use(), 5000U);
}

TEST(SlotTable, refuses_when_full_and_goes_on_after_a_release) {
  SlotTable<Item> table(3);
  std::uint32_t index = 0;
  for (int i = 0; i < 3; ++i) ASSERT_NE(table.acquire(&index), nullptr);
  EXPECT_EQ(table.acquire(&index), nullptr);
  table.release(1);
  ASSERT_NE(table.acquire(&index), nullptr);
  EXPECT_EQ(index, 1U);
  EXPECT_EQ(table.acquire(&index), nullptr);
}

TEST(SlotTable, reuses_slots_first_in_first_out) {
  SlotTable<Item> table(4);
  std::uint32_t index = 0;
  for (int i = 0; i < 4; ++i) table.acquire(&index);
  for (const std::uint32_t freed : {2U, 0U, 3U}) table.release(freed);
  for (const std::uint32_t expected : {2U, 0U, 3U}) {
    table.acquire(&index);
    EXPECT_EQ(index, expected);
  }
}

TEST(SlotTable, lets_a_freed_slot_rest_while_new_ones_are_to_be_had) {
  SlotTable<Item> table(1U << 16, 8);
  std::uint32_t index = 0;
  std::uint32_t until_reuse = 0;
  table.acquire(&index);
  ASSERT_EQ(index, 0U);
  table.release(0);
  do {
    table.acquire(&index);
    table.release(index);
    ++until_reuse;
  } while (index != 0 && until_reuse < 1000);
  EXPECT_EQ(until_reuse, 9U);
}

TEST(SlotTable, hands_a_slot_out_as_its_last_user_left_it) {
  SlotTable<Item> table(1);
  std::uint32_t index = 0;
  table.acquire(&index)->mark = 42;
  table.release(index);
  EXPECT_EQ(table.acquire(&index)->mark, 42U);
}

TEST(SlotTableDeathTest, catches_a_double_release) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  SlotTable<Item> table(4);
  std::uint32_t index = 0;
  table.acquire(&index);
  table.release(index);
  EXPECT_DEATH(table.release(index), "kTaken");
}

TEST(ThreadsSlotTable, serves_readers_while_it_grows) {
  SlotTable<Item> table(1U << 16);
  std::atomic<std::uint32_t> made{0};
  std::atomic<std::uint32_t> wrong{0};
  const auto read = [&] {
    std::uint32_t seen = 0;
    while (seen < 20'000) {
      seen = made.load(std::memory_order_acquire);
      for (std::uint32_t i = 0; i < seen; i += 97) {
        const Item* item = table.at(i);
        if (item == nullptr || item->mark.load(std::memory_order_relaxed) != i + 1) ++wrong;
      }
    }
  };
  std::thread one(read), other(read);
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    std::uint32_t index = 0;
    table.acquire(&index)->mark.store(i + 1, std::memory_order_relaxed);
    made.store(i + 1, std::memory_order_release);
  }
  one.join();
  other.join();
  EXPECT_EQ(wrong, 0U);
}

TEST(SlotTable, leaves_worn_slots_alone_until_many_are_worn) {
  using Wear = SlotTable<Item>::Wear;
  constexpr std::uint32_t kWornMost = SlotTable<Item>::kWornMost;
  SlotTable<Item> table(1U << 20, 0);
  std::uint32_t first = 0, index = 0;
  table.acquire(&first);
  table.release(first, Wear::kWorn);
  for (std::uint32_t i = 0; i < kWornMost; ++i) {
    ASSERT_NE(table.acquire(&index), nullptr);
    ASSERT_NE(index, first);
    table.release(index, Wear::kWorn);
  }
  ASSERT_NE(table.acquire(&index), nullptr);
  EXPECT_EQ(index, first);
}

TEST(SlotTable, gives_worn_slots_rather_than_none) {
  using Wear = SlotTable<Item>::Wear;
  SlotTable<Item> table(2);
  std::uint32_t a = 0, b = 0, again = 0;
  table.acquire(&a);
  table.acquire(&b);
  table.release(b, Wear::kWorn);
  table.release(a);
  ASSERT_NE(table.acquire(&again), nullptr);
  EXPECT_EQ(again, a);
  ASSERT_NE(table.acquire(&again), nullptr);
  EXPECT_EQ(again, b);
  EXPECT_EQ(table.acquire(&again), nullptr);
}

}  // namespace
}  // namespace weft::base
