#include <algorithm>
#include <mutex>

#include "verbs/controller.h"
#include "verbs/objects.h"

// Membership in multicast groups: a list of the controller's own queue pairs, and a name by which
// other processes find the controller.
namespace weft::verbs {
namespace {

constexpr std::size_t kMostMemberships = 4096;

}  // namespace

std::vector<Qpn> Controller::members(const Gid& group) {
  const std::lock_guard guard(group_lock_);
  std::vector<Qpn> found;
  for (const auto& [each, qpn] : group_members_) {
    if (each == group) found.push_back(qpn);
  }
  return found;
}

Result<void> Controller::attach(queue::QueuePair& qp, const Gid& group) {
  if (auto ok = check_ours(); !ok) return ok;
  if (qp.service != Service::kUnreliableDatagram) {
    return fail(Errc::kInvalidArgument, "attach: only datagram queue pairs have groups");
  }
  if (!group.is_multicast()) return fail(Errc::kInvalidArgument, "group: no multicast address");
  if (ports_[qp.attributes.port - 1u].wire != nullptr) {
    return fail(Errc::kNotSupported, "group: multicast stays on one host; this port has frames");
  }
  const std::lock_guard guard(group_lock_);
  const std::pair membership(group, qp.qpn);
  if (std::find(group_members_.begin(), group_members_.end(), membership) != group_members_.end()) {
    return {};
  }
  if (group_members_.size() >= kMostMemberships) {
    return fail(Errc::kOutOfMemory, "group: the device has no room for more members");
  }
  if (neighbours_ != nullptr) {
    if (auto ok = neighbours_->groups().join(group, qp.local_gid, qp.qpn); !ok) return ok;
  }
  group_members_.push_back(membership);
  return {};
}

Result<void> Controller::detach(queue::QueuePair& qp, const Gid& group) {
  if (auto ok = check_ours(); !ok) return ok;
  const std::lock_guard guard(group_lock_);
  if (std::erase(group_members_, std::pair(group, qp.qpn)) == 0) {
    return fail(Errc::kInvalidArgument, "group: the queue pair is not in it");
  }
  if (neighbours_ != nullptr) neighbours_->groups().leave(group);
  return {};
}

void Controller::leave_groups(Qpn qpn) {
  const std::lock_guard guard(group_lock_);
  std::erase_if(group_members_, [&](const auto& membership) {
    if (membership.second != qpn) return false;
    if (neighbours_ != nullptr) neighbours_->groups().leave(membership.first);
    return true;
  });
}

Result<void> QueuePair::attach_multicast(const Gid& group) {
  return object_->pd->controller->attach(*object_->core, group);
}

Result<void> QueuePair::detach_multicast(const Gid& group) {
  return object_->pd->controller->detach(*object_->core, group);
}

}  // namespace weft::verbs
