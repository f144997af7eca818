// The tables of functions that a context carries: inline functions of verbs.h go through them.
#include "shim/completion.h"
#include "shim/flow.h"
#include "shim/memory.h"
#include "shim/objects.h"
#include "shim/post.h"
#include "shim/query.h"
#include "shim/queue_pair.h"
#include "shim/receive_wq.h"
#include "shim/srq.h"
#include "shim/thread_sanitizer.h"
#include "shim/xrc.h"

namespace weft::shim {

void set_operations(Context& context) {
  verbs_context& abi = context.abi;
  abi.sz = sizeof abi;
  abi.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  // What is null here is not offered: verbs.h then answers EOPNOTSUPP by itself.
  abi.query_port = query_port;
  abi.advise_mr = advise_mr;
  abi.alloc_dm = alloc_dm;
  abi.free_dm = free_dm;
  abi.reg_dm_mr = reg_dm_mr;
  abi.query_rt_values = query_rt_values;
  abi.alloc_parent_domain = alloc_parent_domain;
  abi.alloc_td = alloc_td;
  abi.dealloc_td = dealloc_td;
  abi.create_cq_ex = create_cq_ex;
  abi.query_device_ex = query_device_ex;
  abi.create_qp_ex = create_qp_ex;
  abi.get_srq_num = get_srq_num;
  abi.create_srq_ex = create_srq_ex;
  abi.open_xrcd = open_xrcd;
  abi.close_xrcd = close_xrcd;
  abi.open_qp = open_qp;
  abi.ibv_create_flow = create_flow;
  abi.ibv_destroy_flow = destroy_flow;
  abi.create_wq = create_wq;
  abi.modify_wq = modify_wq;
  abi.destroy_wq = destroy_wq;
  abi.create_rwq_ind_table = create_rwq_ind_table;
  abi.destroy_rwq_ind_table = destroy_rwq_ind_table;
  ibv_context_ops& ops = abi.context.ops;
  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  tell_thread_sanitizer(ops);
}

}  // namespace weft::shim
