// Flow steering (ibv_create_flow): which packets a raw queue pair receives. Any thread.
#pragma once

#include "shim/objects.h"

namespace weft::shim {

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr);
int destroy_flow(ibv_flow* flow);

}  // namespace weft::shim
