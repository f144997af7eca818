// Topology files and what is made of them: routes, lanes, the cycle test.
#include "fabric/topology.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "fabric/generators.h"
#include "fabric/installation.h"
#include "fabric/topology_reader.h"
#include "fabric/topology_writer.h"

namespace weft::test {
namespace {

using namespace std::string_literals;
using fabric::Installation;
using fabric::NodeKind;
using fabric::Routing;
using fabric::Settings;
using fabric::Topology;

constexpr const char* kNet =
    "# two hosts and a switch\n"
    "Switch\t8 \"Switch1\"\n"
    "[1]\t\"Hca1\"[1]\n"
    "[4]\t\"Hca2\"  w=4 s=2\n"
    "\n"
    "Hca\t2 \"Hca1\"\n"
    "[1]\t\"Switch1\"[1]\n"
    "\n"
    "Hca\t2 \"Hca2\"\n"
    "[1]\t\"Switch1\"[4]\n";

constexpr const char* kDiscovered =
    "#\n# Topology file: generated on Thu Nov 19 19:00:00 2026\n#\n"
    "# Initiated from node 00117500007ea9b2 port 00117500007ea9b3\n\n"
    "vendid=0x2c9\ndevid=0xbd36\nsysimgguid=0x8f10500200137\n"
    "switchguid=0x8f10500200134(8f10500200134)\n"
    "Switch\t36 \"S-0008f10500200134\"\t\t# \"a switch # of ours\" enhanced port 0 lid 1 lmc 0\n"
    "[2]\t\"H-00117500007ea9b2\"[1](117500007ea9b3) \t\t# \"larissa HCA-1\" lid 2 4xQDR\n"
    "\nvendid=0x2c9\ndevid=0x6750\ncaguid=0x117500007ea9b2\n"
    "Ca\t2 \"H-00117500007ea9b2\"\t\t# \"larissa HCA-1\"\n"
    "[1](117500007ea9b3) \t\"S-0008f10500200134\"[2]\t\t# lid 2 lmc 1 \"a switch # of ours\" lid 1 "
    "12xHDR\n";

TEST(TopologyReader, reads_the_net_format) {
  const auto topology = fabric::read_topology(kNet);
  ASSERT_TRUE(topology.has_value()) << topology.error().in("net");
  ASSERT_EQ(topology->nodes.size(), 3u);
  const auto& node = topology->nodes[0];
  EXPECT_EQ(node.kind, NodeKind::kSwitch);
  EXPECT_EQ(node.ports.size(), 8u);
  EXPECT_EQ(node.port(4).node, topology->find("Hca2").value());
  EXPECT_EQ(node.port(4).port, 1u);
  EXPECT_EQ(node.port(2).node, fabric::kNone);
}

TEST(TopologyReader, reads_what_ibnetdiscover_prints) {
  const auto topology = fabric::read_topology(kDiscovered);
  ASSERT_TRUE(topology.has_value()) << topology.error().in("discovered");
  ASSERT_EQ(topology->nodes.size(), 2u);
  EXPECT_EQ(topology->nodes[0].guid, 0x8f10500200134u);
  EXPECT_EQ(topology->nodes[0].description, "a switch # of ours");
  EXPECT_EQ(topology->nodes[0].lid, Lid(1));
  const auto& port = topology->nodes[1].port(1);
  EXPECT_EQ(port.guid, 0x117500007ea9b3u);
  EXPECT_EQ(port.lid, Lid(2));
  EXPECT_EQ(port.lmc, 1);
  EXPECT_EQ(port.width, 12);
  EXPECT_EQ(port.speed, "HDR");
}

TEST(TopologyReader, says_line_column_and_what_was_expected) {
  const auto error_of = [](const std::string& text) {
    const auto topology = fabric::read_topology(text);
    return topology ? "none"s : topology.error().in("f");
  };
  EXPECT_EQ(error_of(""), "f:1:1: expected a node, and the file ends");
  EXPECT_EQ(error_of("Swich 8 \"a\"\n"),
            "f:1:1: expected Switch, Hca, Ca, Rt, a port in brackets, or name=value");
  EXPECT_EQ(error_of("Switch \"a\"\n"), "f:1:8: expected a number of ports");
  EXPECT_EQ(error_of("Switch 300 \"a\"\n"), "f:1:8: expected a number of ports from 1 to 254");
  EXPECT_EQ(error_of("Switch 8 a\n"), "f:1:10: expected the node's name in quotes");
  EXPECT_EQ(error_of("Switch 8 \"a\n"), "f:1:10: the quote is not closed");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n\nHca 1 \"a\"\n"), "f:3:7: there is a node \"a\" already");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n[9] \"b\"\n"), "f:2:2: expected a port from 1 to 8");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n[1 \"b\"\n"), "f:2:4: expected ']'");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n[1]\n"),
            "f:2:4: expected the name of the node at the other end in quotes, and the line ends");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n[1]\t\"b\"[1]\n"), "f:2:5: there is no node \"b\"");
  EXPECT_EQ(error_of("[1] \"b\"\n"), "f:1:1: expected a node before its ports");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n[1]\t\"b\"[1] x\n\nHca 1 \"b\"\n"),
            "f:2:12: expected w=, s= or e=, a comment or the line's end");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n[1] \"b\"[2]\n\nHca 1 \"b\"\n"),
            "f:2:5: expected a port of \"b\" from 1 to 1");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n[1] \"a\"[1]\n"),
            "f:2:5: a port cannot be connected to itself");
  EXPECT_EQ(error_of("Switch 8 \"a\"\n[1] \"b\"\n[2] \"b\"\n\nHca 1 \"b\"\n"),
            "f:3:5: \"b\"[1] is connected to \"a\"[1] already");
}

