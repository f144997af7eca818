// The table of peers: each is found, and takes some thirty bytes.
#include "mesh/peers.h"

#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

constexpr std::uint32_t kMany = 100'000;

Address address(std::uint32_t i) {
  const auto byte = [i](int shift) { return static_cast<std::uint8_t>(i >> shift); };
  return {Gid::ipv4(10, byte(16), byte(8), byte(0)), Qpn(i * 7 & kMask24)};
}

TEST(MeshPeers, a_hundred_thousand_are_found_and_take_some_thirty_bytes_each) {
  PeerTable table(42);
  EXPECT_FALSE(table.find(address(0)));
  for (std::uint32_t i = 0; i < kMany; ++i) EXPECT_EQ(table.add(address(i)).value, i);
  for (std::uint32_t i = 0; i < kMany; ++i) {
    const auto found = table.find(address(i));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->value, i);
    EXPECT_EQ(table[*found].address(), address(i));
    EXPECT_EQ(table[*found].link, kNoLink);
  }
  EXPECT_FALSE(table.find(address(kMany)));
  EXPECT_EQ(table.size(), kMany);
  EXPECT_LE(table.bytes(), kMany * 36u);
}

TEST(MeshPeers, an_address_is_all_of_it) {
  PeerTable table(1);
  const Address one = address(5);
  table.add(one);
  Address other = one;
  other.qpn = Qpn(other.qpn.value + 1);
  EXPECT_FALSE(table.find(other));
  other = one;
  other.gid.raw[15] ^= 1;
  EXPECT_FALSE(table.find(other));
}

}  // namespace
}  // namespace weft::mesh
