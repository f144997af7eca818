// The target's side of a link between processes: executes one record that an initiator put into its
// ring, with this process's own keys and buffers, and leaves the answer in the record. Everything
// in the record is hostile. Called by whoever polls, under Presence::receive_lock; takes the
// recv_lock of the queue pair.
#pragma once

#include "host/link.h"
#include "path/directory.h"
#include "path/neighbour_record.h"

namespace weft::path {

void serve_record(QueuePairTable& table, const host::Inbound& link,
                  const host::RingConsumer::Taken& taken);

}  // namespace weft::path
