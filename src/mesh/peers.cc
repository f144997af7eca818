#include "mesh/peers.h"

#include <cstring>

namespace weft::mesh {
namespace {

constexpr std::size_t kFirstPlaces = 16;

std::uint64_t mix(std::uint64_t h) {
  h = (h ^ (h >> 31)) * 0x9E37'79B9'7F4A'7C15;
  return h ^ (h >> 29);
}

}  // namespace

std::size_t PeerTable::home_of(const Address& address) const {
  std::uint64_t words[2];
  std::memcpy(words, address.gid.raw.data(), sizeof words);
  std::uint64_t h = mix(seed_ ^ words[0]);
  h = mix(h + words[1]);
  h = mix(h + address.qpn.value);
  return static_cast<std::size_t>((h >> 32) * places_.size() >> 32);
}

std::optional<Peer> PeerTable::find(const Address& address) const {
  if (places_.empty()) return std::nullopt;
  for (std::size_t at = home_of(address); places_[at] != 0;) {
    const std::uint32_t number = places_[at] - 1;
    if (entries_[number].address() == address) return Peer(number);
    if (++at == places_.size()) at = 0;
  }
  return std::nullopt;
}

Peer PeerTable::add(const Address& address) {
  // At most three in four places are taken, so that a search ends soon.
  if ((entries_.size() + 1) * 4 > places_.size() * 3) grow();
  const auto number = static_cast<std::uint32_t>(entries_.size());
  PeerEntry entry;
  entry.gid = address.gid;
  entry.qpn = address.qpn.value & kMask24;
  entries_.push_back(entry);
  put(number);
  return Peer(number);
}

void PeerTable::put(std::uint32_t number) {
  std::size_t at = home_of(entries_[number].address());
  while (places_[at] != 0) {
    if (++at == places_.size()) at = 0;
  }
  places_[at] = number + 1;
}

void PeerTable::grow() {
  const std::size_t size = places_.empty() ? kFirstPlaces : places_.size() * 3 / 2;
  places_ = std::vector<std::uint32_t>(size);
  for (std::uint32_t number = 0; number < entries_.size(); ++number) put(number);
}

}  // namespace weft::mesh
