// What is read of packets of any protocol, right and wrong: golden headers, each truncation, chains
// of extension headers (B2.4).
#include "wire/raw_packet.h"

#include <gtest/gtest.h>

#include "support/raw_packets.h"
#include "wire/segments.h"
#include "wire/toeplitz.h"

namespace weft::wire {
namespace {

using weft::test::Bytes;
using weft::test::bytes_of;

Bytes chain_of(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

RawFault fault_of(const Bytes& packet) { return parse_raw_packet(packet).fault; }

TEST(RawPacketTest, reads_the_fields_of_an_ipv6_packet) {
  const Bytes packet =
      weft::test::udp_packet(weft::test::gid("fd00::1"), weft::test::gid("fd00::2"));
  const RawPacket read = parse_raw_packet(packet);
  EXPECT_EQ(read.fault, RawFault::kNone);
  EXPECT_EQ(read.version, 6);
  EXPECT_EQ(read.source, weft::test::gid("fd00::1"));
  EXPECT_EQ(read.destination, weft::test::gid("fd00::2"));
  EXPECT_EQ(read.protocol, 17);
  EXPECT_EQ(read.bytes, packet.size());
  EXPECT_EQ(read.upper_at, 40U);
  ASSERT_TRUE(read.has_ports);
  EXPECT_EQ(read.source_port, 7);
  EXPECT_EQ(read.destination_port, 9);
}

TEST(RawPacketTest, reads_a_frame_with_and_without_a_tag) {
  const Bytes packet =
      weft::test::udp_packet(weft::test::gid("fd00::1"), weft::test::gid("fd00::2"));
  Bytes frame = weft::test::frame_of(packet);
  frame.resize(frame.size() + 9);  // padding is none of the packet's
  RawPacket read = parse_raw_frame(frame);
  EXPECT_EQ(read.fault, RawFault::kNone);
  EXPECT_EQ(read.network_at, 14U);
  EXPECT_EQ(read.bytes, packet.size());
  EXPECT_EQ(read.link_destination[0], std::byte{0x0A});
  const Bytes tag = bytes_of({0x81, 0x00, 0x20, 0x05});
  frame.insert(frame.begin() + 12, tag.begin(), tag.end());
  read = parse_raw_frame(frame);
  EXPECT_EQ(read.vlan_tag, 0x2005);
  EXPECT_EQ(read.type, kEtherTypeIpv6);
  EXPECT_EQ(read.network_at, 18U);
  EXPECT_EQ(read.protocol, 17);
}

TEST(RawPacketTest, follows_extension_headers_to_the_upper_layer) {
  // Hop-by-hop with padding, destination options of 16 bytes, routing, then TCP.
  const Bytes packet = weft::test::ipv6_packet(
      {.next_header = 0,
       .extensions = chain_of({bytes_of({60, 0, 1, 4, 0, 0, 0, 0}),
                               bytes_of({43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
                               bytes_of({6, 0, 0, 0, 0, 0, 0, 0})}),
       .upper = weft::test::udp(1000, 80)});
  const RawPacket read = parse_raw_packet(packet);
  EXPECT_EQ(read.fault, RawFault::kNone);
  EXPECT_EQ(read.protocol, 6);
  EXPECT_EQ(read.upper_at, 72U);
  EXPECT_EQ(read.destination_port, 80);
}

TEST(RawPacketTest, knows_the_protocol_of_a_later_fragment_but_not_its_ports) {
  const auto fragment = [](unsigned offset_and_more) {
    return weft::test::ipv6_packet(
        {.next_header = 44,
         .extensions = bytes_of({17, 0, offset_and_more >> 8, offset_and_more & 0xFF, 0, 0, 0, 1}),
         .upper = weft::test::udp(7, 9)});
  };
  const RawPacket first = parse_raw_packet(fragment(1));
  EXPECT_TRUE(first.is_fragment && first.has_ports);
  const RawPacket later = parse_raw_packet(fragment(8));
  EXPECT_EQ(later.fault, RawFault::kNone);
  EXPECT_EQ(later.protocol, 17);
  EXPECT_TRUE(later.is_fragment);
  EXPECT_FALSE(later.has_ports);
  EXPECT_FALSE(parse_raw_packet(fragment(0)).is_fragment);
}

TEST(RawPacketTest, each_truncation_is_a_fault) {
  const Bytes packet = weft::test::ipv6_packet({.next_header = 60,
                                                .extensions = bytes_of({17, 0, 1, 4, 0, 0, 0, 0}),
                                                .upper = weft::test::udp(7, 9)});
  ASSERT_EQ(fault_of(packet), RawFault::kNone);
  for (std::size_t n = 0; n < packet.size(); ++n) {
    EXPECT_EQ(fault_of(Bytes(packet.begin(), packet.begin() + static_cast<long>(n))),
              RawFault::kTruncated)
        << n;
  }
}

TEST(RawPacketTest, names_what_is_wrong) {
  const auto with = [](std::uint8_t next, Bytes extensions) {
    return fault_of(weft::test::ipv6_packet({.next_header = next,
                                             .extensions = std::move(extensions),
                                             .upper = weft::test::udp(7, 9)}));
  };
  Bytes nine, eight;
  for (int i = 0; i < 9; ++i) {
    const Bytes one = bytes_of({i < 8 ? 60u : 17u, 0, 1, 4, 0, 0, 0, 0});
    nine.insert(nine.end(), one.begin(), one.end());
    if (i > 0) eight.insert(eight.end(), one.begin(), one.end());
  }
  EXPECT_EQ(with(60, eight), RawFault::kNone);
  EXPECT_EQ(with(60, nine), RawFault::kTooManyExtensions);
  EXPECT_EQ(with(60, bytes_of({17, 200, 1, 4, 0, 0, 0, 0})), RawFault::kBadExtension);
  // Hop-by-hop options come first or not at all.
  EXPECT_EQ(with(60, bytes_of({0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0})),
            RawFault::kBadExtension);
  EXPECT_EQ(with(0, bytes_of({17, 0, 0xC2, 4, 0, 1, 0, 0})), RawFault::kJumbo);
  EXPECT_EQ(
      fault_of(weft::test::udp_packet(weft::test::gid("ff02::1"), weft::test::gid("fd00::1"))),
      RawFault::kBadSource);
  Bytes empty = weft::test::udp_packet(weft::test::gid("fd00::1"), weft::test::gid("fd00::2"));
  empty[4] = empty[5] = std::byte{0};
  EXPECT_EQ(fault_of(empty), RawFault::kBadLength);
  empty[6] = std::byte{0};
  EXPECT_EQ(fault_of(empty), RawFault::kJumbo);
  EXPECT_EQ(fault_of(bytes_of({0x50, 0, 0})), RawFault::kBadVersion);
  // A frame that says IPv4 and brings IPv6.
  EXPECT_EQ(
      parse_raw_frame(weft::test::frame_of(weft::test::udp_packet({}, {}), kEtherTypeIpv4)).fault,
      RawFault::kBadVersion);
}

TEST(RawPacketTest, reads_ipv4_with_options) {
  Bytes packet = bytes_of({0x46, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1,
                           10,   0, 0, 2,  1, 1, 1,    0, 0,  7,  0, 9, 0,  8, 0, 0});
  const RawPacket read = parse_raw_packet(packet);
  EXPECT_EQ(read.fault, RawFault::kNone);
  EXPECT_EQ(read.version, 4);
  EXPECT_EQ(read.destination, weft::test::gid("10.0.0.2"));
  EXPECT_EQ(read.upper_at, 24U);
  EXPECT_EQ(read.destination_port, 9);
  packet[0] = std::byte{0x44};
  EXPECT_EQ(fault_of(packet), RawFault::kBadLength);
}

TEST(RawPacketTest, fills_in_the_checksum_that_a_card_would) {
  // From a capture of "abcd" from [fd00::1]:7 to [fd00::2]:9.
  Bytes packet = weft::test::ipv6_packet(
      {.upper = bytes_of({0, 7, 0, 9, 0, 12, 0x12, 0x34, 'a', 'b', 'c', 'd'})});
  fill_upper_checksum(packet, parse_raw_packet(packet));
  std::uint32_t sum = 17 + 12;
  for (std::size_t i = 8; i < packet.size(); i += 2) {
    sum += base::load_be<std::uint16_t>(packet.data() + i);
  }
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  EXPECT_EQ(sum, 0xFFFFU);  // as a receiver adds it up
}

TEST(Segments, of_a_long_tcp_packet_are_what_a_card_would_send) {
  Bytes upper(20 + 250);
  for (std::size_t i = 20; i < upper.size(); ++i) upper[i] = static_cast<std::byte>(i);
  base::store_be<std::uint32_t>(upper.data() + 4, 0xFFFF'FFF0);  // the sequence number wraps
  upper[12] = std::byte{0x50};
  upper[13] = std::byte{0x99};  // reduced window, ack, push, fin
  const Bytes packet = weft::test::ipv6_packet({.next_header = kIpProtocolTcp, .upper = upper});
  const Bytes frame = weft::test::frame_of(packet);
  std::vector<Bytes> parts;
  Bytes room;
  EXPECT_TRUE(for_each_segment(frame, parse_raw_frame(frame), 100, room,
                               [&](auto part) { parts.emplace_back(part.begin(), part.end()); }));
  ASSERT_EQ(parts.size(), 3U);
  Bytes payload;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RawPacket read = parse_raw_frame(parts[i]);
    EXPECT_EQ(read.fault, RawFault::kNone);
    EXPECT_EQ(read.bytes, i < 2 ? 160U : 110U);
    const std::byte* tcp = parts[i].data() + 54;
    EXPECT_EQ(base::load_be<std::uint32_t>(tcp + 4), static_cast<std::uint32_t>(100 * i - 16));
    EXPECT_EQ(tcp[13], static_cast<std::byte>(i == 0 ? 0x90 : i == 1 ? 0x10 : 0x19));
    payload.insert(payload.end(), parts[i].begin() + 74, parts[i].end());
  }
  EXPECT_EQ(payload, Bytes(upper.begin() + 20, upper.end()));
}

TEST(Segments, of_ipv4_udp_have_lengths_numbers_and_a_checksum_of_their_own) {
  Bytes packet = bytes_of({0x45, 0, 0,  128, 0xFF, 0xFF, 0x40, 0, 64, 17, 0, 0,   10, 0,
                           0,    1, 10, 0,   0,    2,    0,    7, 0,  9,  0, 108, 0,  0});
  packet.resize(128);
  const Bytes frame = weft::test::frame_of(packet, kEtherTypeIpv4);
  std::vector<Bytes> parts;
  Bytes room;
  EXPECT_TRUE(for_each_segment(frame, parse_raw_frame(frame), 64, room,
                               [&](auto part) { parts.emplace_back(part.begin(), part.end()); }));
  ASSERT_EQ(parts.size(), 2U);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::byte* ip = parts[i].data() + 14;
    EXPECT_EQ(base::load_be<std::uint16_t>(ip + 2), i == 0 ? 92 : 64);
    EXPECT_EQ(base::load_be<std::uint16_t>(ip + 4), static_cast<std::uint16_t>(0xFFFF + i));
    EXPECT_EQ(base::load_be<std::uint16_t>(ip + 24), i == 0 ? 72 : 44);
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at < 20; at += 2) sum += base::load_be<std::uint16_t>(ip + at);
    while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
    EXPECT_EQ(sum, 0xFFFFU);
  }
}

TEST(Segments, of_what_is_neither_or_broken_there_are_none) {
  Bytes room;
  const auto cut = [&](const Bytes& frame, std::size_t bytes) {
    return for_each_segment(frame, parse_raw_frame(frame), bytes, room, [](auto) {});
  };
  const Bytes good = weft::test::frame_of(weft::test::udp_packet({}, {}));
  EXPECT_TRUE(cut(good, 8));
  EXPECT_FALSE(cut(good, 0));
  EXPECT_FALSE(cut(weft::test::frame_of(weft::test::ipv6_packet(
                       {.next_header = kIcmpv6, .upper = weft::test::udp(1, 2)})),
                   8));
  Bytes short_header = weft::test::frame_of(
      weft::test::ipv6_packet({.next_header = kIpProtocolTcp, .upper = Bytes(20)}));
  short_header[54 + 12] = std::byte{0xF0};  // a header longer than the packet
  EXPECT_FALSE(cut(short_header, 8));
}

TEST(Toeplitz, gives_the_hashes_that_are_published_for_its_usual_key) {
  // The verification suite of receive-side scaling: 66.9.149.187:2794 to 161.142.100.80:1766.
  constexpr ToeplitzKey kKey{0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                             0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                             0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                             0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
  RawPacket packet;
  packet.version = 4;
  packet.protocol = kIpProtocolTcp;
  packet.source = Gid::ipv4(66, 9, 149, 187);
  packet.destination = Gid::ipv4(161, 142, 100, 80);
  packet.has_ports = true;
  packet.source_port = 2794;
  packet.destination_port = 1766;
  HashedFields fields{.ipv4_source = true, .ipv4_destination = true};
  EXPECT_EQ(hash_of(packet, fields, kKey), 0x323e8fc2U);
  fields.tcp_source = fields.tcp_destination = true;
  EXPECT_EQ(hash_of(packet, fields, kKey), 0x51ccc178U);
}

}  // namespace
}  // namespace weft::wire
