// Studies: traffic over whole topologies, and the figures that come out.
#include "fabric/study.h"

#include <gtest/gtest.h>

#include <string>

#include "fabric/generators.h"
#include "fabric/picture.h"
#include "fabric/topology_reader.h"

namespace weft::test {
namespace {

using fabric::Installation;
using fabric::Routing;
using fabric::Settings;
using fabric::Study;
using fabric::StudyOptions;
using fabric::StudyResult;
using fabric::Traffic;

std::unique_ptr<Installation> installation(const char* words, Routing routing = Routing::kUpDown,
                                           Settings settings = {}) {
  return Installation::create(fabric::generate(words).value(), settings, {routing, 0}).value();
}

StudyOptions quick(Traffic traffic, double load) {
  StudyOptions options;
  options.traffic = traffic;
  options.load = load;
  options.warm_up = 500;
  options.measured = 3'000;
  return options;
}

TEST(Study, of_a_lightly_loaded_fat_tree_accepts_what_is_offered_at_the_least_latency) {
  const auto made = installation("fat-tree 4");
  const StudyResult result = Study(*made, quick(Traffic::kUniform, 0.02)).run();
  EXPECT_NEAR(result.offered, 0.02, 0.006);
  EXPECT_NEAR(result.accepted, result.offered, 0.003);
  EXPECT_TRUE(result.drained);
  // Every link takes a tick, and the tail follows the head by three.
  EXPECT_EQ(result.least_latency, 1u + 1 + 3);
  EXPECT_NEAR(result.mean_latency, result.mean_hops + 1 + 3, 0.6);
  EXPECT_EQ(made->fabric().links().contradiction(), "");
}

TEST(Study, gives_the_same_again_for_the_same_seed) {
  const auto run = [](std::uint64_t seed) {
    Settings settings;
    settings.link.error_rate = 0.001;
    StudyOptions options = quick(Traffic::kUniform, 0.3);
    options.seed = seed;
    const auto made = installation("mesh 3x3 1", Routing::kDimension, settings);
    const StudyResult result = Study(*made, options).run();
    EXPECT_GT(result.links.damaged, 0u);
    return std::tuple(result.ticks, result.mean_latency, result.links.flit_hops,
                      result.links.damaged);
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

// B3.4
TEST(Study, of_a_ring_locks_up_with_one_lane_and_never_with_two) {
  Settings settings;
  settings.link.depth = 4;
  StudyOptions options = quick(Traffic::kRecorded, 0.5);
  for (fabric::Tick when = 0; when < 40; ++when) {
    for (std::uint32_t from = 0; from < 6; ++from) {
      options.recorded.push_back({when, from, (from + 3) % 6, 16});
    }
  }
  const auto one = installation("ring 6 1", Routing::kDimension, settings);
  const StudyResult locked = Study(*one, options).run();
  EXPECT_NE(locked.deadlock.find("waits for\n"), std::string::npos);
  EXPECT_NE(locked.deadlock.find("input \"S0\""), std::string::npos) << locked.deadlock;
  EXPECT_FALSE(locked.drained);
  settings.links.lanes = 2;
  const auto two = installation("ring 6 1", Routing::kDimension, settings);
  const StudyResult free = Study(*two, options).run();
  EXPECT_EQ(free.deadlock, "");
  EXPECT_EQ(free.frames, 240u);
  EXPECT_TRUE(free.drained);
}

TEST(Study, of_all_to_all_ends_when_everybody_has_sent_to_everybody) {
  const auto made = installation("fat-tree 4");
  const StudyResult result = Study(*made, quick(Traffic::kAllToAll, 0.5)).run();
  EXPECT_EQ(result.frames, 16u * 15);
  EXPECT_TRUE(result.drained);
}

TEST(Study, of_incast_is_bound_by_the_one_link_to_the_destination) {
  const auto made = installation("fat-tree 4");
  const StudyResult result = Study(*made, quick(Traffic::kIncast, 0.5)).run();
  EXPECT_NEAR(result.accepted * 16, 1.0, 0.02);
}

TEST(Study, of_a_permutation_sends_nobody_to_itself) {
  const auto made = installation("ring 5 1");
  const StudyResult result = Study(*made, quick(Traffic::kPermutation, 0.1)).run();
  EXPECT_TRUE(result.drained);
  EXPECT_GT(result.frames, 100u);
}

TEST(Study, of_recorded_traffic_does_what_the_record_says) {
  const auto made = installation("ring 3 1");
  const auto frames =
      fabric::read_traffic("0 \"H3\" \"H4\" 4\n# later\n100 \"H4\" \"H5\" 8\n", *made);
  ASSERT_TRUE(frames.has_value()) << frames.error().in("f");
  StudyOptions options = quick(Traffic::kRecorded, 0.1);
  options.recorded = *frames;
  const StudyResult result = Study(*made, options).run();
  EXPECT_EQ(result.frames, 2u);
  EXPECT_EQ(result.links.flit_hops, 3u * 4 + 3 * 8);
  const auto wrong = fabric::read_traffic("5 \"H3\" \"H4\" 4\n4 \"H3\" \"H4\" 1\n", *made);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().line, 2u);
  const auto nobody = fabric::read_traffic("5 \"H9\" \"H4\" 4\n", *made);
  EXPECT_EQ(nobody.error().in("f"), "f:1:3: there is no host \"H9\"");
}

// B3.11
TEST(Study, with_errors_on_every_link_loses_nothing) {
  Settings settings;
  settings.link.error_rate = 0.01;
  const auto made = installation("fat-tree 4", Routing::kUpDown, settings);
  const StudyResult result = Study(*made, quick(Traffic::kUniform, 0.2)).run();
  EXPECT_TRUE(result.drained);
  EXPECT_GT(result.links.sent_again, 100u);
  for (const std::uint64_t dropped : result.drops) EXPECT_EQ(dropped, 0u);
  EXPECT_EQ(made->fabric().links().contradiction(), "");
}

TEST(Picture, shows_each_node_and_the_load_of_each_cable) {
  for (const char* words : {"ring 6 1", "mesh 3x2 1", "fat-tree 4"}) {
    const fabric::Topology topology = fabric::generate(words).value();
    const std::string plain = fabric::draw_topology(topology);
    EXPECT_NE(plain.find("<svg "), std::string::npos);
    EXPECT_NE(plain.find("</svg>\n"), std::string::npos);
    EXPECT_NE(plain.find(">H" + std::to_string(topology.nodes.size() - 1) + "<"),
              std::string::npos);
    const std::string loaded =
        fabric::draw_topology(topology, [](std::uint32_t node, std::uint32_t) { return node % 2; });
    EXPECT_NE(loaded.find("hsl(0,"), std::string::npos);
    EXPECT_NE(loaded.find("hsl(120,"), std::string::npos);
  }
}

TEST(Picture, escapes_what_a_name_says) {
  const auto topology = fabric::read_topology("Ca 1 \"<b>&\"\n[1] \"c\"\n\nCa 1 \"c\"\n").value();
  EXPECT_NE(fabric::draw_topology(topology).find("&lt;b&gt;&amp;"), std::string::npos);
}

}  // namespace
}  // namespace weft::test
