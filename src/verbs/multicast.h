// Which queue pairs of a controller are in which multicast groups. Other processes find the members
// by a name (host/multicast_names.h) or, at a port on the network, the port listens to the group.
// Part of the controller; any thread.
#pragma once

#include <vector>

#include "base/lock.h"
#include "host/multicast_names.h"
#include "port/port.h"
#include "port/port_control.h"
#include "queue/queue_pair.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::verbs {

class MulticastMembers {
 public:
  /// Other processes of this host may send to the groups. Once, before the first join.
  void set_names(host::MulticastNames& names) { names_ = &names; }

  /// A datagram queue pair joins; once more changes nothing. `wire`: the port by which frames to
  /// the group arrive; null: only this host's processes reach it.
  Result<void> join(const queue::QueuePair& qp, const Gid& group, port::Port* wire);
  Result<void> leave(const queue::QueuePair& qp, const Gid& group);
  void leave_all(const queue::QueuePair& qp);

  std::vector<Qpn> of(const Gid& group) const;

 private:
  struct Membership {
    Gid group;
    Qpn qpn;
    port::PortControl* network;  ///< null: only this host's processes reach the group
  };
  Result<void> add(const queue::QueuePair& qp, const Gid& group, port::PortControl* network,
                   bool* added);
  /// Tells how many memberships this predicate ended.
  template <class Predicate>
  std::size_t remove_if(Predicate ends);

  host::MulticastNames* names_ = nullptr;  ///< null: this process is on its own
  mutable base::Lock lock_;
  std::vector<Membership> members_;
};

}  // namespace weft::verbs
