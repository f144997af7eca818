#include "verbs/multicast.h"

#include <algorithm>
#include <mutex>

namespace weft::verbs {
namespace {

constexpr std::size_t kMostMemberships = 4096;

}  // namespace

std::vector<Qpn> MulticastMembers::of(const Gid& group) const {
  const std::lock_guard guard(lock_);
  std::vector<Qpn> found;
  for (const Membership& each : members_) {
    if (each.group == group) found.push_back(each.qpn);
  }
  return found;
}

Result<void> MulticastMembers::join(const queue::QueuePair& qp, const Gid& group,
                                    port::Port* wire) {
  if (qp.service != Service::kUnreliableDatagram) {
    return fail(Errc::kInvalidArgument, "attach: only datagram queue pairs have groups");
  }
  if (!group.is_multicast()) return fail(Errc::kInvalidArgument, "group: no multicast address");
  // Before the list is locked: a thread that receives from groups looks at the list.
  port::PortControl* const network = wire != nullptr ? wire->control() : nullptr;
  if (wire != nullptr && network == nullptr) {
    return fail(Errc::kNotSupported, "group: this port has no multicast");
  }
  if (network != nullptr) {
    if (auto ok = network->join(group); !ok) return ok;
  }
  bool added = false;
  auto ok = add(qp, group, network, &added);
  if (network != nullptr && !added) network->leave(group);
  return ok;
}

Result<void> MulticastMembers::add(const queue::QueuePair& qp, const Gid& group,
                                   port::PortControl* network, bool* added) {
  const std::lock_guard guard(lock_);
  const bool there = std::ranges::any_of(
      members_, [&](const Membership& each) { return each.group == group && each.qpn == qp.qpn; });
  if (there) return {};
  if (members_.size() >= kMostMemberships) {
    return fail(Errc::kOutOfMemory, "group: the device has no room for more members");
  }
  if (names_ != nullptr && network == nullptr) {
    if (auto ok = names_->join(group, qp.local_gid, qp.qpn); !ok) return ok;
  }
  members_.push_back({group, qp.qpn, network});
  *added = true;
  return {};
}

template <class Predicate>
std::size_t MulticastMembers::remove_if(Predicate ends) {
  std::vector<Membership> left;
  {
    const std::lock_guard guard(lock_);
    std::erase_if(members_, [&](const Membership& each) {
      if (!ends(each)) return false;
      left.push_back(each);
      return true;
    });
  }
  for (const Membership& each : left) {
    if (each.network != nullptr) {
      each.network->leave(each.group);
    } else if (names_ != nullptr) {
      names_->leave(each.group);
    }
  }
  return left.size();
}

Result<void> MulticastMembers::leave(const queue::QueuePair& qp, const Gid& group) {
  const std::size_t left =
      remove_if([&](const Membership& each) { return each.qpn == qp.qpn && each.group == group; });
  if (left > 0) return {};
  return fail(Errc::kInvalidArgument, "group: the queue pair is not in it");
}

void MulticastMembers::leave_all(const queue::QueuePair& qp) {
  remove_if([&](const Membership& each) { return each.qpn == qp.qpn; });
}

}  // namespace weft::verbs