TEST(TopologyWriter, writes_what_the_reader_reads) {
  for (const char* words : {"ring 5 2", "fat-tree 4", "dragonfly 2 2 1", "mesh 3x2 1"}) {
    const Topology made = fabric::generate(words).value();
    const std::string text = fabric::write_topology(made);
    const auto read = fabric::read_topology(text);
    ASSERT_TRUE(read.has_value()) << read.error().in(words);
    EXPECT_EQ(read->nodes.size(), made.nodes.size());
    EXPECT_EQ(fabric::write_topology(*read), text);
  }
  const auto discovered = fabric::read_topology(kDiscovered).value();
  const std::string text = fabric::write_topology(discovered);
  EXPECT_EQ(fabric::write_topology(fabric::read_topology(text).value()), text);
}

TEST(Topologies, with_a_guid_twice_or_parts_apart_are_reported) {
  const auto topology = fabric::read_topology(
      "caguid=0x5\nCa 1 \"a\"\n[1](6) \"b\"[1]\n\ncaguid=0x6\nCa 1 \"b\"\n\n"
      "Ca 1 \"c\"\n[1] \"d\"\n\nCa 1 \"d\"\n\nCa 1 \"e\"\n");
  ASSERT_TRUE(topology.has_value()) << topology.error().in("f");
  const auto complaints = fabric::complaints_about(*topology);
  ASSERT_EQ(complaints.size(), 3u);
  EXPECT_EQ(complaints[0], "GUID 0x0000000000000006 is that of \"a\"[1] and of \"b\"");
  EXPECT_EQ(complaints[1], "\"c\" and what it is connected to cannot be reached from \"a\"");
  EXPECT_EQ(complaints[2], "\"e\" has no cable");
}

TEST(Generators, make_what_they_say) {
  const auto count = [](const char* words, NodeKind kind) {
    return fabric::generate(words).value().count(kind);
  };
  EXPECT_EQ(count("ring 6 2", NodeKind::kSwitch), 6u);
  EXPECT_EQ(count("ring 6 2", NodeKind::kEndpoint), 12u);
  EXPECT_EQ(count("torus 4x4x3 1", NodeKind::kSwitch), 48u);
  EXPECT_EQ(count("fat-tree 4", NodeKind::kSwitch), 20u);
  EXPECT_EQ(count("fat-tree 4", NodeKind::kEndpoint), 16u);
  EXPECT_EQ(count("dragonfly 4 2 2", NodeKind::kSwitch), 36u);
  EXPECT_EQ(count("dragonfly 4 2 2", NodeKind::kEndpoint), 72u);
  for (const char* words : {"ring 6 2", "torus 4x4x3 1", "fat-tree 4", "dragonfly 4 2 2"}) {
    EXPECT_TRUE(fabric::complaints_about(fabric::generate(words).value()).empty()) << words;
  }
  for (const char* words : {"", "ring", "ring x", "ring 2", "fat-tree 5", "star 4", "mesh 4x 1",
                            "mesh 1000x1000x1000 1", "dragonfly 1 1", "ring 4 254"}) {
    EXPECT_FALSE(fabric::generate(words).has_value()) << words;
  }
}

std::unique_ptr<Installation> install(const char* words, Routing routing, std::uint8_t lanes = 1) {
  Settings settings;
  settings.links.lanes = lanes;
  return Installation::create(fabric::generate(words).value(), settings, {routing, 0}).value();
}

