// What libibverbs' ABI costs over the C++ API: the same 8-byte RDMA write inside one process,
// posted and polled both ways. The difference of the two rows is the shim's share (at most 25 ns,
// which the label says to scripts/collect_bench.py).
#include <benchmark/benchmark.h>
#include <infiniband/verbs.h>
#include <weft/verbs.h>

#include <array>
#include <vector>

namespace {

namespace v = weft::verbs;

void cpp_write(benchmark::State& state) {
  const auto device = v::Device::open().value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(64).value();
  std::vector<std::byte> memory(64);
  const auto region =
      pd.register_memory(memory, weft::Access::kLocalWrite | weft::Access::kRemoteWrite).value();
  auto [qp, peer] = pd.create_connected_pair(cq).value();
  const weft::Sge sge = region.sge(0, 8);
  weft::SendRequest request;
  request.op = weft::SendOp::kWrite;
  request.sges = {&sge, 1};
  request.remote = region.remote(8);
  std::array<weft::Completion, 1> out;
  for (auto _ : state) {
    if (!qp.post_send(request) || cq.poll(out) != 1 || !out[0].ok()) {
      return state.SkipWithError("a write failed");
    }
  }
  state.counters["size"] = 8;
}
BENCHMARK(cpp_write)->Name("write_8B_cpp_api");

struct Program {
  Program() {
    ibv_device** list = ibv_get_device_list(nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    for (ibv_qp*& qp : qps) {
      ibv_qp_init_attr init{};
      init.send_cq = init.recv_cq = cq;
      init.cap = {.max_send_wr = 8,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
      init.qp_type = IBV_QPT_RC;
      qp = ibv_create_qp(pd, &init);
    }
    for (int i = 0; i < 2; ++i) connect(qps[i], qps[1 - i]->qp_num);
  }
  ~Program() {
    for (ibv_qp* qp : qps) ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }

  void connect(ibv_qp* qp, std::uint32_t peer) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid);
    ibv_modify_qp(qp, &attr,
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    ibv_modify_qp(qp, &attr,
                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  std::vector<std::byte> memory = std::vector<std::byte>(64);
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_mr* mr;
  std::array<ibv_qp*, 2> qps;
};

void shim_write(benchmark::State& state) {
  Program program;
  ibv_sge sge{reinterpret_cast<std::uint64_t>(program.memory.data()), 8, program.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = sge.addr + 8;
  wr.wr.rdma.rkey = program.mr->rkey;
  ibv_wc wc;
  for (auto _ : state) {
    if (ibv_post_send(program.qps[0], &wr, &bad) != 0 || ibv_poll_cq(program.cq, 1, &wc) != 1 ||
        wc.status != IBV_WC_SUCCESS) {
      return state.SkipWithError("a write failed");
    }
  }
  state.counters["size"] = 8;
  state.SetLabel("limit=write_8B_cpp_api plus=25 bar=1.0");
}
BENCHMARK(shim_write)->Name("write_8B_libibverbs_abi");

}  // namespace
