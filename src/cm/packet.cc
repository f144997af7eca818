#include "cm/packet.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::cm {
namespace {

constexpr std::array kMagic{std::byte{'w'}, std::byte{'c'}, std::byte{'m'}, std::byte{'1'}};
constexpr std::size_t kSource = 4, kDestination = 20, kMessage = 36;

}  // namespace

std::optional<Packet> parse_packet(std::span<const std::byte> bytes) {
  if (bytes.size() != kPacketBytes || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return {};
  }
  auto message = parse(bytes.subspan(kMessage));
  if (!message) return {};
  Packet packet{{}, {}, std::move(*message)};
  std::memcpy(packet.source.raw.data(), &bytes[kSource], packet.source.raw.size());
  std::memcpy(packet.destination.raw.data(), &bytes[kDestination], packet.destination.raw.size());
  return packet;
}

std::array<std::byte, kPacketBytes> emit_packet(const Packet& packet) {
  std::array<std::byte, kPacketBytes> bytes{};
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  std::memcpy(&bytes[kSource], packet.source.raw.data(), packet.source.raw.size());
  std::memcpy(&bytes[kDestination], packet.destination.raw.data(), packet.destination.raw.size());
  const MessageBytes message = emit(packet.message);
  std::copy(message.begin(), message.end(), bytes.begin() + kMessage);
  return bytes;
}

}  // namespace weft::cm
