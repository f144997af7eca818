#include "cm/packet.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::cm {
namespace {

constexpr std::array kMagic{std::byte{'w'}, std::byte{'c'}, std::byte{'m'}, std::byte{'1'}};
constexpr std::array kNetworkMagic{std::byte{'w'}, std::byte{'c'}, std::byte{'m'}, std::byte{'n'}};
constexpr std::size_t kSourceAt = 4, kDestinationAt = 20, kMessageAt = 36;

}  // namespace

std::optional<Packet> parse_packet(std::span<const std::byte> bytes) {
  if (bytes.size() != kPacketBytes) return {};
  const bool from_network = std::ranges::equal(kNetworkMagic, bytes.first<kMagic.size()>());
  if (!from_network && !std::ranges::equal(kMagic, bytes.first<kMagic.size()>())) return {};
  auto message = parse(bytes.subspan(kMessageAt));
  if (!message) return {};
  Packet packet{{}, {}, std::move(*message), from_network};
  std::memcpy(packet.source.raw.data(), &bytes[kSourceAt], packet.source.raw.size());
  std::memcpy(packet.destination.raw.data(), &bytes[kDestinationAt], packet.destination.raw.size());
  return packet;
}

std::array<std::byte, kPacketBytes> emit_packet(const Packet& packet) {
  std::array<std::byte, kPacketBytes> bytes{};
  std::ranges::copy(packet.from_network ? kNetworkMagic : kMagic, bytes.begin());
  std::memcpy(&bytes[kSourceAt], packet.source.raw.data(), packet.source.raw.size());
  std::memcpy(&bytes[kDestinationAt], packet.destination.raw.data(), packet.destination.raw.size());
  const MessageBytes message = emit(packet.message);
  std::copy(message.begin(), message.end(), bytes.begin() + kMessageAt);
  return bytes;
}

}  // namespace weft::cm
