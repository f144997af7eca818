// Whether the process at the other end of a local socket is of this user. To be asked in place of a
// comparison of two numbers: in a user namespace that does not map every user, all users without a
// number there read as one, the overflow uid, which is nobody's own. Any thread; system calls only
// where this process has that number itself.
#pragma once

#include <sys/types.h>

namespace weft::host {

/// `peer` is what SO_PEERCRED of the socket says. Without a socket (the credentials came with a
/// datagram) nothing is left to be asked about a peer that has the overflow uid.
bool is_same_user(uid_t peer, int socket = -1);

}  // namespace weft::host
