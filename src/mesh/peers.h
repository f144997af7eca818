// The table of peers: an address and the number of its link, if it has one, found by number and by
// address. Some thirty bytes a peer, and nothing else for those that are silent. Belongs to a mesh;
// one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "weft/mesh.h"

namespace weft::mesh {

inline constexpr std::uint32_t kNoLink = ~0u;

struct PeerEntry {
  Gid gid;
  std::uint32_t qpn : 24 = 0;
  std::uint32_t closed : 1 = 0;   ///< take_closed() has still to tell of it
  std::uint32_t greeted : 1 = 0;  ///< it has asked, and its ready has not come
  std::uint32_t link = kNoLink;

  Address address() const { return {gid, Qpn(qpn)}; }
};
static_assert(sizeof(PeerEntry) == 24);

class PeerTable {
 public:
  /// `seed`: strangers must not know which addresses meet in the table.
  explicit PeerTable(std::uint64_t seed) : seed_(seed) {}

  std::optional<Peer> find(const Address& address) const;
  /// It is not in the table.
  Peer add(const Address& address);
  bool has(Peer peer) const { return peer.value < entries_.size(); }
  PeerEntry& operator[](Peer peer) { return entries_[peer.value]; }
  const PeerEntry& operator[](Peer peer) const { return entries_[peer.value]; }
  std::size_t size() const { return entries_.size(); }
  std::uint64_t bytes() const {
    return entries_.size() * sizeof(PeerEntry) + places_.size() * sizeof places_[0];
  }

 private:
  std::size_t home_of(const Address& address) const;
  void put(std::uint32_t number);
  void grow();

  const std::uint64_t seed_;
  std::deque<PeerEntry> entries_;      // in pieces: nothing moves, nothing is kept for later
  std::vector<std::uint32_t> places_;  // number of the entry, plus one; 0: free
};

}  // namespace weft::mesh
