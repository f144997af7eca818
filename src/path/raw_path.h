// The path of a raw queue pair: what it posts goes to the switch of its port, what the switch has
// for it comes to its receive queue without this. One transmitter at a time: a thread that finds
// another at it leaves a note. Owned by the queue pair.
#pragma once

#include <memory>

#include "path/raw_switch.h"
#include "queue/path.h"

namespace weft::path {

/// nullptr: no memory.
std::unique_ptr<queue::Path> make_raw_path(RawSwitch& through);

}  // namespace weft::path
