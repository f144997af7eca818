// Which abstract names of local sockets this user's processes hold. Names are anybody's to take,
// and so another user can take those that a process of ours is about to need, or a thousand that
// look like ours. The kernel lists the names of a network namespace with the users who made the
// sockets (sock_diag), and what others hold is passed by here. Where it does not tell the users,
// each name is called to learn whose it is, a bounded number of them at a time, those that are
// known first. Any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/types.h"

namespace weft::host {

/// Every name of ours begins so.
inline constexpr std::string_view kNamePrefix = "weft";

/// Of sockets that send messages with boundaries, in no order: names that begin with `prefix`,
/// which begins with kNamePrefix. As they are now: takes a system call for some hundred sockets of
/// the namespace.
std::vector<std::string> own_names(std::string_view prefix);

/// The same, but remembered for a moment, ten times as long as the look at the list took: whoever
/// asks all the time spends a tenth of it here, however many names others have taken.
std::vector<std::string> own_names_lately(std::string_view prefix);

/// False: the kernel did not tell owners when it was last asked. Then a name of ours whose process
/// accepts nobody is not among those above.
bool owners_are_told();

/// Time that looking at the list is worth again after a look that took `cost_ns`.
inline constexpr Nanoseconds pause_after_look(Nanoseconds cost_ns) { return 10 * cost_ns; }

}  // namespace weft::host
