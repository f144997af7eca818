#include "wire/icrc.h"

#include <gtest/gtest.h>

#include "base/big_endian.h"
#include "wire/datagram.h"
#include "wire/icrc_identification.h"
#include "wire_test_support.h"

namespace weft::wire {
namespace {

using test::Bytes;

/// A datagram of random bytes whose lengths agree; the ICRC is the bitwise reference's.
Bytes random_datagram(base::SeededRandom& random, bool v4, std::size_t body) {
  const std::size_t ip_size = v4 ? Ipv4::kSize : Ipv6::kSize;
  const auto udp_length = static_cast<std::uint16_t>(Udp::kSize + body + kIcrcSize);
  Bytes out = test::random_bytes(random, ip_size + udp_length);
  if (v4) {
    out[0] = std::byte{0x45};
    base::store_be<std::uint16_t>(&out[2], static_cast<std::uint16_t>(out.size()));
    base::store_be<std::uint16_t>(&out[6], 0x4000);
    out[9] = std::byte{17};
  } else {
    out[0] = std::byte{0x60} | (out[0] & std::byte{0x0F});
    base::store_be<std::uint16_t>(&out[4], udp_length);
    out[6] = std::byte{17};
  }
  base::store_be<std::uint16_t>(&out[ip_size + 2], 4791);
  base::store_be<std::uint16_t>(&out[ip_size + 4], udp_length);
  const std::uint32_t icrc = test::reference_icrc(std::span(out).first(out.size() - kIcrcSize));
  for (std::size_t i = 0; i < 4; ++i)
    out[out.size() - 4 + i] = static_cast<std::byte>(icrc >> (8 * i));
  return out;
}

class BothFamilies : public testing::TestWithParam<bool> {
 protected:
  bool v4() const { return GetParam(); }
  std::size_t ip_size() const { return v4() ? Ipv4::kSize : Ipv6::kSize; }
  Icrc start(const Bytes& datagram) const {
    const auto bytes = std::span(datagram);
    const auto udp = bytes.subspan(ip_size()).first<Udp::kSize>();
    return v4() ? Icrc::over_ipv4(bytes.first<Ipv4::kSize>(), udp)
                : Icrc::over_ipv6(bytes.first<Ipv6::kSize>(), udp);
  }
};

TEST_P(BothFamilies, agrees_with_the_bitwise_reference_at_every_length) {
  base::SeededRandom random(21);
  for (std::size_t body = Bth::kSize; body < 600; ++body) {
    const Bytes datagram = random_datagram(random, v4(), body);
    ASSERT_TRUE(check_datagram(datagram).has_value()) << body;
  }
}

TEST_P(BothFamilies, does_not_depend_on_how_the_packet_is_cut_into_pieces) {
  base::SeededRandom random(22);
  for (int round = 0; round < 300; ++round) {
    const Bytes datagram = random_datagram(random, v4(), Bth::kSize + random.below(5000));
    const auto parts = split_datagram(datagram);
    std::span<const std::byte> rest = parts->packet;
    std::size_t piece = Bth::kSize + random.below(rest.size() - Bth::kSize + 1);
    Icrc icrc = start(datagram);
    icrc.add_first(rest.first(piece));
    for (rest = rest.subspan(piece); !rest.empty(); rest = rest.subspan(piece)) {
      piece = random.below(std::min<std::size_t>(rest.size(), 1500) + 1);
      icrc.add(rest.first(piece));
      icrc.add({});  // an empty piece with no address changes nothing
    }
    ASSERT_TRUE(icrc.matches(parts->icrc));
  }
}

/// Which bits count: one flipped bit is noticed unless the ICRC leaves that bit out.
TEST_P(BothFamilies, covers_exactly_the_invariant_bits) {
  base::SeededRandom random(23);
  const Bytes datagram = random_datagram(random, v4(), 40);
  const std::uint32_t original = compute_icrc(*split_datagram(datagram)).value();
  std::size_t uncovered = 0;
  for (std::size_t byte = 0; byte < datagram.size() - kIcrcSize; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes changed = datagram;
      changed[byte] ^= static_cast<std::byte>(1 << bit);
      const auto body = std::span(changed).subspan(ip_size() + Udp::kSize);
      Icrc icrc = start(changed);
      icrc.add_first(body.first(body.size() - kIcrcSize));
      uncovered += icrc.value() == original;
    }
  }
  // IPv4: TOS 8, TTL 8, checksum 16. IPv6: traffic class 8, flow label 20, hop limit 8. Both: UDP
  // checksum 16, BTH byte 4.
  EXPECT_EQ(uncovered, (v4() ? 32u : 36u) + 16 + 8);
}

TEST_P(BothFamilies, prefix_gives_what_a_pass_over_the_headers_gives) {
  base::SeededRandom random(24);
  for (int round = 0; round < 200; ++round) {
    Bytes datagram = random_datagram(random, v4(), Bth::kSize);
    const auto udp = *Udp::parse(std::span(datagram).subspan(ip_size()));
    const IcrcPrefix prefix =
        v4() ? IcrcPrefix(*Ipv4::parse(datagram), udp) : IcrcPrefix(*Ipv6::parse(datagram), udp);
    for (int packet = 0; packet < 50; ++packet) {
      const auto udp_length = static_cast<std::uint16_t>(random.below(65536 - Ipv4::kSize));
      const auto id = static_cast<std::uint16_t>(v4() ? random.below(65536) : 0);
      base::store_be<std::uint16_t>(&datagram[ip_size() + 4], udp_length);
      if (v4()) {
        base::store_be<std::uint16_t>(&datagram[2], static_cast<std::uint16_t>(udp_length + 20));
        base::store_be<std::uint16_t>(&datagram[4], id);
      } else {
        base::store_be<std::uint16_t>(&datagram[4], udp_length);
      }
      ASSERT_EQ(prefix.start(udp_length, id).value(), start(datagram).value());
    }
  }
}

TEST_P(BothFamilies, refuses_every_single_bit_error_in_packet_and_icrc) {
  base::SeededRandom random(25);
  const Bytes datagram = random_datagram(random, v4(), 64);
  const std::size_t masked = ip_size() + Udp::kSize + 4;
  for (std::size_t byte = ip_size() + Udp::kSize; byte < datagram.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes changed = datagram;
      changed[byte] ^= static_cast<std::byte>(1 << bit);
      const auto checked = check_datagram(changed);
      ASSERT_EQ(checked.has_value(), byte == masked);
      if (!checked) {
        ASSERT_EQ(checked.error(), ParseError::kBadIcrc);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Icrc, BothFamilies, testing::Bool(),
                         [](const auto& p) { return p.param ? "ipv4" : "ipv6"; });

TEST(Icrc, ipv6_has_no_identification_to_add) {
  const IcrcPrefix prefix(Ipv6{}, Udp{});
  EXPECT_EQ(prefix.start(100, 0).value(), prefix.start(100, 7).value());
}

TEST(Icrc, tells_which_identification_the_sender_used) {
  // B2.3
  base::SeededRandom random(27);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t body = Bth::kSize + random.below(5000);
    Bytes datagram = random_datagram(random, true, body);
    const auto real = base::load_be<std::uint16_t>(&datagram[4]);
    const auto guess = static_cast<std::uint16_t>(random.below(65536));
    base::store_be<std::uint16_t>(&datagram[4], guess);
    const auto split = *split_datagram(datagram);
    const auto stored = std::span<const std::byte>(datagram).last<kIcrcSize>();
    const std::uint32_t remainder = compute_icrc(split).remainder(stored);
    ASSERT_EQ(recover_identification(remainder, body, guess), real) << round;
  }
}

TEST(Icrc, takes_damage_for_an_identification_once_in_65536_times) {
  base::SeededRandom random(28);
  int taken = 0;
  for (int i = 0; i < 1 << 18; ++i) {
    const auto remainder = static_cast<std::uint32_t>(random.next());
    taken += recover_identification(remainder, 1024, 0).has_value() ? 1 : 0;
  }
  EXPECT_LT(taken, 30);
  EXPECT_FALSE(recover_identification(1, 1 << 20, 0).has_value()) << "longer than any packet";
}

TEST(Icrc, is_stored_with_its_lowest_byte_first) {
  base::SeededRandom random(26);
  const Bytes datagram = random_datagram(random, true, Bth::kSize);
  const Icrc icrc = compute_icrc(*split_datagram(datagram));
  std::array<std::byte, kIcrcSize> out;
  icrc.store(out);
  EXPECT_EQ(std::to_integer<std::uint32_t>(out[0]), icrc.value() & 0xFF);
  EXPECT_EQ(std::to_integer<std::uint32_t>(out[3]), icrc.value() >> 24);
}

}  // namespace
}  // namespace weft::wire
