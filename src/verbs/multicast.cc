#include <algorithm>
#include <mutex>

#include "verbs/controller.h"
#include "verbs/objects.h"

// Membership in multicast groups: a list of the controller's own queue pairs, and either a name by
// which other processes find the controller or, at a port on the network, the group's own socket.
namespace weft::verbs {
namespace {

constexpr std::size_t kMostMemberships = 4096;

}  // namespace

std::vector<Qpn> Controller::members(const Gid& group) {
  const std::lock_guard guard(group_lock_);
  std::vector<Qpn> found;
  for (const Membership& each : group_members_) {
    if (each.group == group) found.push_back(each.qpn);
  }
  return found;
}

Result<void> Controller::attach(queue::QueuePair& qp, const Gid& group) {
  if (auto ok = check_ours(); !ok) return ok;
  if (qp.service != Service::kUnreliableDatagram) {
    return fail(Errc::kInvalidArgument, "attach: only datagram queue pairs have groups");
  }
  if (!group.is_multicast()) return fail(Errc::kInvalidArgument, "group: no multicast address");
  // Before the list is locked: a thread that receives from groups looks at the list.
  port::Port* const wire = ports_[qp.attributes.port - 1u].wire.get();
  if (wire != nullptr) {
    if (auto ok = wire->join(group); !ok) return ok;
  }
  bool added = false;
  auto ok = add_member(qp, group, wire, &added);
  if (wire != nullptr && !added) wire->leave(group);
  return ok;
}

Result<void> Controller::add_member(queue::QueuePair& qp, const Gid& group, port::Port* wire,
                                    bool* added) {
  const std::lock_guard guard(group_lock_);
  const bool there = std::ranges::any_of(group_members_, [&](const Membership& each) {
    return each.group == group && each.qpn == qp.qpn;
  });
  if (there) return {};
  if (group_members_.size() >= kMostMemberships) {
    return fail(Errc::kOutOfMemory, "group: the device has no room for more members");
  }
  if (neighbours_ != nullptr && wire == nullptr) {
    if (auto ok = neighbours_->groups().join(group, qp.local_gid, qp.qpn); !ok) return ok;
  }
  group_members_.push_back({group, qp.qpn, wire});
  *added = true;
  return {};
}

std::size_t Controller::remove_members(Qpn qpn, const Gid* group) {
  std::vector<Membership> left;
  {
    const std::lock_guard guard(group_lock_);
    std::erase_if(group_members_, [&](const Membership& each) {
      if (each.qpn != qpn || (group != nullptr && each.group != *group)) return false;
      left.push_back(each);
      return true;
    });
  }
  for (const Membership& each : left) {
    if (each.wire != nullptr) {
      each.wire->leave(each.group);
    } else if (neighbours_ != nullptr) {
      neighbours_->groups().leave(each.group);
    }
  }
  return left.size();
}

Result<void> Controller::detach(queue::QueuePair& qp, const Gid& group) {
  if (auto ok = check_ours(); !ok) return ok;
  if (remove_members(qp.qpn, &group) == 0) {
    return fail(Errc::kInvalidArgument, "group: the queue pair is not in it");
  }
  return {};
}

Result<void> QueuePair::attach_multicast(const Gid& group) {
  return object_->controller().attach(*object_->core, group);
}

Result<void> QueuePair::detach_multicast(const Gid& group) {
  return object_->controller().detach(*object_->core, group);
}

}  // namespace weft::verbs
