// Who gets a packet that arrives: the claims of one port. Each names a queue pair, what it is for
// and how urgent it is. A packet goes to the claim of the lowest priority value that matches it; of
// equal ones to the one that looks at the most bits, then to the oldest. Other claims of exactly
// the same get a copy each, unless one is exclusive: then they are refused. Observers get a copy of
// every packet and keep none from others.
//
// Not thread-safe: its owner guards it. Lives as long as the port's service.
#pragma once

#include <cstdint>
#include <vector>

#include "network/raw_match.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::network {

struct RawClaim {
  Qpn qpn{};
  RawMatch match;
  std::uint32_t priority = 0;
  bool exclusive = false;
  bool observes = false;  ///< a copy of each packet
  /// Only whole, faultless IP packets; others get what matches, as on a network card.
  bool packets_only = false;
};

class RawClaims {
 public:
  using Id = std::uint64_t;

  /// kBusy: another queue pair has an exclusive claim of the same.
  Result<Id> add(const RawClaim& claim);
  /// False: there is none.
  bool remove(Id id);
  void remove_all_of(Qpn qpn);

  bool empty() const { return rows_.empty(); }
  struct Row {
    Id id;
    unsigned bits;
    RawClaim claim;
  };
  /// The first counts most.
  const std::vector<Row>& rows() const { return rows_; }

  /// Whether the queue pair may send from this address: it claims it, or all of them.
  bool may_send_from(Qpn qpn, const Gid& source) const;
  /// Whether anybody here has claimed what is for this very address.
  bool claims_address(const Gid& address) const;
  /// The same of those who receive packets, and so have no stack that answers for it.
  bool answers_for(const Gid& address) const;
  bool claims_link_address(const wire::Ethernet::Address& address) const;

  /// Calls give(row) for each that gets the packet; true: somebody besides observers did.
  template <class Give>
  bool match(const wire::RawPacket& packet, Give give) const {
    const Row* first = nullptr;
    for (const Row& row : rows_) {
      if (row.claim.packets_only && (packet.version == 0 || packet.fault != wire::RawFault::kNone))
        continue;
      if (row.claim.observes) {
        if (row.claim.match.matches(packet)) give(row);
        continue;
      }
      if (first != nullptr && !(row.claim.match == first->claim.match)) continue;
      if (first == nullptr && !row.claim.match.matches(packet)) continue;
      if (first == nullptr) first = &row;
      if (row.claim.priority == first->claim.priority) give(row);
    }
    return first != nullptr;
  }

 private:
  std::vector<Row> rows_;
  Id last_id_ = 0;
};

}  // namespace weft::network
