// Posting: the program's work requests become weft's. Lists of memory are passed through as they
// are; nothing is allocated. Any thread.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

/// A bind of that window; the window's key after it, if it is taken.
SendRequest bind_request(Mw& mw, RemoteKey new_key, const ibv_mw_bind_info& info);

}  // namespace weft::shim
