#include "wire/identification.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "wire/icrc.h"

namespace weft::wire {
namespace {

/// The ICRC of a packet of so many bytes under an identification.
std::uint32_t icrc_under(std::uint16_t identification, const std::vector<std::byte>& packet) {
  Ipv4 ip;
  ip.identification = identification;
  ip.total_length = static_cast<std::uint16_t>(Ipv4::kSize + Udp::kSize + packet.size() + 4);
  ip.source = {10, 0, 0, 1};
  ip.destination = {10, 0, 0, 2};
  Udp udp;
  udp.source_port = 0xC123;
  udp.length = static_cast<std::uint16_t>(Udp::kSize + packet.size() + 4);
  std::array<std::byte, Ipv4::kSize> ip_bytes;
  std::array<std::byte, Udp::kSize> udp_bytes;
  ip.write(ip_bytes);
  udp.write(udp_bytes);
  return Icrc::over_ipv4(ip_bytes, udp_bytes).add_first(packet).value();
}

std::vector<std::byte> packet_of(std::size_t size) {
  std::vector<std::byte> packet(size);
  for (std::size_t i = 0; i < size; ++i) packet[i] = static_cast<std::byte>(i * 37 + size);
  return packet;
}

TEST(Identification, is_found_from_the_icrc_whatever_it_is) {
  const auto packet = packet_of(76);
  const std::uint32_t computed = icrc_under(0, packet);
  for (unsigned id = 0; id <= 0xFFFF; ++id) {
    const auto wanted = static_cast<std::uint16_t>(id);
    ASSERT_EQ(find_identification(computed, icrc_under(wanted, packet), packet.size()), wanted);
  }
}

TEST(Identification, is_found_for_every_length) {
  for (std::size_t size = 12; size < 4200; size += 4) {
    const auto packet = packet_of(size);
    ASSERT_EQ(find_identification(icrc_under(0, packet), icrc_under(0xBEEF, packet), size), 0xBEEF);
  }
}

TEST(Identification, explains_no_damage_of_a_few_bits) {
  const auto good = packet_of(300);
  const std::uint32_t stored = icrc_under(0x1234, good);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    if (bit / 8 == 4) continue;  // not covered
    auto bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_FALSE(find_identification(icrc_under(0, bad), stored, bad.size())) << bit;
    bad[(bit / 8 + 11) % bad.size()] ^= std::byte{0x21};
    if ((bit / 8 + 11) % bad.size() == 4) continue;
    ASSERT_FALSE(find_identification(icrc_under(0, bad), stored, bad.size())) << bit;
  }
}

TEST(Identification, is_not_sought_beyond_what_udp_carries) {
  EXPECT_FALSE(find_identification(0, 1, std::size_t{1} << 20));
}

}  // namespace
}  // namespace weft::wire
