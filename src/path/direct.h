// The direct path inside one process: the thread that posts does all of the work, for both sides.
// It finds the peer in the directory, checks what a responder would check, copies, and completes.
// Same completions, same errors, same order as on the wire; the peer's threads take no part.
#pragma once

#include <memory>

#include "path/directory.h"
#include "queue/path.h"

namespace weft::path {

class Neighbours;

/// nullptr: no memory. Datagrams for other processes go through `neighbours`, if there are any.
std::unique_ptr<queue::Path> make_direct_path(queue::QueuePair& qp, Directory& directory,
                                              Neighbours* neighbours);

}  // namespace weft::path
