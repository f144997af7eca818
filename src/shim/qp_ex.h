// The other way to post: wr_start, one call for each part of a request, wr_complete.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

/// What send_ops_flags may ask for on a queue pair of that kind.
std::uint64_t offered_operations(ibv_qp_type type);

/// Sets all functions of the queue pair; none stays null.
void set_posting(Qp& qp);

}  // namespace weft::shim
