#include "wire/datagram.h"

#include <gtest/gtest.h>

#include "base/big_endian.h"
#include "wire_test_support.h"

namespace weft::wire {
namespace {

using test::Bytes;

Bytes valid(bool v4) {
  for (const auto& datagram : test::roce_datagrams("every_opcode.pcap")) {
    if ((datagram.bytes[0] == std::byte{0x45}) == v4) return datagram.bytes;
  }
  throw std::runtime_error("the capture lacks a family");
}

void expect_refused(const Bytes& in, ParseError why) {
  const auto datagram = split_datagram(in);
  ASSERT_FALSE(datagram.has_value());
  EXPECT_EQ(to_string(datagram.error()), to_string(why));
}

TEST(Datagram, ignores_what_ethernet_padded) {
  for (bool v4 : {true, false}) {
    Bytes in = valid(v4);
    const std::size_t size = in.size();
    in.resize(size + 7, std::byte{0x77});
    const auto datagram = check_datagram(in);
    ASSERT_TRUE(datagram.has_value());
    EXPECT_EQ(datagram->icrc.data() + kIcrcSize, in.data() + size);
  }
}

TEST(Datagram, refuses_other_ip_versions) {
  Bytes in = valid(true);
  for (unsigned version : {0u, 3u, 5u, 7u, 15u}) {
    in[0] = static_cast<std::byte>(version << 4 | 5);
    expect_refused(in, ParseError::kBadIpVersion);
  }
}

TEST(Datagram, refuses_options_and_fragments) {
  Bytes in = valid(true);
  in[0] = std::byte{0x46};
  expect_refused(in, ParseError::kIpOptions);
  in = valid(true);
  in[6] = std::byte{0x20};  // more fragments
  expect_refused(in, ParseError::kIpFragment);
  in = valid(true);
  in[7] = std::byte{1};  // an offset
  expect_refused(in, ParseError::kIpFragment);
}

TEST(Datagram, refuses_other_protocols_and_ports) {
  for (bool v4 : {true, false}) {
    Bytes in = valid(v4);
    in[v4 ? 9 : 6] = std::byte{6};
    expect_refused(in, ParseError::kNotUdp);
    in = valid(v4);
    in[(v4 ? 20 : 40) + 3] ^= std::byte{1};
    expect_refused(in, ParseError::kWrongPort);
  }
}

TEST(Datagram, refuses_lengths_that_contradict_each_other) {
  for (bool v4 : {true, false}) {
    const std::size_t ip_size = v4 ? 20 : 40;
    const std::size_t ip_length_at = v4 ? 2 : 4;
    Bytes in = valid(v4);
    base::store_be<std::uint16_t>(&in[ip_size + 4],
                                  static_cast<std::uint16_t>(in.size() - ip_size + 1));
    expect_refused(in, ParseError::kBadUdpLength);
    base::store_be<std::uint16_t>(&in[ip_size + 4], 0);
    expect_refused(in, ParseError::kBadUdpLength);
    in = valid(v4);
    base::store_be<std::uint16_t>(&in[ip_length_at], 0);
    expect_refused(in, ParseError::kBadIpLength);
    base::store_be<std::uint16_t>(&in[ip_length_at], 0xFFFF);
    expect_refused(in, ParseError::kTruncated);
  }
}

}  // namespace
}  // namespace weft::wire
