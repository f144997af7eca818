// The objects of a program that sleeps on completion channels, through libibverbs' ABI alone. One
// that cannot be had or will not go ends the partner (support/partner.h) in which it lives. One
// thread at a time for each.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "support/partner.h"

namespace weft::test {

inline constexpr int kWaitingRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

struct Opened {
  Opened() {
    ibv_device** list = ibv_get_device_list(nullptr);
    WEFT_REQUIRE(list != nullptr && list[0] != nullptr);
    context = ibv_open_device(list[0]);
    WEFT_REQUIRE(context);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    WEFT_REQUIRE(pd);
  }
  ~Opened() {
    WEFT_REQUIRE(ibv_dealloc_pd(pd) == 0);
    WEFT_REQUIRE(ibv_close_device(context) == 0);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
};

struct Channel {
  explicit Channel(const Opened& opened) : shown(ibv_create_comp_channel(opened.context)) {
    WEFT_REQUIRE(shown);
  }
  ~Channel() { WEFT_REQUIRE(ibv_destroy_comp_channel(shown) == 0); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  int fd() const { return shown->fd; }

  ibv_comp_channel* const shown;
};

struct Queue {
  Queue(const Opened& opened, const Channel& channel)
      : shown(ibv_create_cq(opened.context, 1024, this, channel.shown, 0)) {
    WEFT_REQUIRE(shown);
  }
  ~Queue() { WEFT_REQUIRE(ibv_destroy_cq(shown) == 0); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void arm(bool solicited_only = false) const {
    WEFT_REQUIRE(ibv_req_notify_cq(shown, solicited_only ? 1 : 0) == 0);
  }
  bool poll(ibv_wc* wc) const {
    const int n = ibv_poll_cq(shown, 1, wc);
    WEFT_REQUIRE(n >= 0);
    return n == 1;
  }
  /// The next completion of a program that spins.
  ibv_wc spin() const {
    ibv_wc wc{};
    while (!poll(&wc)) {
    }
    return wc;
  }

  ibv_cq* const shown;
};

/// Where a connection is, and memory that its peer may use.
struct WaitingEnd {
  std::uint32_t qpn;
  ibv_gid gid;
  std::uint64_t address;
  std::uint32_t rkey;
};

/// A reliable connection with memory of its own: messages of eight bytes, each in the next slot.
class Connection {
 public:
  static constexpr std::uint32_t kSlots = 64;
  static constexpr std::uint32_t kBytes = 8;
  static constexpr std::uint64_t kSent = std::uint64_t{1} << 63;  ///< in wr_id: not a receive

  Connection(const Opened& opened, const Queue& sends, const Queue& receives)
      : context_(opened.context), memory_(3 * kSlots) {
    mr_ = ibv_reg_mr(opened.pd, memory_.data(), memory_.size() * kBytes, kWaitingRights);
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = sends.shown;
    init.recv_cq = receives.shown;
    init.sq_sig_all = 1;
    init.cap.max_send_wr = init.cap.max_recv_wr = 2 * kSlots;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp_ = ibv_create_qp(opened.pd, &init);
    WEFT_REQUIRE(mr_ != nullptr && qp_ != nullptr);
  }
  Connection(const Opened& opened, const Queue& queue) : Connection(opened, queue, queue) {}
  ~Connection() {
    WEFT_REQUIRE(ibv_destroy_qp(qp_) == 0);
    WEFT_REQUIRE(ibv_dereg_mr(mr_) == 0);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// With half of its slots posted as receive buffers.
  void connect(const Wire& peer) {
    WaitingEnd mine{
        qp_->qp_num, {}, reinterpret_cast<std::uint64_t>(&memory_[2 * kSlots]), mr_->rkey};
    WEFT_REQUIRE(ibv_query_gid(context_, 1, 0, &mine.gid) == 0);
    peer.put(mine);
    theirs_ = peer.get<WaitingEnd>();
    to_ready();
    for (std::uint32_t i = 0; i < kSlots / 2; ++i) post_receive();
    peer.sync();
  }

  void post_receive(std::uint32_t bytes = kBytes) {
    const std::uint64_t slot = posted_++ % kSlots;
    ibv_sge sge = at(slot, bytes);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = slot;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    WEFT_REQUIRE(ibv_post_recv(qp_, &wr, &bad) == 0);
  }
  void send(std::uint64_t value, unsigned flags = 0) {
    const std::uint64_t slot = kSlots + sent_++ % kSlots;
    memory_[slot] = value;
    post(IBV_WR_SEND, at(slot), flags);
  }
  /// More than the peer's buffers hold: both sides fail.
  void send_too_long() { post(IBV_WR_SEND, at(kSlots, 2 * kBytes)); }
  void write(std::uint64_t value) {
    memory_[kSlots] = value;
    post(IBV_WR_RDMA_WRITE, at(kSlots));
  }
  void read() { post(IBV_WR_RDMA_READ, at(kSlots + 1)); }
  std::uint64_t was_read() const { return memory_[kSlots + 1]; }
  void add() { post(IBV_WR_ATOMIC_FETCH_AND_ADD, at(kSlots + 2)); }

  /// What has come with this completion of a receive; its buffer is posted again.
  std::uint64_t take(const ibv_wc& wc) {
    WEFT_REQUIRE(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id < kSlots);
    const std::uint64_t value = memory_[wc.wr_id];
    post_receive();
    return value;
  }
  static bool is_receive(const ibv_wc& wc) { return (wc.wr_id & kSent) == 0; }
  std::uint32_t number() const { return qp_->qp_num; }

 private:
  ibv_sge at(std::uint64_t slot, std::uint32_t bytes = kBytes) {
    return {reinterpret_cast<std::uint64_t>(&memory_[slot]), bytes, mr_->lkey};
  }
  void post(ibv_wr_opcode op, ibv_sge sge, unsigned flags = 0) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = kSent;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = op;
    wr.send_flags = flags;
    if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = theirs_.address;
      wr.wr.atomic.rkey = theirs_.rkey;
      wr.wr.atomic.compare_add = 1;
    } else {
      wr.wr.rdma.remote_addr = theirs_.address;
      wr.wr.rdma.rkey = theirs_.rkey;
    }
    WEFT_REQUIRE(ibv_post_send(qp_, &wr, &bad) == 0);
  }
  void to_ready() const {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = kWaitingRights;
    attr.qp_state = IBV_QPS_INIT;
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
    WEFT_REQUIRE(ibv_modify_qp(qp_, &attr, kInit) == 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = theirs_.qpn;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = theirs_.gid;
    constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    WEFT_REQUIRE(ibv_modify_qp(qp_, &attr, kRtr) == 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 19;  // two seconds: a process that gets no time is not lost
    attr.retry_cnt = attr.rnr_retry = 7;
    constexpr int kRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    WEFT_REQUIRE(ibv_modify_qp(qp_, &attr, kRts) == 0);
  }

  ibv_context* context_;
  std::vector<std::uint64_t> memory_;  // receives, sends, and what the peer may use
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  WaitingEnd theirs_{};
  std::uint64_t posted_ = 0, sent_ = 0;
};

}  // namespace weft::test
