#include <gtest/gtest.h>

#include <array>

#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/ethernet.h"
#include "wire/ieth.h"
#include "wire/immediate.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/rdeth.h"
#include "wire/reth.h"
#include "wire/udp.h"
#include "wire_test_support.h"

namespace weft::wire {
namespace {

using test::Bytes;

template <class... Octets>
Bytes octets(Octets... values) {
  return Bytes{static_cast<std::byte>(values)...};
}

/// Bytes that the parser accepts whatever the random ones are: only IP versions are constrained.
template <class Header>
void make_acceptable(Bytes&) {}
template <>
void make_acceptable<Ipv4>(Bytes& bytes) {
  bytes[0] = std::byte{0x45};
}
template <>
void make_acceptable<Ipv6>(Bytes& bytes) {
  bytes[0] = std::byte{0x60} | (bytes[0] & std::byte{0x0F});
}

template <class Header>
class EveryHeader : public testing::Test {};
using Headers = testing::Types<Bth, Reth, Aeth, AtomicEth, AtomicAckEth, Immediate, Ieth, Deth,
                               Rdeth, Ipv4, Ipv6, Udp, Ethernet>;
TYPED_TEST_SUITE(EveryHeader, Headers);

TYPED_TEST(EveryHeader, emits_what_it_parsed_byte_for_byte) {
  base::SeededRandom random(1);
  for (int round = 0; round < 2000; ++round) {
    Bytes in = test::random_bytes(random, TypeParam::kSize);
    make_acceptable<TypeParam>(in);
    const auto header = TypeParam::parse(in);
    ASSERT_TRUE(header.has_value());
    Bytes out(TypeParam::kSize);
    header->emit(out);
    ASSERT_EQ(out, in);
    ASSERT_EQ(*TypeParam::parse(out), *header);
  }
}

TYPED_TEST(EveryHeader, refuses_every_truncation) {
  base::SeededRandom random(2);
  Bytes in = test::random_bytes(random, TypeParam::kSize);
  make_acceptable<TypeParam>(in);
  for (std::size_t size = 0; size < TypeParam::kSize; ++size) {
    // A copy of exactly that size, so that a sanitizer sees a read beyond it.
    const Bytes cut(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size));
    const auto header = TypeParam::parse(cut);
    ASSERT_FALSE(header.has_value()) << size;
    ASSERT_EQ(header.error(), ParseError::kTruncated);
  }
}

TYPED_TEST(EveryHeader, touches_only_its_own_bytes) {
  base::SeededRandom random(3);
  Bytes in = test::random_bytes(random, TypeParam::kSize);
  make_acceptable<TypeParam>(in);
  Bytes out(TypeParam::kSize + 8, std::byte{0xA5});
  TypeParam::parse(in)->emit(out);
  for (std::size_t i = TypeParam::kSize; i < out.size(); ++i) ASSERT_EQ(out[i], std::byte{0xA5});
}

TEST(Bth, every_field_sits_where_the_specification_draws_it) {
  Bth bth;
  bth.opcode = Opcode::kRcWriteOnly;
  bth.solicited = true;
  bth.mig_req = false;
  bth.pad_count = 3;
  bth.pkey = PKey(0x8001);
  bth.becn = true;
  bth.dest_qp = Qpn(0x123456);
  bth.ack_request = true;
  bth.psn = Psn(0xABCDEF);
  Bytes out(Bth::kSize);
  bth.emit(out);
  EXPECT_EQ(out, octets(0x0A, 0xB0, 0x80, 0x01, 0x40, 0x12, 0x34, 0x56, 0x80, 0xAB, 0xCD, 0xEF));
}

TEST(Bth, keeps_reserved_bits_and_wrong_versions) {
  const Bytes in = octets(0x04, 0x4F, 0xFF, 0xFF, 0x95, 0, 0, 2, 0x55, 0, 0, 7);
  const auto bth = Bth::parse(in);
  ASSERT_TRUE(bth.has_value());
  EXPECT_TRUE(bth->mig_req);
  EXPECT_EQ(bth->transport_version, 15);
  EXPECT_TRUE(bth->fecn);
  EXPECT_FALSE(bth->becn);
  EXPECT_EQ(bth->reserved_variant, 0x15);
  EXPECT_FALSE(bth->ack_request);
  EXPECT_EQ(bth->reserved_ack, 0x55);
}

TEST(Bth, a_new_one_has_what_hardware_sends) {
  const Bth bth;
  EXPECT_TRUE(bth.mig_req);
  EXPECT_EQ(bth.pkey, kDefaultPKey);
  EXPECT_EQ(bth.transport_version, 0);
}

TEST(Bth, values_too_wide_for_their_field_leave_the_neighbours_alone) {
  Bth bth;
  bth.pad_count = 0xFF;
  bth.mig_req = false;
  bth.dest_qp = Qpn(0xFF'000001);
  Bytes out(Bth::kSize);
  bth.emit(out);
  EXPECT_EQ(out, octets(0, 0x30, 0xFF, 0xFF, 0, 0, 0, 1, 0, 0, 0, 0));
}

TEST(Aeth, syndromes_are_those_of_the_wire) {
  EXPECT_EQ(Aeth::ack(5).syndrome, 0x1F);
  EXPECT_EQ(Aeth::ack(5, 3).syndrome, 0x03);
  EXPECT_EQ(Aeth::rnr_nak(5, 14).syndrome, 0x2E);
  EXPECT_EQ(Aeth::nak(5, NakCode::kPsnSequence).syndrome, 0x60);
  EXPECT_EQ(Aeth::nak(5, NakCode::kInvalidRequest).syndrome, 0x61);
  EXPECT_EQ(Aeth::nak(5, NakCode::kRemoteAccess).syndrome, 0x62);
  EXPECT_EQ(Aeth::nak(5, NakCode::kRemoteOperation).syndrome, 0x63);
  EXPECT_EQ(Aeth::nak(5, NakCode::kInvalidRd).syndrome, 0x64);
  EXPECT_EQ(Aeth::ack(0x1'000002).msn, 2u);
}

TEST(Aeth, every_syndrome_byte_has_one_kind) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    Aeth aeth;
    aeth.syndrome = static_cast<std::uint8_t>(byte);
    if (byte < 0x20) {
      EXPECT_EQ(aeth.kind(), AethKind::kAck);
      EXPECT_EQ(aeth.credits(), byte);
    } else if (byte < 0x40) {
      EXPECT_EQ(aeth.kind(), AethKind::kRnrNak);
      EXPECT_EQ(aeth.rnr_timer_code(), byte - 0x20);
    } else if (byte >= 0x60 && byte <= 0x64) {
      EXPECT_EQ(aeth.kind(), AethKind::kNak);
      EXPECT_EQ(static_cast<unsigned>(aeth.nak_code()), byte - 0x60);
    } else {
      EXPECT_EQ(aeth.kind(), AethKind::kReserved) << byte;
    }
  }
}

TEST(Immediate, is_the_number_that_the_big_endian_field_shows) {
  EXPECT_EQ(Immediate::parse(octets(0x01, 0x02, 0x03, 0x04))->data, 0x01020304u);
}

TEST(Rdeth, context_is_the_lower_24_bits) {
  const auto rdeth = Rdeth::parse(octets(0x7F, 0x01, 0x02, 0x03));
  EXPECT_EQ(rdeth->context, EecNumber(0x010203));
  EXPECT_EQ(rdeth->reserved, 0x7F);
}

TEST(Ipv4, refuses_options_and_other_versions) {
  Bytes in(24, std::byte{0});
  in[0] = std::byte{0x46};
  EXPECT_EQ(Ipv4::parse(in).error(), ParseError::kIpOptions);
  in[0] = std::byte{0x44};
  EXPECT_EQ(Ipv4::parse(in).error(), ParseError::kIpOptions);
  in[0] = std::byte{0x65};
  EXPECT_EQ(Ipv4::parse(in).error(), ParseError::kBadIpVersion);
}

TEST(Ipv6, refuses_other_versions) {
  Bytes in(40, std::byte{0});
  in[0] = std::byte{0x45};
  EXPECT_EQ(Ipv6::parse(in).error(), ParseError::kBadIpVersion);
}

TEST(Ipv6, a_grh_area_holds_an_ipv4_header_in_its_last_20_bytes) {
  Ipv4 ip;
  ip.source = {192, 0, 2, 1};
  ip.destination = {192, 0, 2, 2};
  std::array<std::byte, kGrhSize> area;
  area.fill(std::byte{0xEE});
  emit_grh_area(ip, area);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(area[i], std::byte{0});
  EXPECT_EQ(*Ipv4::parse(std::span(area).last(20)), ip);
  EXPECT_EQ(ip.source_gid(), Gid::ipv4(192, 0, 2, 1));
  EXPECT_EQ(ip.destination_gid(), Gid::ipv4(192, 0, 2, 2));
}

TEST(Header, emitting_into_too_little_room_is_a_bug_that_stops_us) {
  Bytes out(Bth::kSize - 1);
  EXPECT_DEATH(Bth{}.emit(out), "kSize");
}

TEST(ParseError, every_kind_has_a_name_of_its_own) {
  std::vector<std::string_view> names;
  for (unsigned i = 0; i < static_cast<unsigned>(ParseError::kCount); ++i) {
    names.push_back(to_string(static_cast<ParseError>(i)));
    EXPECT_NE(names.back(), to_string(ParseError::kCount));
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

}  // namespace
}  // namespace weft::wire
