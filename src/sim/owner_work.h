// What an end does with its own memory so that the peer may reach parts of it for a while: windows
// bound and unbound through the send queue, regions registered and taken back under traffic, keys
// that serve once. Stateless functions over an End; one thread.
#pragma once

#include "sim/end.h"

namespace weft::sim {

/// One random piece of such work. False: nothing could be done.
bool do_owner_work(End& end);

/// Posts a request as part of the end's program (program.cc).
void post_owner_request(End& end, SendRequest& request, Work work);

}  // namespace weft::sim
