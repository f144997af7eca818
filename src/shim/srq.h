// The operations of a context that concern shared receive queues. Any thread.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* first, ibv_recv_wr** bad);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);

}  // namespace weft::shim
