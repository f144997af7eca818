// Which claim gets a packet, and what the link is told of addresses that are claimed (B2.4).
#include "network/raw_claims.h"

#include <gtest/gtest.h>

#include "network/neighbour_answer.h"
#include "support/raw_packets.h"

namespace weft::network {
namespace {

using test::Bytes;
using test::bytes_of;
using test::gid;

wire::RawPacket frame_to(const char* destination) {
  return wire::parse_raw_frame(test::frame_of(test::udp_packet(gid("fd00::1"), gid(destination))));
}

std::vector<std::uint32_t> takers(const RawClaims& claims, const wire::RawPacket& packet) {
  std::vector<std::uint32_t> out;
  claims.match(packet, [&](const RawClaims::Row& row) { out.push_back(row.claim.qpn.value); });
  return out;
}

RawClaim claim(std::uint32_t qpn, const RawKey& key = {}) {
  RawClaim out;
  out.qpn = Qpn(qpn);
  out.match = match_of(key);
  return out;
}

using Takers = std::vector<std::uint32_t>;

TEST(RawClaimsTest, priority_counts_before_precision_and_precision_before_age) {
  RawClaims claims;
  RawClaim urgent = claim(1);
  claims.add(claim(2, {.destination = gid("fd00::2")})).value();
  claims.add(claim(3, {.next_header = 17, .destination = gid("fd00::2")})).value();
  EXPECT_EQ(takers(claims, frame_to("fd00::2")), Takers{3});
  urgent.priority = 0;
  RawClaim late = claim(4);
  late.priority = 1;
  claims.add(late).value();
  EXPECT_EQ(takers(claims, frame_to("fd00::9")), Takers{4});
  claims.add(urgent).value();
  EXPECT_EQ(takers(claims, frame_to("fd00::9")), Takers{1});
  EXPECT_EQ(takers(claims, frame_to("fd00::2")), Takers{3});
}

TEST(RawClaimsTest, those_of_the_same_get_a_copy_each_unless_one_is_exclusive) {
  RawClaims claims;
  RawClaim mine = claim(1, {.destination = gid("fd00::2")});
  const auto first = claims.add(mine).value();
  mine.qpn = Qpn(2);
  claims.add(mine).value();
  EXPECT_EQ(takers(claims, frame_to("fd00::2")), (Takers{1, 2}));
  mine.qpn = Qpn(3);
  mine.exclusive = true;
  EXPECT_EQ(claims.add(mine).error().code, Errc::kBusy);
  EXPECT_TRUE(claims.remove(first));
  EXPECT_FALSE(claims.remove(first));
  claims.remove_all_of(Qpn(2));
  EXPECT_TRUE(claims.empty());
  EXPECT_TRUE(claims.add(mine));
}

TEST(RawClaimsTest, observers_get_a_copy_and_keep_nothing_from_others) {
  RawClaims claims;
  RawClaim all = claim(1);
  all.observes = true;
  claims.add(all).value();
  EXPECT_FALSE(claims.match(frame_to("fd00::2"), [](const auto&) {}));
  claims.add(claim(2)).value();
  EXPECT_EQ(takers(claims, frame_to("fd00::2")), (Takers{1, 2}));
}

TEST(RawClaimsTest, an_address_is_claimed_by_name_only) {
  RawClaims claims;
  claims.add(claim(1)).value();
  claims.add(claim(2, {.next_header = 17})).value();
  RawClaim prefix = claim(3, {.destination = gid("fd00::2")});
  prefix.match.destination.mask[15] = 0;
  claims.add(prefix).value();
  EXPECT_FALSE(claims.claims_address(gid("fd00::2")));
  RawClaim frames = claim(4, {.destination = gid("fd00::2")});
  claims.add(frames).value();
  EXPECT_TRUE(claims.claims_address(gid("fd00::2")));
  EXPECT_FALSE(claims.answers_for(gid("fd00::2")));
  frames.packets_only = true;
  frames.match = match_of({.destination = gid("10.0.0.2")});
  claims.add(frames).value();
  EXPECT_TRUE(claims.answers_for(gid("10.0.0.2")));
  EXPECT_FALSE(claims.answers_for(gid("10.0.0.3")));
}

TEST(RawClaimsTest, each_field_of_a_match_counts) {
  const wire::RawPacket packet = frame_to("fd00::2");
  const auto matches = [&](auto change) {
    RawMatch match;
    change(match);
    return match.matches(packet);
  };
  EXPECT_TRUE(matches([](RawMatch&) {}));
  EXPECT_TRUE(matches([](RawMatch& m) { m.link_destination.set_all({10, 10, 10, 10, 10, 10}); }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.link_destination.set_all({10, 10, 10, 10, 10, 11}); }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.link_source.set_all({1, 2, 3, 4, 5, 6}); }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.type = {0x0800, 0xFFFF}; }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.version = 4; }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.link_group_only = true; }));
  EXPECT_TRUE(matches([](RawMatch& m) { m.version = 6, m.destination_port = {9, 0xFFFF}; }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.version = 6, m.destination_port = {8, 0xFFFF}; }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.version = 6, m.source_port = {8, 0xFFFF}; }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.version = 6, m.hop_limit = {63, 0xFF}; }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.version = 6, m.traffic_class = {1, 0xFF}; }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.version = 6, m.flow_label = {1, 0xFFFFF}; }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.version = 6, m.source.set_all(gid("fd00::3").raw); }));
  EXPECT_FALSE(matches([](RawMatch& m) { m.vlan_tag = {5, 0xFFF}; }));
}

