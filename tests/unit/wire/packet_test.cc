#include "wire/packet.h"

#include <gtest/gtest.h>

#include "wire_test_support.h"

namespace weft::wire {
namespace {

using test::Bytes;

/// Random bytes under a valid BTH: whatever follows it is a legal header.
Bytes random_packet(base::SeededRandom& random, Opcode opcode) {
  const OpcodeInfo& i = info(opcode);
  std::size_t payload = i.has_payload ? random.below(300) : 0;
  if (opcode == Opcode::kCnp) payload = kCnpPayloadBytes;
  const std::uint8_t pad = pad_for(payload);
  Bytes out = test::random_bytes(random, i.header_bytes + payload + pad);
  out[0] = static_cast<std::byte>(opcode);
  out[1] = (out[1] & std::byte{0xC0}) | static_cast<std::byte>(pad << 4);
  for (std::size_t n = 0; n < pad; ++n) out[out.size() - 1 - n] = std::byte{0};
  return out;
}

void expect_packet_refused(const Bytes& in, ParseError why) {
  const auto packet = parse_packet(in);
  ASSERT_FALSE(packet.has_value());
  EXPECT_EQ(to_string(packet.error()), to_string(why));
}

class EveryOpcode : public testing::TestWithParam<Opcode> {};

TEST_P(EveryOpcode, is_emitted_as_it_was_parsed) {
  base::SeededRandom random(static_cast<std::uint64_t>(GetParam()));
  for (int round = 0; round < 200; ++round) {
    const Bytes in = random_packet(random, GetParam());
    const auto packet = parse_packet(in);
    ASSERT_TRUE(packet.has_value()) << to_string(packet.error());
    const std::size_t headers = info(GetParam()).header_bytes;
    ASSERT_EQ(packet->payload.size(), in.size() - headers - packet->bth.pad_count);
    if (!packet->payload.empty()) {
      ASSERT_EQ(packet->payload.data(), in.data() + headers);
    }

    Bytes out(in.size(), std::byte{0xEE});
    ASSERT_EQ(emit_packet(*packet, out), in.size());
    ASSERT_EQ(out, in);
  }
}

TEST_P(EveryOpcode, headers_fill_exactly_their_length) {
  base::SeededRandom random(7);
  const Bytes in = random_packet(random, GetParam());
  Bytes out(kMaxHeaderBytes + 8, std::byte{0xEE});
  const std::size_t written = emit_headers(*parse_packet(in), out);
  ASSERT_EQ(written, info(GetParam()).header_bytes);
  EXPECT_TRUE(
      std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(written), in.begin()));
  for (std::size_t i = written; i < out.size(); ++i) ASSERT_EQ(out[i], std::byte{0xEE});
}

TEST_P(EveryOpcode, refuses_every_truncation_of_its_headers) {
  base::SeededRandom random(8);
  Bytes in = random_packet(random, GetParam());
  in.resize(info(GetParam()).header_bytes);
  in[1] &= std::byte{0xC0};
  for (std::size_t size = 0; size < in.size(); ++size) {
    const Bytes cut(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size));
    expect_packet_refused(cut, ParseError::kTruncated);
  }
}

TEST_P(EveryOpcode, refuses_other_transport_versions) {
  base::SeededRandom random(9);
  for (unsigned version = 1; version < 16; ++version) {
    Bytes in = random_packet(random, GetParam());
    in[1] |= static_cast<std::byte>(version);
    expect_packet_refused(in, ParseError::kBadTransportVersion);
  }
}

TEST_P(EveryOpcode, refuses_lengths_that_are_no_multiple_of_four) {
  base::SeededRandom random(10);
  Bytes in = random_packet(random, GetParam());
  for (int extra = 1; extra < 4; ++extra) {
    in.push_back(std::byte{0});
    expect_packet_refused(in, ParseError::kUnaligned);
  }
}

