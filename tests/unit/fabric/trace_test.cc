// One message from host to host over three hops, flit by flit, and the acknowledgements' way back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "fabric/encapsulation.h"
#include "support/fabric_kit.h"
#include "wire/bth.h"

namespace weft::test {
namespace {

struct Recorder {
  explicit Recorder(HostsAndSwitches& network) : net(network) {
    names = {{net.hosts[0], "A"},
             {net.hosts[1], "B"},
             {net.shape.port(net.nodes[0], 3), "1a"},
             {net.shape.port(net.nodes[0], 2), "1b"},
             {net.shape.port(net.nodes[1], 1), "2a"},
             {net.shape.port(net.nodes[1], 3), "2b"}};
    net.fabric->links().set_tap([this](Tick when, PortIndex from, const fabric::Flit& flit) {
      const std::string link = names.at(from) + "-" + names.at(net.shape.ports[from].peer);
      if (flit.is(fabric::kData)) {
        lines.push_back(fmt::format("{} {} frame {} flit {}{}", when, link, flit.frame, flit.index,
                                    flit.is(fabric::kTail) ? " last" : ""));
      } else {
        lines.push_back(fmt::format("{} {} acknowledges {} credit {}", when, link,
                                    flit.acknowledged, flit.credit));
      }
    });
  }
  HostsAndSwitches& net;
  std::map<PortIndex, std::string> names;
  std::vector<std::string> lines;
};

LinkSettings patient() {
  LinkSettings settings;
  settings.ack_batch = 16;
  settings.credit_batch = 16;
  settings.ack_delay = 24;
  return settings;
}

// B3.2
TEST(GoldenTrace, of_a_message_of_four_parts_two_frames_and_eight_flits) {
  HostsAndSwitches net(2, 1, false, patient());
  Recorder recorder(net);
  // Four parts of the sender's memory, 396 bytes in all, at an MTU of 256: two frames.
  const std::size_t parts[] = {99, 101, 60, 136};
  std::size_t left = 0;
  for (const std::size_t part : parts) left += part;
  std::size_t flits = 0;
  constexpr std::size_t kLocalHeaders =
      wire::Lrh::kSize + wire::Bth::kSize + wire::kIcrcSize + fabric::kVcrcSize;
  while (left > 0) {
    const std::size_t payload = std::min<std::size_t>(left, 256);
    left -= payload;
    const std::uint16_t size = fabric::flits_for(payload + kLocalHeaders);
    flits += size;
    net.send(0, 1, size);
  }
  EXPECT_EQ(flits, 8u);
  ASSERT_TRUE(net.run(200));
  EXPECT_EQ(net.fabric->take_arrivals().size(), 2u);
  EXPECT_TRUE(net.all_credits_are_home());
  // Cut through: the first flit reaches B's link while the frame's third is being sent.
  for (const char* head :
       {"0 A-1a frame 0 flit 0", "1 1b-2a frame 0 flit 0", "2 2b-B frame 0 flit 0"}) {
    EXPECT_TRUE(std::ranges::count(recorder.lines, head)) << head;
  }
  std::map<std::string, std::vector<std::string>> by_link;
  for (const std::string& line : recorder.lines) {
    const std::size_t from = line.find(' ') + 1, to = line.find(' ', from);
    by_link[line.substr(from, to - from)].push_back(line.substr(to + 1));
  }
  const std::vector<std::string> eight{"frame 0 flit 0", "frame 0 flit 1",      "frame 0 flit 2",
                                       "frame 0 flit 3", "frame 0 flit 4 last", "frame 1 flit 0",
                                       "frame 1 flit 1", "frame 1 flit 2 last"};
  const std::vector<std::string> one_acknowledgement{"acknowledges 8 credit 8"};
  for (const char* link : {"A-1a", "1b-2a", "2b-B"}) EXPECT_EQ(by_link[link], eight) << link;
  for (const char* link : {"1a-A", "2a-1b", "B-2b"}) {
    EXPECT_EQ(by_link[link], one_acknowledgement) << link;
  }

  // The other half: B answers each frame; an acknowledgement frame is a single flit.
  recorder.lines.clear();
  by_link.clear();
  constexpr std::size_t kAeth = 4;
  const std::uint16_t size = fabric::flits_for(kLocalHeaders + kAeth);
  EXPECT_EQ(size, 1);
  for (int frame = 0; frame < 2; ++frame) net.send(1, 0, size);
  ASSERT_TRUE(net.run(200));
  EXPECT_EQ(net.fabric->take_arrivals().size(), 2u);
  for (const std::string& line : recorder.lines) {
    const std::size_t from = line.find(' ') + 1, to = line.find(' ', from);
    by_link[line.substr(from, to - from)].push_back(line.substr(to + 1));
  }
  const std::vector<std::string> two{"frame 2 flit 0 last", "frame 3 flit 0 last"};
  for (const char* link : {"B-2b", "2a-1b", "1a-A"}) EXPECT_EQ(by_link[link], two) << link;
  for (const char* link : {"2b-B", "1b-2a", "A-1a"}) {
    EXPECT_EQ(by_link[link], std::vector<std::string>{"acknowledges 2 credit 2"}) << link;
  }
  EXPECT_TRUE(net.all_credits_are_home());
}

// B3.2
TEST(Flit, is_read_as_it_was_written_and_every_error_of_up_to_three_bits_is_found) {
  fabric::Flit flit;
  flit.kind = fabric::kData | fabric::kHead | fabric::kCredit;
  flit.lane = 3;
  flit.credit_lane = 9;
  flit.credit = 0x12345678;
  flit.sequence = 0xFFFE;
  flit.acknowledged = 77;
  const std::vector<std::byte> data(40, std::byte{0x5A});
  const std::vector<std::byte> bytes = fabric::emit_flit(flit, data);
  const auto parsed = fabric::parse_flit(bytes);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->flit.lane, 3);
  EXPECT_EQ(parsed->flit.credit_lane, 9);
  EXPECT_EQ(parsed->flit.credit, 0x12345678u);
  EXPECT_EQ(parsed->flit.sequence, 0xFFFE);
  EXPECT_EQ(parsed->flit.acknowledged, 77);
  EXPECT_EQ(parsed->flit.kind, flit.kind);
  EXPECT_TRUE(std::ranges::equal(parsed->data, data));
  const std::size_t bits = bytes.size() * 8;
  const auto flipped = [&](std::initializer_list<std::size_t> which) {
    auto damaged = bytes;
    for (const std::size_t bit : which) damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    return fabric::parse_flit(damaged).has_value();
  };
  for (std::size_t a = 0; a < bits; ++a) {
    EXPECT_FALSE(flipped({a}));
    for (std::size_t b = a + 1; b < bits; b += 5) {
      EXPECT_FALSE(flipped({a, b}));
      EXPECT_FALSE(b + 1 < bits && flipped({a, b, b + 1}));
    }
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(fabric::parse_flit(std::span(bytes).first(size)).has_value());
  }
}

}  // namespace
}  // namespace weft::test