// ---- who has an address -----------------------------------------------------------------------

constexpr LinkAddress kOwner{2, 0, 0, 0, 0, 9};

TEST(NeighbourAnswer, a_solicitation_is_answered_with_the_owners_link_address) {
  Bytes solicitation = bytes_of({135, 0, 0, 0, 0, 0, 0, 0});
  const Gid target = gid("fd00::42");
  for (const std::uint8_t byte : target.raw) solicitation.push_back(std::byte{byte});
  Bytes packet = test::ipv6_packet({.source = gid("fd00::1"),
                                    .destination = gid("ff02::1:ff00:42"),
                                    .next_header = 58,
                                    .upper = solicitation});
  packet[7] = std::byte{255};
  const Bytes frame = test::frame_of(packet);
  const auto headers = wire::parse_raw_frame(frame);
  ASSERT_EQ(asked_for(frame, headers), target);
  const Bytes answer = neighbour_answer(frame, headers, target, kOwner);
  const auto read = wire::parse_raw_frame(answer);
  EXPECT_EQ(read.fault, wire::RawFault::kNone);
  EXPECT_EQ(read.source, target);
  EXPECT_EQ(read.destination, gid("fd00::1"));
  EXPECT_EQ(read.hop_limit, 255);
  EXPECT_EQ(read.link_destination[0], std::byte{0x0C});
  EXPECT_EQ(answer[14 + 40], std::byte{136});
  EXPECT_EQ(Bytes(answer.end() - 6, answer.end()), bytes_of({2, 0, 0, 0, 0, 9}));
  std::uint32_t sum = 58 + 32;
  for (std::size_t i = 14 + 8; i < answer.size(); i += 2) {
    sum += base::load_be<std::uint16_t>(answer.data() + i);
  }
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  EXPECT_EQ(sum, 0xFFFFU);
  // Nobody owns the address of a group.
  Bytes group = packet;
  group[40 + 8] = std::byte{0xFF};
  EXPECT_FALSE(asked_for(test::frame_of(group), wire::parse_raw_frame(test::frame_of(group))));
  // From beyond a router it is none.
  packet[7] = std::byte{64};
  const Bytes far = test::frame_of(packet);
  EXPECT_FALSE(asked_for(far, wire::parse_raw_frame(far)));
}

TEST(NeighbourAnswer, an_arp_request_is_answered_and_each_shorter_one_is_not) {
  const Bytes arp = bytes_of(
      {0, 1, 8, 0, 6, 4, 0, 1, 12, 12, 12, 12, 12, 12, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 7});
  const Bytes frame = test::frame_of(arp, 0x0806);
  const auto headers = wire::parse_raw_frame(frame);
  ASSERT_EQ(asked_for(frame, headers), gid("10.0.0.7"));
  const Bytes answer = neighbour_answer(frame, headers, gid("10.0.0.7"), kOwner);
  EXPECT_EQ(Bytes(answer.begin() + 14, answer.end()),
            bytes_of({0,  1, 8, 0, 6,  4,  0,  2,  2,  0,  0,  0, 0, 9,
                      10, 0, 0, 7, 12, 12, 12, 12, 12, 12, 10, 0, 0, 1}));
  for (std::size_t n = 14; n < frame.size(); ++n) {
    const Bytes cut(frame.begin(), frame.begin() + static_cast<long>(n));
    EXPECT_FALSE(asked_for(cut, wire::parse_raw_frame(cut))) << n;
  }
}

}  // namespace
}  // namespace weft::network
