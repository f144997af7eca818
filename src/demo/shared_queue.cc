#include "demo/shared_queue.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace weft::demo {
namespace {

constexpr std::uint32_t kSendDepth = 256, kSignalEvery = 32, kInlineMost = 64;
constexpr std::uint32_t kReadsAtOnce = 4;
/// So many buffers were used, and their sender is told.
constexpr std::uint32_t kCreditEvery = SharedQueue::kBuffers / 8;
constexpr std::uint64_t kReadWork = ~std::uint64_t{0};
constexpr std::size_t kPlaceBytes = std::size_t{1} << 20;

template <class T>
T* made(T* object, const char* what) {
  if (object == nullptr) give_up(std::string("cannot make ") + what);
  return object;
}

}  // namespace

SharedQueue::SharedQueue(Pair& pair) : pair_(pair) {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (count == 0) give_up("no RDMA device");
  context_ = made(ibv_open_device(devices[0]), "a context");
  ibv_free_device_list(devices);
  pd_ = made(ibv_alloc_pd(context_), "a protection domain");
  cq_ = made(ibv_create_cq(context_, 4 * kBuffers, nullptr, nullptr, 0), "a completion queue");
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = kBuffers;
  attributes.attr.max_sge = 1;
  srq_ = made(ibv_create_srq(pd_, &attributes), "a shared receive queue");
  buffers_.resize(std::size_t{kBuffers} * kBufferBytes);
  place_.resize(kPlaceBytes);
  region_ =
      made(ibv_reg_mr(pd_, buffers_.data(), buffers_.size(), IBV_ACCESS_LOCAL_WRITE), "a region");
  place_region_ =
      made(ibv_reg_mr(pd_, place_.data(), place_.size(), IBV_ACCESS_LOCAL_WRITE), "a region");
  for (std::uint32_t i = 0; i < kBuffers; ++i) post_buffer(i);
  connections_.push_back(connect());
}

SharedQueue::~SharedQueue() {
  pair_.meet();
  for (ibv_mr* region : lent_) ibv_dereg_mr(region);
  for (ibv_qp* qp : connections_) ibv_destroy_qp(qp);
  ibv_dereg_mr(place_region_);
  ibv_dereg_mr(region_);
  ibv_destroy_srq(srq_);
  ibv_destroy_cq(cq_);
  ibv_dealloc_pd(pd_);
  ibv_close_device(context_);
}

void SharedQueue::add_connection() { connections_.push_back(connect()); }

