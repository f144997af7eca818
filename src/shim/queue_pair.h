// The operations of a context that concern queue pairs. Any thread.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

inline ibv_mtu shown_mtu(Mtu mtu) {
  unsigned code = IBV_MTU_256;
  while ((128u << code) < bytes(mtu)) ++code;
  return static_cast<ibv_mtu>(code);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);

}  // namespace weft::shim
