// Who on this host is in a multicast group. A controller with members listens at the abstract name
// "weft-mc/<group>/<address>/<block>", where address and block are those under which its queue
// pairs are found (presence.h); nobody ever calls there. Whoever sends reads the names that
// processes of this user hold (own_names.h), and remembers them for a moment; names that another
// user has taken are none, however many there are. Owned by the controller's neighbours; any
// thread. A member is believed only after presence.h has reached it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/lock.h"
#include "host/local_socket.h"
#include "weft/result.h"
#include "weft/types.h"

namespace weft::host {

/// A controller with members, by one of the places under which it is found.
struct GroupMember {
  Gid address;
  std::uint32_t block = 0;

  Qpn some_qpn() const;
  friend bool operator==(const GroupMember&, const GroupMember&) = default;
};

class MulticastNames {
 public:
  /// One more queue pair of this controller is in the group.
  Result<void> join(const Gid& group, const Gid& address, Qpn qpn);
  void leave(const Gid& group);

  /// Controllers with members, this one too.
  std::vector<GroupMember> members(const Gid& group, Nanoseconds now);

 private:
  void turn_callers_away();
  struct Joined {
    LocalSocket name;
    std::uint32_t count = 0;
  };
  struct Seen {
    Nanoseconds until = 0;
    std::vector<GroupMember> members;
  };

  base::Lock lock_;
  std::map<Gid, Joined> joined_;
  std::map<Gid, Seen> seen_;
};

/// Members of the group among these names.
std::vector<GroupMember> parse_members(std::span<const std::string> names, const Gid& group);

}  // namespace weft::host