ibv_qp* SharedQueue::connect() {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.srq = srq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {kSendDepth, 0, 1, 0, kInlineMost};
  ibv_qp* qp = made(ibv_create_qp(pd_, &attributes), "a queue pair");
  ibv_gid mine{}, theirs{};
  if (ibv_query_gid(context_, 1, 0, &mine) != 0) give_up("the port has no address");
  const auto qpn = static_cast<std::uint32_t>(pair_.exchange(qp->qp_num));
  theirs.global.subnet_prefix = pair_.exchange(mine.global.subnet_prefix);
  theirs.global.interface_id = pair_.exchange(mine.global.interface_id);

  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = 1;
  to.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  bool ok = ibv_modify_qp(
                qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = IBV_MTU_1024;
  to.dest_qp_num = qpn;
  to.max_dest_rd_atomic = kReadsAtOnce;
  to.min_rnr_timer = 1;
  to.ah_attr.is_global = 1;
  to.ah_attr.port_num = 1;
  to.ah_attr.grh.dgid = theirs;
  to.ah_attr.grh.hop_limit = 64;
  ok = ok &&
       ibv_modify_qp(qp, &to,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0;
  to.qp_state = IBV_QPS_RTS;
  to.timeout = 14;
  to.retry_cnt = to.rnr_retry = 7;
  to.max_rd_atomic = kReadsAtOnce;
  ok = ok && ibv_modify_qp(qp, &to,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  if (!ok) give_up("a queue pair cannot be connected");
  pair_.meet();
  return qp;
}

void SharedQueue::post_buffer(std::uint64_t index) {
  ibv_sge element{reinterpret_cast<std::uint64_t>(&buffers_[index * kBufferBytes]), kBufferBytes,
                  region_->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = index;
  wr.sg_list = &element;
  wr.num_sge = 1;
  if (ibv_post_srq_recv(srq_, &wr, &bad) != 0) give_up("a buffer cannot be posted");
}

void SharedQueue::post(Kind kind, std::span<const std::byte> bytes) {
  ibv_sge element{reinterpret_cast<std::uint64_t>(bytes.data()),
                  static_cast<std::uint32_t>(bytes.size()), 0};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &element;
  wr.num_sge = bytes.empty() ? 0 : 1;
  wr.opcode = kind == Kind::kData ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
  wr.imm_data = htonl(static_cast<std::uint32_t>(kind));
  wr.send_flags = IBV_SEND_INLINE;
  if (++posted_ % kSignalEvery == 0) wr.send_flags |= IBV_SEND_SIGNALED;
  while (ibv_post_send(connections_.front(), &wr, &bad) != 0) poll();  // the queue is full
}

void SharedQueue::poll() {
  ibv_wc completions[16];
  const int n = ibv_poll_cq(cq_, std::size(completions), completions);
  for (int i = 0; i < n; ++i) take(completions[i]);
  if (owed_ < kCreditEvery) return;
  owed_ -= kCreditEvery;
  post(Kind::kCredit, {});
}

void SharedQueue::take(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) give_up(ibv_wc_status_str(wc.status));
  if ((wc.opcode & IBV_WC_RECV) == 0) {
    if (wc.wr_id == kReadWork) reading_ = false;
    return;
  }
  const auto kind =
      (wc.wc_flags & IBV_WC_WITH_IMM) == 0 ? Kind::kData : static_cast<Kind>(ntohl(wc.imm_data));
  switch (kind) {
    case Kind::kData:
      ++arrived_;
      ++owed_;
      break;
    case Kind::kCredit:
      credit_ += kCreditEvery;
      break;
    case Kind::kOffer:
      std::memcpy(&offers_.emplace_back(), &buffers_[wc.wr_id * kBufferBytes], sizeof(Offer));
      break;
    case Kind::kDone:
      ibv_dereg_mr(lent_.front());
      lent_.pop_front();
      break;
  }
  post_buffer(wc.wr_id);
}

void SharedQueue::send(std::span<const std::byte> message) {
  while (credit_ == 0) poll();
  --credit_;
  post(Kind::kData, message);
}

void SharedQueue::receive() {
  while (arrived_ == 0) poll();
  --arrived_;
}

void SharedQueue::lend(std::span<const std::byte> message, std::size_t under_way) {
  while (lent_.size() > under_way) poll();
  if (message.empty()) return;
  auto* memory = const_cast<std::byte*>(message.data());
  lent_.push_back(
      made(ibv_reg_mr(pd_, memory, message.size(), IBV_ACCESS_REMOTE_READ), "a region"));
  const Offer offer{reinterpret_cast<std::uint64_t>(memory), message.size(), lent_.back()->rkey};
  post(Kind::kOffer, std::as_bytes(std::span(&offer, 1)));
}

void SharedQueue::pull() {
  while (offers_.empty()) poll();
  const Offer offer = offers_.front();
  offers_.pop_front();
  ibv_sge element{reinterpret_cast<std::uint64_t>(place_.data()),
                  static_cast<std::uint32_t>(std::min(offer.length, kPlaceBytes)),
                  place_region_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = kReadWork;
  wr.sg_list = &element;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = offer.address;
  wr.wr.rdma.rkey = offer.key;
  reading_ = true;
  while (ibv_post_send(connections_.front(), &wr, &bad) != 0) poll();
  while (reading_) poll();
  post(Kind::kDone, {});
}

}  // namespace weft::demo
