// The setup message of a context, against its picture, and each way in which it can be cut short.
#include "wire/rd_setup.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::wire {
namespace {

RdSetup a_setup() {
  RdSetup setup;
  setup.kind = RdSetupKind::kReply;
  setup.windowed = true;
  setup.reads = 9;
  setup.first_psn = Psn(0x123456);
  setup.mtu = Mtu::k2048;
  setup.timeout = 14;
  setup.retry_count = 6;
  setup.receiver = EecNumber(0xABCDEF);
  setup.name = 0x0102030405060708;
  return setup;
}

TEST(RdSetupMessage, has_each_field_where_the_picture_has_it) {
  const unsigned wanted[] = {1, 2,    1,    9,    0, 0x12, 0x34, 0x56, 8, 0, 14, 6,
                             0, 0xAB, 0xCD, 0xEF, 1, 2,    3,    4,    5, 6, 7,  8};
  const auto bytes = a_setup().bytes();
  ASSERT_EQ(bytes.size(), std::size(wanted));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), wanted[i]) << i;
  }
  EXPECT_EQ(RdSetup::parse(bytes).value(), a_setup());
}

TEST(RdSetupMessage, is_refused_when_it_is_cut_or_longer_or_strange) {
  const auto good = a_setup().bytes();
  for (std::size_t n = 0; n < good.size(); ++n) {
    EXPECT_EQ(RdSetup::parse(std::span(good).first(n)).error(), ParseError::kTruncated);
  }
  std::vector<std::byte> longer(good.begin(), good.end());
  longer.resize(good.size() + 4);
  EXPECT_EQ(RdSetup::parse(longer).error(), ParseError::kBadPayloadLength);
  const auto with = [&](std::size_t at, unsigned value) {
    auto bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return RdSetup::parse(bytes);
  };
  for (const auto& strange : {with(0, 2), with(1, 0), with(1, 6), with(8, 9), with(9, 1)}) {
    EXPECT_EQ(strange.error(), ParseError::kBadSetup);
  }
  EXPECT_EQ(with(3, 0).value().reads, 1) << "a peer that serves none would hold up all others";
}

}  // namespace
}  // namespace weft::wire
