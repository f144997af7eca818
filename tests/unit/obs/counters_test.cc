#include "obs/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace weft::obs {
namespace {

TEST(Counters, have_a_row_each_at_their_own_place) {
  const auto table = counter_table();
  ASSERT_EQ(table.size(), static_cast<std::size_t>(Counter::kCount));
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(table[i].id), i) << table[i].name;
  }
}

TEST(Counters, have_names_of_their_own_that_every_tool_can_use) {
  std::set<std::string_view> names;
  for (const CounterRow& row : counter_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    EXPECT_TRUE(std::all_of(row.name.begin(), row.name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || c == '_';
    })) << row.name;
    EXPECT_FALSE(row.unit.empty()) << row.name;
    EXPECT_FALSE(row.help.empty()) << row.name;
  }
}

TEST(Counters, count_each_by_itself) {
  Counters counters;
  counters.add(Counter::kTimeouts);
  counters.add(Counter::kTimeouts, 41);
  for (const CounterRow& row : counter_table()) {
    EXPECT_EQ(counters.get(row.id), row.id == Counter::kTimeouts ? 42u : 0u) << row.name;
  }
}

}  // namespace
}  // namespace weft::obs
