#include "network/raw_claims.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::network {

Result<RawClaims::Id> RawClaims::add(const RawClaim& claim) {
  for (const Row& row : rows_) {
    const bool same = row.claim.match == claim.match && row.claim.priority == claim.priority &&
                      row.claim.observes == claim.observes;
    if (same && (row.claim.exclusive || claim.exclusive)) {
      return fail(Errc::kBusy,
                  fmt::format("key: queue pair {} has claimed the same; let it go there first, or "
                              "claim a part of it",
                              row.claim.qpn.value));
    }
  }
  const unsigned bits = claim.match.bits();
  const auto before = [](const Row& a, const Row& b) {
    return a.claim.priority != b.claim.priority ? a.claim.priority < b.claim.priority
                                                : a.bits > b.bits;
  };
  const Row row{++last_id_, bits, claim};
  rows_.insert(std::upper_bound(rows_.begin(), rows_.end(), row, before), row);
  return row.id;
}

bool RawClaims::remove(Id id) {
  return std::erase_if(rows_, [id](const Row& row) { return row.id == id; }) > 0;
}

void RawClaims::remove_all_of(Qpn qpn) {
  std::erase_if(rows_, [qpn](const Row& row) { return row.claim.qpn == qpn; });
}

bool RawClaims::may_send_from(Qpn qpn, const Gid& source) const {
  return std::ranges::any_of(rows_, [&](const Row& row) {
    return row.claim.qpn == qpn && row.claim.match.destination.matches(source.raw);
  });
}

bool RawClaims::claims_address(const Gid& address) const {
  return std::ranges::any_of(rows_, [&](const Row& row) { return row.claim.match.names(address); });
}

bool RawClaims::answers_for(const Gid& address) const {
  return std::ranges::any_of(rows_, [&](const Row& row) {
    return row.claim.packets_only && row.claim.match.names(address);
  });
}

bool RawClaims::claims_link_address(const wire::Ethernet::Address& address) const {
  return std::ranges::any_of(rows_, [&](const Row& row) {
    const auto& link = row.claim.match.link_destination;
    return link.mask == all_ones<6>() && link.matches(address);
  });
}

}  // namespace weft::network
