// Pairs that part and begin anew all the time, and a network that loses frames: no message is lost,
// and none comes twice.
#include "base/random.h"
#include "mesh_suite.h"

namespace weft::test {
namespace {

class PartingMeshes : public MeshSuite {
 protected:
  static bool both_are_open(const Side& one, mesh::Peer there, const Side& other, mesh::Peer here) {
    return one.mesh.statistics(there).state == mesh::State::kOpen &&
           other.mesh.statistics(here).state == mesh::State::kOpen;
  }

  /// Both send numbers, with pauses in which they part or are about to.
  void exchange(Side& one, Side& other, int count) {
    const mesh::Peer there = peer(one, other), here = peer(other, one);
    base::SeededRandom random(7);
    struct Way {
      Side& from;
      mesh::Peer to;
      int next;
    } ways[] = {{one, there, 0}, {other, here, 0}};
    while (ways[0].next < count || ways[1].next < count) {
      Way& way = ways[random.below(2)];
      if (way.next == count) continue;
      ASSERT_TRUE(send(way.from, way.to, std::to_string(way.next++)));
      if (random.below(8) != 0) continue;
      // Now, when one of them is asking to part, or both have done so.
      ASSERT_TRUE(comes([&] { return !both_are_open(one, there, other, here); }));
    }
    const auto all = static_cast<std::size_t>(count);
    ASSERT_TRUE(comes([&] { return one.got.size() >= all && other.got.size() >= all; }));
    for (const Side* side : {&one, &other}) {
      ASSERT_EQ(side->got.size(), all);
      for (std::size_t i = 0; i < all; ++i) EXPECT_EQ(side->got[i].second, std::to_string(i));
      EXPECT_TRUE(side->closed.empty());
      EXPECT_EQ(side->mesh.figures().lost, 0u);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Over, PartingMeshes,
                         testing::Values(Way{Wire::kDirect, false}, Way{Wire::kPipe, false},
                                         Way{Wire::kUdp, false}),
                         way_name);

TEST_P(PartingMeshes, lose_no_message_and_repeat_none) {
  mesh::Options options;
  options.idle_ns = 1'000'000;
  Side &one = open_mesh(options), &other = open_mesh(options);
  exchange(one, other, 200);
  ASSERT_TRUE(comes([&] { return one.mesh.figures().registered_bytes == 0; }));
  EXPECT_GT(one.mesh.figures().parted, 0u);
}

TEST_P(PartingMeshes, find_each_other_on_a_network_that_loses_frames) {
  if (GetParam().wire != Wire::kUdp) GTEST_SKIP() << "faults are of ports";
  const auto lossy = [](std::uint64_t seed) {
    verbs::DeviceOptions options;
    options.path = verbs::PathPolicy::kFramed;
    options.faults = "loss=2%";
    options.faults_seed = seed;
    return must(Device::open(options));
  };
  mesh::Options options;
  options.idle_ns = 20'000'000;
  options.greeting_timeout_ns = 60'000'000'000;
  Side &one = open_mesh(lossy(1), options), &other = open_mesh(lossy(2), options);
  exchange(one, other, 100);
}

}  // namespace
}  // namespace weft::test
