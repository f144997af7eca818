// A program for libibverbs that fails as it is told to, to see what each failure looks like:
//
//   weft run --explain -- example_failures 12
//
// It connects two queue pairs of its own, asks one of them for something wrong, and prints the
// status of the completion.
#include <infiniband/verbs.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

constexpr unsigned kLength = 64;

struct Connection {
  ibv_pd* domain;
  ibv_cq* completions;
  ibv_qp *here, *there;
  std::array<char, 2 * kLength> sent{}, received{};
  ibv_mr *source, *target;
};

template <class T>
T* must(T* made, const char* call) {
  if (made == nullptr) std::perror(call), std::exit(2);
  return made;
}

void must(int error, const char* call) {
  if (error != 0) std::fprintf(stderr, "%s: error %d\n", call, error), std::exit(2);
}

ibv_qp* make_queue_pair(const Connection& c) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = c.completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.sq_sig_all = 1;
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = 4;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  return must(ibv_create_qp(c.domain, &wanted), "ibv_create_qp");
}

/// From RESET to RTS. `rnr_retry`: how often a receiver that is not ready is tried again; 7 is
/// without end.
void connect(ibv_qp* from, const ibv_qp* to, std::uint8_t rnr_retry) {
  ibv_qp_attr a{};
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = to->qp_num;
  a.min_rnr_timer = 12;
  a.max_rd_atomic = a.max_dest_rd_atomic = 1;
  a.timeout = 10;
  a.retry_cnt = 3;
  a.rnr_retry = rnr_retry;
  a.ah_attr.is_global = 1;
  a.ah_attr.port_num = 1;
  must(ibv_query_gid(from->context, 1, 0, &a.ah_attr.grh.dgid), "ibv_query_gid");
  const std::array<std::pair<ibv_qp_state, int>, 3> moves{{
      {IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
      {IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
      {IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC},
  }};
  for (const auto& [state, mask] : moves) {
    a.qp_state = state;
    must(ibv_modify_qp(from, &a, mask | IBV_QP_STATE), "ibv_modify_qp");
  }
}

void open_device(Connection& c) {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  if (devices == nullptr || devices[0] == nullptr) {
    std::puts("no RDMA device: start it with weft run");
    std::exit(2);
  }
  ibv_context* const context = must(ibv_open_device(devices[0]), "ibv_open_device");
  ibv_free_device_list(devices);
  c.domain = must(ibv_alloc_pd(context), "ibv_alloc_pd");
  c.completions = must(ibv_create_cq(context, 16, nullptr, nullptr, 0), "ibv_create_cq");
  c.here = make_queue_pair(c);
  c.there = make_queue_pair(c);
  // Half of each array: what lies behind it is memory of the program, and not for its peers.
  c.source = must(ibv_reg_mr(c.domain, c.sent.data(), kLength, 0), "ibv_reg_mr");
  c.target = must(ibv_reg_mr(c.domain, c.received.data(), kLength,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                  "ibv_reg_mr");
}

void post(Connection& c, ibv_wr_opcode what, unsigned length, std::uint64_t into) {
  ibv_sge from{reinterpret_cast<std::uintptr_t>(c.sent.data()), length, c.source->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = 1;
  request.sg_list = &from;
  request.num_sge = 1;
  request.opcode = what;
  request.wr.rdma = {into, c.target->rkey};
  must(ibv_post_send(c.here, &request, &bad), "ibv_post_send");
}

void post_receive(Connection& c, unsigned length) {
  ibv_sge into{reinterpret_cast<std::uintptr_t>(c.received.data()), length, c.target->lkey};
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = 2;
  request.sg_list = &into;
  request.num_sge = 1;
  must(ibv_post_recv(c.there, &request, &bad), "ibv_post_recv");
}

/// False: no such failure.
bool ask_for(Connection& c, const std::string& failure) {
  const auto target = reinterpret_cast<std::uintptr_t>(c.received.data());
  if (failure == "4") {  // the local list reaches beyond its region
    post(c, IBV_WR_RDMA_WRITE, kLength + 1, target);
  } else if (failure == "9") {  // the message is longer than the receive buffer
    post_receive(c, kLength / 2);
    post(c, IBV_WR_SEND, kLength, 0);
  } else if (failure == "10") {  // the write ends one byte behind the peer's region
    post(c, IBV_WR_RDMA_WRITE, kLength, target + 1);
  } else if (failure == "12") {  // the peer's queue pair is gone
    ibv_destroy_qp(std::exchange(c.there, nullptr));
    post(c, IBV_WR_RDMA_WRITE, kLength, target);
  } else if (failure == "13" || failure == "hang") {  // nobody posted a receive buffer
    post(c, IBV_WR_SEND, kLength, 0);
  } else {
    return false;
  }
  return true;
}

int main(int count, char** arguments) {
  const std::string failure = count == 2 ? arguments[1] : "";
  Connection c{};
  open_device(c);
  connect(c.here, c.there, failure == "hang" ? 7 : 1);
  connect(c.there, c.here, 7);
  if (!ask_for(c, failure)) {
    std::puts("which failure? 4, 9, 10, 12, 13 or hang");
    return 2;
  }
  ibv_wc done{};
  do {
    while (ibv_poll_cq(c.completions, 1, &done) == 0) {
    }
  } while (done.wr_id != 1);
  std::printf("status %d: %s\n", done.status, ibv_wc_status_str(done.status));
  return done.status == IBV_WC_SUCCESS ? 0 : 1;
}
