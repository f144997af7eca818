#include "files/machine_addresses.h"

#include <gtest/gtest.h>

#include "network/address.h"
#include "support/two_hosts.h"

namespace weft::files {
namespace {

using test::kCable;
using test::kFirstHost;

std::string address(const char* text) {
  const auto place = parse_place(text);
  return place ? network::to_string(*place) : place.error().message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MachineAddresses, an_address_is_itself_whether_it_is_there_or_not) {
  EXPECT_EQ(address("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(address("fd00::1"), "fd00::1");
}

TEST(MachineAddresses, the_loopback_interface_is_at_its_address) {
  EXPECT_EQ(address("lo"), "127.0.0.1");
}

TEST(MachineAddresses, an_interface_that_is_not_there_is_told_with_those_that_are) {
  const std::string said = address("etth0");
  EXPECT_TRUE(has(said, "neither an interface nor an address 'etth0'")) << said;
  EXPECT_TRUE(has(said, "lo (127.0.0.1")) << said;
}

TEST(MachineAddresses, what_looks_like_an_address_is_judged_as_one) {
  for (const char* text : {"", "10.0.0", "10.0.0.1.2", "fd00::zz", "300.1.1.1"}) {
    const auto place = parse_place(text);
    ASSERT_FALSE(place) << text;
    EXPECT_FALSE(has(place.error().message, "interface")) << place.error().message;
  }
}

TEST(MachineAddresses, the_list_names_each_interface_once) {
  EXPECT_EQ(to_string({}), "none at all");
  EXPECT_EQ(to_string({{"lo", Gid::ipv4(127, 0, 0, 1), true},
                       {"e0", Gid::ipv4(10, 0, 0, 5), true},
                       {"e0", network::parse_address("fd00::5").value(), true}}),
            "lo (127.0.0.1), e0 (10.0.0.5, fd00::5)");
}

int places_of_a_host_with_a_cable(int) {
  if (address(kCable) != kFirstHost.v4) return 1;  // IPv4 comes first
  if (address("auto") != kFirstHost.v4) return 2;  // without a default route
  const auto devices = parse_devices("a=auto,b=cable0,c", LinkLayer::kEthernet);
  if (!devices || devices->at(0).interface != kCable) return 3;
  if (devices->at(1).address != devices->at(0).address) return 4;
  // With two to choose from it is the one that the default route leaves by.
  if (!test::ip("link add spare0 type veth peer name spare1") ||
      !test::ip("addr add 10.99.0.1/24 dev spare0") || !test::ip("link set spare0 up") ||
      !test::ip("route add default via 10.99.0.2 dev spare0")) {
    return 5;
  }
  if (address("auto") != "10.99.0.1") return 6;
  if (!has(address("spare1"), "interface spare1 has no address: give it one")) return 7;
  return 0;
}

int places_of_a_host_without_a_cable(int) {
  if (!test::ip("link del " + std::string(kCable))) return 1;
  const std::string said = address("auto");
  if (!has(said, "no address that other hosts reach, only lo (127.0.0.1")) return 2;
  return 0;
}

TEST(MachineAddresses, interfaces_and_the_default_route_lead_to_an_address) {
  const auto ended = test::on_two_hosts(places_of_a_host_with_a_cable, test::stay);
  if (!ended) GTEST_SKIP() << "no network namespaces may be made here";
  EXPECT_EQ(*ended, 0);
}

TEST(MachineAddresses, without_a_network_there_is_no_automatic_address) {
  const auto ended = test::on_two_hosts(places_of_a_host_without_a_cable, test::stay);
  if (!ended) GTEST_SKIP() << "no network namespaces may be made here";
  EXPECT_EQ(*ended, 0);
}

}  // namespace
}  // namespace weft::files