// B3.4
TEST(CycleTest, finds_none_in_up_down_routes_of_any_topology) {
  for (const char* words : {"ring 6 1", "ring 7 1", "mesh 4x4 1", "torus 4x4 1", "torus 3x3x3 1",
                            "fat-tree 4", "dragonfly 4 2 2"}) {
    const auto made = install(words, Routing::kUpDown);
    EXPECT_EQ(made->unreachable(), "") << words;
    EXPECT_TRUE(made->find_cycle().empty()) << words << "\n" << made->describe(made->find_cycle());
  }
}

// B3.4
TEST(CycleTest, finds_one_in_rings_and_tori_with_too_few_lanes_and_none_with_enough) {
  for (const auto& [words, lanes] : {std::pair{"ring 6 1", 2},
                                     {"ring 9 1", 2},
                                     {"torus 5x5 1", 4},
                                     {"torus 4x6 1", 4},
                                     {"torus 4x4x4 1", 8}}) {
    const auto few = install(words, Routing::kDimension, 1);
    EXPECT_EQ(few->unreachable(), "") << words;
    EXPECT_EQ(few->lanes_wanted(), static_cast<unsigned>(lanes));
    EXPECT_FALSE(few->find_cycle().empty()) << words;
    const auto enough = install(words, Routing::kDimension, static_cast<std::uint8_t>(lanes));
    EXPECT_TRUE(enough->find_cycle().empty()) << words;
  }
  EXPECT_TRUE(install("mesh 5x4 1", Routing::kDimension)->find_cycle().empty());
}

TEST(CycleTest, tells_the_cycle_by_names) {
  const auto ring = install("ring 6 1", Routing::kDimension);
  const std::string text = ring->describe(ring->find_cycle());
  EXPECT_NE(text.find("\"S0\"[1] -> \"S1\"[2] lane 0 waits for\n"), std::string::npos) << text;
  EXPECT_NE(text.find("the first again"), std::string::npos) << text;
}

TEST(Installation, of_a_ring_that_a_file_describes_is_recognised) {
  const std::string text = fabric::write_topology(fabric::generate("ring 6 1").value());
  Settings settings;
  settings.links.lanes = 2;
  const auto made =
      Installation::create(fabric::read_topology(text).value(), settings, {Routing::kDimension, 0});
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE((*made)->find_cycle().empty());
  EXPECT_EQ((*made)->unreachable(), "");
  EXPECT_FALSE(Installation::create(fabric::generate("fat-tree 4").value(), settings,
                                    {Routing::kDimension, 0})
                   .has_value());
}

/// Each endpoint sends to each other.
void expect_all_reach_all(Installation& made) {
  const auto count = static_cast<std::uint32_t>(made.endpoints().size());
  std::size_t sent = 0;
  for (std::uint32_t from = 0; from < count; ++from) {
    for (std::uint32_t to = 0; to < count; ++to) {
      if (from == to) continue;
      fabric::Sending what = made.sending(from, to, 3);
      what.cookie = to;
      made.fabric().send(what);
      ++sent;
    }
  }
  ASSERT_TRUE(made.fabric().run(1'000'000));
  EXPECT_EQ(made.fabric().links().contradiction(), "");
  EXPECT_TRUE(made.fabric().take_drops().empty());
  const auto arrivals = made.fabric().take_arrivals();
  EXPECT_EQ(arrivals.size(), sent);
  for (const auto& arrival : arrivals) {
    const auto& frame = made.fabric().frame(arrival.frame);
    EXPECT_EQ(arrival.port, made.endpoints()[frame.cookie].port);
  }
}

TEST(Installation, carries_frames_from_each_endpoint_to_each_other) {
  for (const char* words : {"ring 6 1", "mesh 3x3 2", "fat-tree 4", "dragonfly 2 2 1"}) {
    expect_all_reach_all(*install(words, Routing::kUpDown));
  }
  expect_all_reach_all(*install("torus 4x4 1", Routing::kDimension, 4));
}

// B3.6
TEST(Installation, routes_between_three_subnets_in_a_row) {
  const auto topology = fabric::read_topology(
      "Switch 4 \"s1\"\n[1] \"a\"\n[2] \"r1\"[1]\n\nSwitch 4 \"s2\"\n[1] \"b\"\n[2] \"r1\"[2]\n"
      "[3] \"r2\"[1]\n\nSwitch 4 \"s3\"\n[1] \"c\"\n[2] \"r2\"[2]\n\nCa 1 \"a\"\n\nCa 1 \"b\"\n\n"
      "Ca 1 \"c\"\n\nRt 2 \"r1\"\n\nRt 2 \"r2\"\n");
  ASSERT_TRUE(topology.has_value()) << topology.error().in("f");
  const auto made = Installation::create(*topology, {}, {}).value();
  EXPECT_EQ(made->subnets(), 3u);
  expect_all_reach_all(*made);
}

