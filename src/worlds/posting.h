// The pieces that the random program is made of: a request goes to the queue pair, into the ledger
// and into the record; its data is laid out in slots. Stateless functions over an End; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worlds/end.h"

namespace weft::worlds {

/// Posts the request and remembers the work.
void post(End& from, SendRequest& request, Work work);

/// Puts the content into the work's outbox slot, in pieces that lie apart, and gives the gather
/// list.
std::vector<Sge> gather(End& from, Work& work, std::span<const std::byte> content);

/// The work's landing slot, in one or two elements; granted until the request is over.
std::vector<Sge> land(End& from, Work& work);

/// Up to `most`; lengths around the edges of frames are the interesting ones.
std::uint32_t draw_length(End& from, std::uint32_t most);

/// An I/O adapter does not.
bool peer_serves_rdma(const End& from);

/// A message; `too_long` for the peer's buffers on purpose. False: there was no room.
bool post_message(End& from, SendOp op, bool too_long);

/// One random request that must be refused, by the peer or by the own controller.
bool post_mischief(End& from);

/// One random piece of work on the end's own memory: windows bound and unbound through the send
/// queue, regions registered and taken back under traffic, keys that serve once.
bool do_owner_work(End& end);

}  // namespace weft::worlds
