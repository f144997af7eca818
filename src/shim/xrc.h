// The operations of a context that concern extended reliable connections (XRC). Any thread.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);

/// One who opened it lets go; true: it was the last.
bool was_last(Qp& qp);
/// What such queue pairs need no value for, although reliable ones do.
int settings_implied(ibv_qp_type type, int given, QpState to);

}  // namespace weft::shim
