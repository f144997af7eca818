#include "base/permutation24.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"

namespace weft::base {
namespace {

constexpr std::uint32_t kAll = 1U << 24;

TEST(Permutation24, meets_every_number_once_and_finds_the_way_back) {
  SeededRandom random(1);
  const Permutation24 permutation(random);
  std::vector<bool> met(kAll);
  std::uint32_t repeated = 0, lost = 0;
  for (std::uint32_t v = 0; v < kAll; ++v) {
    const std::uint32_t image = permutation.forward(v);
    ASSERT_LT(image, kAll);
    repeated += met[image] ? 1 : 0;
    met[image] = true;
    lost += permutation.backward(image) != v ? 1 : 0;
  }
  EXPECT_EQ(repeated, 0U);
  EXPECT_EQ(lost, 0U);
}

TEST(Permutation24, neighbours_do_not_give_each_other_away) {
  SeededRandom random(2);
  const Permutation24 permutation(random);
  std::set<std::uint32_t> differences;
  for (std::uint32_t v = 0; v < 4096; ++v) {
    differences.insert((permutation.forward(v + 1) - permutation.forward(v)) & (kAll - 1));
  }
  EXPECT_GT(differences.size(), 4000U);
}

TEST(Permutation24, differs_from_seed_to_seed) {
  SeededRandom one(3), other(4);
  const Permutation24 first(one), second(other);
  std::uint32_t same = 0;
  for (std::uint32_t v = 0; v < 4096; ++v) same += first.forward(v) == second.forward(v) ? 1 : 0;
  EXPECT_LT(same, 4U);
}

}  // namespace
}  // namespace weft::base
