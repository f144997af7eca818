// Which packets go together, and what the kernel is told of them (B2.4).
#include "port/packet_train.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/raw_packets.h"
#include "wire/internet_checksum.h"
#include "wire/segments.h"

namespace weft::port {
namespace {

using weft::test::Bytes;

/// Of one flow, with right checksums and different payloads.
Bytes datagram(std::uint8_t fill, std::size_t payload = 30, std::uint16_t to = 9) {
  Bytes upper = weft::test::udp(7, to, payload);
  for (std::size_t i = 8; i < upper.size(); ++i) upper[i] = std::byte{fill};
  Bytes packet = weft::test::ipv6_packet({.upper = upper});
  wire::fill_upper_checksum(packet, wire::parse_raw_packet(packet));
  return weft::test::frame_of(packet);
}

std::size_t length_of(const std::vector<Bytes>& frames) {
  const std::vector<RawBytes> views(frames.begin(), frames.end());
  return PacketTrain::length(views);
}

TEST(PacketTrainTest, takes_packets_of_one_flow_and_length_with_right_checksums) {
  EXPECT_EQ(length_of({datagram(1), datagram(2), datagram(3)}), 3U);
  EXPECT_EQ(length_of({datagram(1)}), 1U);
  EXPECT_EQ(length_of({datagram(1), datagram(2, 31), datagram(3)}), 1U);
  EXPECT_EQ(length_of({datagram(1), datagram(2), datagram(3, 30, 10)}), 2U);
  EXPECT_EQ(length_of(std::vector<Bytes>(100, datagram(1))), PacketTrain::kMost);
  Bytes wrong = datagram(2);
  wrong.back() ^= std::byte{1};
  EXPECT_EQ(length_of({datagram(1), wrong}), 1U);
  EXPECT_EQ(length_of({wrong, wrong}), 1U);
  Bytes none = datagram(2);
  none[60] = none[61] = std::byte{0};
  EXPECT_EQ(length_of({none, none}), 1U);
  Bytes padded = datagram(1);
  padded.push_back({});
  EXPECT_EQ(length_of({padded, padded}), 1U);
  Bytes tcp = datagram(1);
  tcp[20] = std::byte{6};
  EXPECT_EQ(length_of({tcp, tcp}), 1U);
  EXPECT_EQ(length_of({Bytes(62), Bytes(62)}), 1U);
}

TEST(PacketTrainTest, is_one_long_packet_that_is_cut_into_the_same_again) {
  const std::vector<Bytes> frames{datagram(1), datagram(2), datagram(3)};
  const std::vector<RawBytes> views(frames.begin(), frames.end());
  const PacketTrain train(views);
  Bytes whole;
  for (std::size_t i = 0; i < train.message().msg_iovlen; ++i) {
    const iovec& piece = train.message().msg_iov[i];
    const auto* at = static_cast<const std::byte*>(piece.iov_base);
    whole.insert(whole.end(), at, at + piece.iov_len);
  }
  Offload offload;
  std::memcpy(&offload, whole.data(), sizeof offload);
  whole.erase(whole.begin(), whole.begin() + sizeof offload);
  EXPECT_EQ(offload.part_bytes, 30);
  EXPECT_EQ(offload.checksum_from, 54);
  EXPECT_EQ(offload.header_bytes, 62);
  const wire::RawPacket read = wire::parse_raw_frame(whole);
  EXPECT_EQ(read.fault, wire::RawFault::kNone);
  // What the checksum field holds and the sum of the upper layer behind it make the checksum.
  std::uint16_t begun = 0;
  std::memcpy(&begun, whole.data() + 60, 2);
  EXPECT_EQ(begun, wire::folded(wire::sum_of_pseudo_header(read.source, read.destination, 17,
                                                           read.bytes - read.upper_at)));
  std::size_t n = 0;
  Bytes room;
  wire::for_each_segment(whole, read, offload.part_bytes, room, [&](RawBytes part) {
    Bytes packet(part.begin() + 14, part.end());
    wire::fill_upper_checksum(packet, wire::parse_raw_packet(packet));
    EXPECT_EQ(packet, Bytes(frames[n].begin() + 14, frames[n].end()));
    ++n;
  });
  EXPECT_EQ(n, frames.size());
}

}  // namespace
}  // namespace weft::port
