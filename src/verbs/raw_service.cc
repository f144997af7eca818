#include "verbs/raw_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "path/raw_path.h"

namespace weft::verbs {

void RawService::add_port(const Gid& address, OpenRawPort open) {
  ports_.push_back({address, std::move(open), nullptr});
}

Result<void> RawService::open() {
  const std::lock_guard guard(mutex_);
  if (opened_) return {};
  std::vector<std::unique_ptr<path::RawSwitch>> made;
  for (const RawPortSlot& slot : ports_) {
    if (!slot.open) {
      return fail(Errc::kNotSupported, "service: this device's port carries no raw packets");
    }
    auto port = slot.open();
    if (!port) return tl::unexpected(port.error());
    made.push_back(std::make_unique<path::RawSwitch>(path::RawSwitchSetup{.port = std::move(*port),
                                                                          .address = slot.address,
                                                                          .table = &table_,
                                                                          .counters = &counters_}));
  }
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    ports_[i].through = std::move(made[i]);
    engine_.add_source(*ports_[i].through);
  }
  opened_ = true;
  return {};
}

/// With mutex_ held.
Result<path::RawSwitch*> RawService::at(std::uint8_t port) {
  if (!opened_) return fail(Errc::kInvalidState, "queue pair: it is no raw one");
  if (port == 0 || port > ports_.size()) {
    return fail(Errc::kInvalidArgument,
                fmt::format("port: {}, but there are ports 1 to {}", port, ports_.size()));
  }
  return ports_[port - 1u].through.get();
}

Result<void> RawService::claim(const queue::QueuePair& qp, const RawKey& key) {
  if (qp.service != Service::kRawDatagram) {
    return fail(Errc::kNotSupported, "claim: it is for raw queue pairs");
  }
  const std::lock_guard guard(mutex_);
  const std::uint8_t port = qp.attributes.port;
  const auto through = at(port);
  if (!through) return tl::unexpected(through.error());
  network::RawClaim claim;
  claim.qpn = qp.qpn;
  claim.match = network::match_of(key);
  // Each host of a group gets a copy, and each queue pair.
  claim.exclusive = !claim.match.is_for_group();
  claim.packets_only = qp.raw_framing == RawFraming::kPacket;
  const bool mine = std::ranges::any_of(claimed_, [&](const Claimed& each) {
    return each.qpn == qp.qpn && each.port == port && each.key == key;
  });
  if (mine) return fail(Errc::kBusy, "key: this queue pair has claimed it already");
  host::Fd reserved;
  if (claim.exclusive) {
    auto taken = (*through)->reserve(key);
    if (!taken) return tl::unexpected(taken.error());
    reserved = std::move(*taken);
  }
  const auto id = (*through)->add(claim);
  if (!id) return tl::unexpected(id.error());
  claimed_.push_back({qp.qpn, port, key, *id, std::move(reserved)});
  return {};
}

Result<void> RawService::release(const queue::QueuePair& qp, const RawKey& key) {
  const std::lock_guard guard(mutex_);
  const auto at = std::ranges::find_if(
      claimed_, [&](const Claimed& each) { return each.qpn == qp.qpn && each.key == key; });
  if (at == claimed_.end()) {
    return fail(Errc::kNotFound, "key: this queue pair has not claimed it");
  }
  ports_[at->port - 1u].through->remove(at->id);
  claimed_.erase(at);
  return {};
}

Result<RawService::FlowId> RawService::add_flow(std::uint8_t port, const network::RawClaim& claim) {
  const std::lock_guard guard(mutex_);
  const auto through = at(port);
  if (!through) return tl::unexpected(through.error());
  const auto id = (*through)->add(claim);
  if (!id) return tl::unexpected(id.error());
  return FlowId{port, *id};
}

void RawService::remove_flow(FlowId flow) {
  const std::lock_guard guard(mutex_);
  if (const auto through = at(flow.port)) (*through)->remove(flow.id);
}

void RawService::forget(const queue::QueuePair& qp) {
  const std::lock_guard guard(mutex_);
  for (const RawPortSlot& slot : ports_) {
    if (slot.through != nullptr) slot.through->remove_all_of(qp.qpn);
  }
  std::erase_if(claimed_, [&](const Claimed& each) { return each.qpn == qp.qpn; });
}

std::unique_ptr<queue::Path> RawService::make_path(const queue::QueuePair& qp) {
  const std::lock_guard guard(mutex_);
  const auto through = at(qp.attributes.port);
  return through ? path::make_raw_path(**through) : nullptr;
}

}  // namespace weft::verbs
