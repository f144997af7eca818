#include "base/number_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace weft::base {
namespace {

TEST(NumberMap, finds_nothing_in_an_empty_one) {
  NumberMap<int> map;
  EXPECT_EQ(map.find(0), nullptr);
  map.erase(7);
  EXPECT_TRUE(map.empty());
}

TEST(NumberMap, replaces_what_has_the_same_number) {
  NumberMap<int> map;
  int a = 1, b = 2;
  map.set(0, &a);
  map.set(0, &b);
  EXPECT_EQ(map.find(0), &b);
  EXPECT_EQ(map.size(), 1u);
}

// Numbers from a small range, so that many stand behind others, and holes are filled.
TEST(NumberMap, is_like_a_map_after_many_changes) {
  NumberMap<int> map;
  std::map<std::uint32_t, int*> wanted;
  std::vector<int> objects(64);
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto number = static_cast<std::uint32_t>(random() % (i % 3 == 0 ? 50 : 3000));
    if (random() % 2 == 0) {
      int* object = &objects[random() % objects.size()];
      map.set(number, object);
      wanted[number] = object;
    } else {
      map.erase(number);
      wanted.erase(number);
    }
    const auto other = static_cast<std::uint32_t>(random() % 3000);
    const auto found = wanted.find(other);
    ASSERT_EQ(map.find(other), found == wanted.end() ? nullptr : found->second);
    ASSERT_EQ(map.size(), wanted.size());
  }
}

}  // namespace
}  // namespace weft::base
