// A memory barrier that one thread executes for all threads of the process, so that those on a
// fast path need none. Any thread; costs some microseconds.
#pragma once

namespace weft::base {

/// False where the kernel has no membarrier or refuses it.
bool can_order_threads();

/// Every other thread of the process has stored what it stored before some point of its own, and
/// loads what it loads behind that point after this call.
void order_all_threads();

}  // namespace weft::base