TEST(SettingsReader, sets_links_by_name_and_says_what_is_wrong) {
  Topology topology = fabric::generate("ring 4 1").value();
  const auto read = fabric::read_settings(
      "lanes 2\n# a comment\ndefault latency 3 depth 8\nlink \"S0\"[1] latency 90 errors 1e-3\n"
      "node \"S1\" pipeline 4\nwhole-frames on\ncontrol free\ntick 2.5ns\n",
      topology);
  ASSERT_TRUE(read.has_value()) << read.error().in("f");
  EXPECT_EQ(read->links.lanes, 2);
  EXPECT_TRUE(read->links.whole_frames);
  EXPECT_FALSE(read->links.control_takes_turns);
  EXPECT_EQ(read->tick_ns, 2.5);
  const auto made = Installation::create(topology, *read, {}).value();
  const auto& shape = made->fabric().shape();
  const auto& slow = shape.ports[shape.port(0, 1)].link;
  EXPECT_EQ(slow.latency, 90u);
  EXPECT_EQ(slow.depth, 8);
  EXPECT_EQ(slow.error_rate, 1e-3);
  EXPECT_EQ(shape.ports[shape.port(1, 1)].link.latency, 3u);
  EXPECT_EQ(shape.nodes[1].pipeline, 4u);
  const auto error_of = [&topology](const char* text) {
    const auto settings = fabric::read_settings(text, topology);
    return settings ? "none"s : settings.error().in("f");
  };
  EXPECT_EQ(error_of("lane 2\n"),
            "f:1:1: expected lanes, pipeline, turnaround, whole-frames, control, tick, grid, "
            "place, default, link or "
            "node");
  EXPECT_EQ(error_of("lanes 17\n"), "f:1:7: expected a number of lanes from 1 to 16");
  EXPECT_EQ(error_of("\nlink \"S9\"[1]\n"), "f:2:6: there is no node \"S9\"");
  EXPECT_EQ(error_of("link \"S0\"[9]\n"), "f:1:11: expected a port from 1 to 3");
  EXPECT_EQ(error_of("default latency 0\n"), "f:1:17: expected latency from 1 to 1000000");
  EXPECT_EQ(error_of("default errors 2\n"), "f:1:16: expected a chance from 0 to 1");
  EXPECT_EQ(error_of("tick 5\n"), "f:1:6: expected a time like 5.12ns");
  EXPECT_EQ(error_of("lanes 2 2\n"), "f:1:9: expected the line's end");
}

// B3.6
TEST(MachineRoom, that_is_shipped_has_three_subnets_and_everybody_reaches_everybody) {
  const auto text_of = [](const char* name) {
    std::ifstream file(std::string(WEFT_TEST_DATA "/../../examples/fabrics/") + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  auto topology = fabric::read_topology(text_of("machine-room.topo"));
  ASSERT_TRUE(topology.has_value()) << topology.error().in("machine-room.topo");
  const auto settings = fabric::read_settings(text_of("machine-room.topo.weft"), *topology);
  ASSERT_TRUE(settings.has_value()) << settings.error().in("machine-room.topo.weft");
  EXPECT_TRUE(fabric::complaints_about(*topology).empty());
  const auto made = Installation::create(*topology, *settings, {}).value();
  EXPECT_EQ(made->subnets(), 3u);
  EXPECT_EQ(made->endpoints().size(), 16u);
  EXPECT_TRUE(made->find_cycle().empty());
  expect_all_reach_all(*made);
}

TEST(Installation, gives_a_port_several_lids_and_all_of_them_lead_there) {
  const auto made =
      Installation::create(fabric::generate("fat-tree 4").value(), {}, {Routing::kUpDown, 2})
          .value();
  const auto& to = made->endpoints()[15];
  std::set<fabric::PortIndex> ways;
  for (std::uint16_t i = 0; i < 4; ++i) {
    fabric::Sending what = made->sending(0, 15, 1);
    what.destination = Lid(static_cast<std::uint16_t>(to.lid.value + i));
    made->fabric().send(what);
    const auto& shape = made->fabric().shape();
    const auto leaf_in = shape.ports[made->endpoints()[0].port].peer;
    ways.insert(made->fabric().forwarding().route_of(leaf_in, what.destination));
  }
  ASSERT_TRUE(made->fabric().run(1'000));
  const auto arrivals = made->fabric().take_arrivals();
  EXPECT_EQ(arrivals.size(), 4u);
  for (const auto& arrival : arrivals) EXPECT_EQ(arrival.port, to.port);
  EXPECT_EQ(ways.size(), 2u);  // they take different ways up
}

}  // namespace
}  // namespace weft::test
