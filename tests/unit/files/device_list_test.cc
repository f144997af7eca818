#include "files/device_list.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "network/address.h"

namespace weft::files {
namespace {

constexpr LinkLayer kEthernet = LinkLayer::kEthernet;

TEST(DeviceList, nothing_said_means_one_device_at_the_loopback_address) {
  const auto devices = parse_devices("", kEthernet).value();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].name, "weft0");
  EXPECT_EQ(network::to_string(devices[0].address), "127.0.0.1");
  EXPECT_EQ(devices[0].interface, "lo");
  EXPECT_EQ(devices[0].lid, Lid(0));
}

TEST(DeviceList, addresses_are_given_or_follow_from_the_place) {
  const auto devices = parse_devices("a=::1,b,c-d_3=10.1.2.3", kEthernet).value();
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(network::to_string(devices[0].address), "::1");
  EXPECT_EQ(network::to_string(devices[1].address), "127.0.0.2");
  EXPECT_EQ(network::to_string(devices[2].address), "10.1.2.3");
  EXPECT_EQ(devices[2].name, "c-d_3");
  EXPECT_EQ(devices[2].uverbs, 2U);
}

TEST(DeviceList, guids_are_stable_different_and_locally_administered) {
  const auto first = parse_devices("a,b,c=127.0.0.1", kEthernet).value();
  const auto again = parse_devices("a,b,c=127.0.0.1", kEthernet).value();
  std::set<std::uint64_t> guids;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].guid, again[i].guid);
    EXPECT_EQ(first[i].guid >> 56, 2U);
    guids.insert(first[i].guid);
  }
  EXPECT_EQ(guids.size(), first.size());
}

TEST(DeviceList, infiniband_ports_have_local_identifiers) {
  const auto devices = parse_devices("a,b", LinkLayer::kInfiniBand).value();
  EXPECT_EQ(devices[0].lid, Lid(1));
  EXPECT_EQ(devices[1].lid, Lid(2));
}

TEST(DeviceList, refuses_what_is_no_name_and_names_twice_and_too_many) {
  for (const char* text : {"a,a", "a/b", "..", "a b", "=127.0.0.1", "a,,b", "a=", "a=host", ","}) {
    EXPECT_FALSE(parse_devices(text, kEthernet)) << text;
  }
  EXPECT_FALSE(parse_devices(std::string(41, 'x'), kEthernet));
  EXPECT_TRUE(parse_devices(std::string(40, 'x'), kEthernet));
  std::string many = "d0";
  for (int i = 1; i < 16; ++i) many += ",d" + std::to_string(i);
  EXPECT_TRUE(parse_devices(many, kEthernet));
  EXPECT_FALSE(parse_devices(many + ",d16", kEthernet));
}

TEST(DeviceList, link_layers_are_ib_and_roce) {
  EXPECT_EQ(parse_link_layer("ib"), LinkLayer::kInfiniBand);
  EXPECT_EQ(parse_link_layer("roce"), LinkLayer::kEthernet);
  EXPECT_EQ(parse_link_layer("IB"), std::nullopt);
  EXPECT_EQ(parse_link_layer(""), std::nullopt);
}

}  // namespace
}  // namespace weft::files