TEST_P(EveryOpcode, refuses_a_pad_without_payload) {
  base::SeededRandom random(11);
  for (unsigned pad = 1; pad < 4; ++pad) {
    Bytes in = random_packet(random, GetParam());
    in.resize(info(GetParam()).header_bytes);
    in[1] = static_cast<std::byte>(pad << 4);
    expect_packet_refused(in, ParseError::kBadPad);
  }
}

class BareOpcode : public testing::TestWithParam<Opcode> {};

TEST_P(BareOpcode, refuses_payload) {
  base::SeededRandom random(12);
  Bytes in = random_packet(random, GetParam());
  in.resize(in.size() + 4);
  expect_packet_refused(in, ParseError::kBadPayloadLength);
  in[1] |= std::byte{0x30};  // pad bytes are no excuse
  expect_packet_refused(in, ParseError::kBadPayloadLength);
}

std::string opcode_name(const testing::TestParamInfo<Opcode>& parameter) {
  std::string name = info(parameter.param).name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Packet, EveryOpcode, testing::ValuesIn(test::every_opcode()), opcode_name);
INSTANTIATE_TEST_SUITE_P(Packet, BareOpcode,
                         testing::Values(Opcode::kRcReadRequest, Opcode::kRcAcknowledge,
                                         Opcode::kRcAtomicAcknowledge, Opcode::kRcCompareSwap,
                                         Opcode::kRcFetchAdd, Opcode::kRdReadRequest,
                                         Opcode::kRdAcknowledge, Opcode::kRdAtomicAcknowledge,
                                         Opcode::kRdCompareSwap, Opcode::kRdFetchAdd,
                                         Opcode::kRdResync),
                         opcode_name);

TEST(Packet, refuses_every_unknown_opcode) {
  const auto known = test::every_opcode();
  Bytes in(64, std::byte{0});
  for (unsigned raw = 0; raw < 256; ++raw) {
    if (std::ranges::find(known, static_cast<Opcode>(raw)) != known.end()) continue;
    in[0] = static_cast<std::byte>(raw);
    expect_packet_refused(in, ParseError::kUnknownOpcode);
  }
}

TEST(Packet, a_congestion_notification_has_sixteen_reserved_bytes) {
  Bytes in(12 + 16, std::byte{0});
  in[0] = std::byte{0x81};
  EXPECT_TRUE(parse_packet(in).has_value());
  in.resize(12 + 12);
  expect_packet_refused(in, ParseError::kBadPayloadLength);
  in.resize(12);
  expect_packet_refused(in, ParseError::kBadPayloadLength);
  in.resize(12 + 20);
  expect_packet_refused(in, ParseError::kBadPayloadLength);
}

TEST(Packet, pad_brings_the_payload_to_a_multiple_of_four) {
  const unsigned expected[] = {0, 3, 2, 1, 0, 3, 2, 1, 0};
  for (std::size_t size = 0; size < 9; ++size) EXPECT_EQ(pad_for(size), expected[size]);
}

TEST(Packet, absent_headers_keep_their_defaults) {
  base::SeededRandom random(13);
  const Bytes in = random_packet(random, Opcode::kRcSendMiddle);
  const auto packet = parse_packet(in);
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->reth, Reth{});
  EXPECT_EQ(packet->aeth, Aeth{});
  EXPECT_EQ(packet->atomic, AtomicEth{});
  EXPECT_EQ(packet->deth, Deth{});
  EXPECT_EQ(packet->rdeth, Rdeth{});
  EXPECT_EQ(packet->immediate, 0u);
  EXPECT_EQ(packet->invalidate_key, RemoteKey{});
}

TEST(Packet, random_bytes_never_do_harm) {
  base::SeededRandom random(14);
  std::size_t accepted = 0;
  for (int round = 0; round < 50'000; ++round) {
    const Bytes in = test::random_bytes(random, random.below(80));
    const auto packet = parse_packet(in);
    if (!packet) continue;
    ++accepted;
    Bytes out(in.size());
    ASSERT_EQ(emit_packet(*packet, out), in.size());
  }
  EXPECT_GT(accepted, 0u);
}

}  // namespace
}  // namespace weft::wire
