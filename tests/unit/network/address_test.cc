#include "network/address.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::network {
namespace {

TEST(Address, reads_ipv4_as_the_mapped_form) {
  EXPECT_EQ(parse_address("127.0.0.1").value(), Gid::ipv4(127, 0, 0, 1));
  EXPECT_EQ(parse_address("::ffff:10.1.2.3").value(), Gid::ipv4(10, 1, 2, 3));
}

TEST(Address, reads_ipv6) {
  Gid loopback;
  loopback.raw[15] = 1;
  EXPECT_EQ(parse_address("::1").value(), loopback);
  Gid unique_local;
  unique_local.raw[0] = 0xFD;
  unique_local.raw[15] = 1;
  EXPECT_EQ(parse_address("fd00::1").value(), unique_local);
  EXPECT_FALSE(parse_address("fd00::1")->is_ipv4());
}

TEST(Address, writes_what_it_reads_back) {
  for (const std::string text : {"127.0.0.1", "255.255.255.255", "0.0.0.0", "::", "::1", "fd00::1",
                                 "fe80::1:2:3:4", "ff02::1"}) {
    EXPECT_EQ(to_string(parse_address(text).value()), text);
  }
}

TEST(Address, refuses_what_is_no_address_and_says_how_to_write_one) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text :
       {""sv, "localhost"sv, "127.1"sv, "256.0.0.1"sv, "127.0.0.1:4791"sv, " 127.0.0.1"sv,
        "::1%lo"sv, "[::1]"sv, "1::2::3"sv, "127.0.0.1\0"sv, "::1\0junk"sv}) {
    const auto parsed = parse_address(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, Errc::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find("127.0.0.1 or fd00::1"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::network
