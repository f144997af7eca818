// A library for tests, to be preloaded before a device: counts the calls of librdmacm and
// libibverbs that a connection needs, and lets one of them fail (failing_calls.h).
#include "system/failing_calls.h"

#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>

#include "support/next_function.h"

namespace {

std::atomic<int> calls_left{-1};
std::atomic<const char*> failed{nullptr};

bool fails(const char* name) {
  if (calls_left.load() < 0 || calls_left.fetch_sub(1) != 0) return false;
  failed = name;
  errno = ENOMEM;
  return true;
}

}  // namespace

void weft_test_fail_call(int number) {
  failed = nullptr;
  calls_left = number;
}

const char* weft_test_failed_call() { return failed; }

// The header has macros of these names.
#undef ibv_reg_mr

#define FAILING(type, failure, name, parameters, arguments)        \
  extern "C" [[gnu::visibility("default")]] type name parameters { \
    if (fails(#name)) return failure;                              \
    return weft::test::next<type parameters>(#name) arguments;     \
  }

FAILING(int, -1, rdma_create_id,
        (rdma_event_channel * channel, rdma_cm_id** id, void* context, rdma_port_space space),
        (channel, id, context, space))
FAILING(int, -1, rdma_resolve_addr, (rdma_cm_id * id, sockaddr* from, sockaddr* to, int timeout_ms),
        (id, from, to, timeout_ms))
FAILING(int, -1, rdma_resolve_route, (rdma_cm_id * id, int timeout_ms), (id, timeout_ms))
FAILING(int, -1, rdma_create_qp, (rdma_cm_id * id, ibv_pd* pd, ibv_qp_init_attr* attributes),
        (id, pd, attributes))
FAILING(int, -1, rdma_connect, (rdma_cm_id * id, rdma_conn_param* with), (id, with))
FAILING(int, -1, rdma_accept, (rdma_cm_id * id, rdma_conn_param* with), (id, with))
FAILING(int, ENOMEM, ibv_query_device, (ibv_context * context, ibv_device_attr* attributes),
        (context, attributes))
FAILING(ibv_pd*, nullptr, ibv_alloc_pd, (ibv_context * context), (context))
FAILING(ibv_comp_channel*, nullptr, ibv_create_comp_channel, (ibv_context * context), (context))
FAILING(ibv_cq*, nullptr, ibv_create_cq,
        (ibv_context * context, int cqe, void* user, ibv_comp_channel* channel, int vector),
        (context, cqe, user, channel, vector))
FAILING(int, ENOMEM, ibv_resize_cq, (ibv_cq * cq, int cqe), (cq, cqe))
FAILING(ibv_srq*, nullptr, ibv_create_srq, (ibv_pd * pd, ibv_srq_init_attr* attributes),
        (pd, attributes))
FAILING(ibv_mr*, nullptr, ibv_reg_mr, (ibv_pd * pd, void* address, std::size_t length, int access),
        (pd, address, length, access))
FAILING(ibv_mr*, nullptr, ibv_reg_mr_iova2,
        (ibv_pd * pd, void* address, std::size_t length, std::uint64_t iova, unsigned access),
        (pd, address, length, iova, access))
