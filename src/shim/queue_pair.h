// The operations of a context that concern queue pairs. Any thread.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);

}  // namespace weft::shim
