#include "files/gid_table.h"

#include <gtest/gtest.h>

#include "network/address.h"

namespace weft::files {
namespace {

ShownDevice with_gids(const char* list, LinkLayer link_layer = LinkLayer::kEthernet) {
  return parse_devices(list, link_layer).value().front();
}
Gid gid_from(const char* text) { return network::parse_address(text).value(); }

TEST(GidTable, has_the_address_and_a_link_local_gid_in_both_roce_types) {
  const ShownDevice device = with_gids("weft0=10.1.2.3");
  ASSERT_EQ(gid_count(device), 4u);
  EXPECT_EQ(gid_entry(device, 0), (GidEntry{gid_from("10.1.2.3"), GidType::kRoceV1}));
  EXPECT_EQ(gid_entry(device, 1), (GidEntry{gid_from("fe80::5efe:a01:203"), GidType::kRoceV2}));
  EXPECT_EQ(gid_entry(device, 2), (GidEntry{gid_from("fe80::5efe:a01:203"), GidType::kRoceV1}));
  EXPECT_EQ(gid_entry(device, 3), (GidEntry{gid_from("10.1.2.3"), GidType::kRoceV2}));
  EXPECT_EQ(gid_entry(device, 4), std::nullopt);
  EXPECT_EQ(gid_entry(device, kGidTableLength), std::nullopt);
  EXPECT_EQ(address_gid_index(device), 3);
}

TEST(GidTable, of_infiniband_has_one_entry) {
  const ShownDevice device = with_gids("weft0", LinkLayer::kInfiniBand);
  EXPECT_EQ(gid_count(device), 1u);
  EXPECT_EQ(gid_entry(device, 0), (GidEntry{gid_from("127.0.0.1"), GidType::kInfiniBand}));
  EXPECT_EQ(gid_entry(device, 1), std::nullopt);
  EXPECT_EQ(address_gid_index(device), 0);
}

TEST(GidTable, a_link_local_gid_leads_back_to_its_address) {
  for (const char* text :
       {"127.0.0.1", "10.0.0.1", "192.168.255.254", "::1", "fd00::1", "2001:db8:1:2:3:4:5:6"}) {
    const Gid address = gid_from(text), own = gid_from(text);
    const Gid local = link_local_gid(address);
    EXPECT_TRUE(is_link_local(local)) << text;
    EXPECT_EQ(address_of_gid(local, own), address) << text;
  }
  // A neighbour's, of the same /64.
  EXPECT_EQ(address_of_gid(link_local_gid(gid_from("fd00::7")), gid_from("fd00::1")),
            gid_from("fd00::7"));
  EXPECT_EQ(address_of_gid(link_local_gid(gid_from("10.0.0.7")), gid_from("10.0.0.1")),
            gid_from("10.0.0.7"));
}

TEST(GidTable, the_universal_bit_of_an_ipv4_identifier_makes_no_difference) {
  EXPECT_EQ(address_of_gid(gid_from("fe80::200:5efe:a00:7"), gid_from("10.0.0.1")),
            gid_from("10.0.0.7"));
  EXPECT_EQ(address_of_gid(gid_from("fe80::100:5efe:a00:7"), gid_from("10.0.0.1")), std::nullopt);
}

TEST(GidTable, other_gids_name_themselves) {
  for (const char* text : {"10.0.0.9", "fd00::9", "224.0.0.1", "ff02::1", "fec0::1", "::"}) {
    EXPECT_EQ(address_of_gid(gid_from(text), gid_from("10.0.0.1")), gid_from(text)) << text;
  }
}

TEST(GidTable, what_a_peer_made_up_stands_for_nobody) {
  const Gid own = gid_from("10.0.0.1");
  // A network card's, from its MAC address.
  EXPECT_EQ(address_of_gid(gid_from("fe80::5054:ff:fe12:3456"), own), std::nullopt);
  for (const char* text : {"fe80::5efe:0:0", "fe80::5efe:ffff:ffff", "fe80::5efe:e000:1"}) {
    EXPECT_EQ(address_of_gid(gid_from(text), own), std::nullopt) << text;
    EXPECT_EQ(address_of_gid(gid_from(text), gid_from("fd00::1")), std::nullopt) << text;
  }
  EXPECT_EQ(address_of_gid(gid_from("fe80::"), gid_from("::1")), std::nullopt);
  EXPECT_EQ(address_of_gid(gid_from("fe80::ffff:a00:1"), gid_from("::1")), std::nullopt);
}

}  // namespace
}  // namespace weft::files
