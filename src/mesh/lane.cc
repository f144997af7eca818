#include "mesh/lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::mesh {
namespace {

/// A mesh that has no room for a notice is tried so often, each after 82 ms.
constexpr std::uint8_t kNoticeTries = 6, kNoticeTimer = 26;

bool same(const Mark& a, const Mark& b) { return a.link == b.link && a.serial == b.serial; }

}  // namespace

Result<std::unique_ptr<Lane>> Lane::open(const verbs::ProtectionDomain& pd,
                                         const verbs::CompletionQueue& cq,
                                         const verbs::SharedReceiveQueue& receives,
                                         const Options& options, std::uint32_t depth) {
  verbs::QueuePairOptions shape;
  shape.service = Service::kReliableDatagram;
  shape.limits = {.max_send_wr = depth,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_bytes = Note::kBytes};
  shape.shared_receive = &receives;
  auto qp = pd.create_queue_pair(cq, cq, shape);
  if (!qp) return tl::unexpected(std::move(qp.error()));
  QueuePairAttributes attributes;
  attributes.port = options.port;
  attributes.timeout = options.timeout;
  attributes.retry_count = options.retry_count;
  attributes.rnr_retry = kNoticeTries;
  attributes.min_rnr_timer = kNoticeTimer;
  if (auto ok = qp->activate(options.qkey, attributes); !ok) {
    return tl::unexpected(std::move(ok.error()));
  }
  return std::unique_ptr<Lane>(new Lane(std::move(*qp), options.qkey, depth));
}

bool Lane::submit(const LaneWork& work) {
  if (waiting_.empty() && has_room()) return post(work);
  Waiting& added = waiting_.emplace_back();
  added.work = work;
  std::copy(work.inlined.begin(), work.inlined.end(), added.bytes.begin());
  return !failed_;
}

bool Lane::flush() {
  if (waiting_.empty() || !has_room()) return false;
  while (!waiting_.empty() && has_room()) {
    Waiting& first = waiting_.front();
    first.work.inlined = {first.bytes.data(), first.work.inlined.size()};
    post(first.work);
    waiting_.pop_front();
  }
  return true;
}

void Lane::drop(const Mark& whose) {
  std::erase_if(waiting_, [&](const Waiting& one) { return same(one.work.mark, whose); });
}

bool Lane::has_waiting(const Mark& whose) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& one) { return same(one.work.mark, whose); });
}

bool Lane::post(const LaneWork& work) {
  SendRequest request;
  request.wr_id = ++posted_;
  request.op = work.op;
  const bool signaled = work.signaled || posted_ - signaled_ >= depth_ / 4;
  request.flags = signaled ? SendFlags::kSignaled : SendFlags::kNone;
  Sge sge = work.sge;
  if (!work.inlined.empty()) {
    request.flags = request.flags | SendFlags::kInline;
    sge.address = reinterpret_cast<std::uint64_t>(work.inlined.data());
    sge.length = static_cast<std::uint32_t>(work.inlined.size());
  }
  if (sge.length > 0) request.sges = {&sge, 1};
  request.immediate = work.immediate;
  request.remote = work.remote;
  request.destination.gid = work.to.gid;
  request.destination_qpn = work.to.qpn;
  request.destination_qkey = qkey_;
  marks_[posted_ % depth_] = work.mark;
  if (!qp_.post_send(request)) {
    failed_ = true;
    --posted_;
    return false;
  }
  if (signaled) signaled_ = posted_;
  return true;
}

std::optional<Mark> Lane::on_completion(std::uint64_t wr_id) {
  if (wr_id <= completed_ || wr_id > posted_) return std::nullopt;
  completed_ = wr_id;
  return marks_[wr_id % depth_];
}

bool Lane::is_through() {
  ask_for(posted_);
  return waiting_.empty() && done(posted_);
}

// Work that only this queue pair does, behind all that was posted.
void Lane::ask_for(std::uint64_t number) {
  if (signaled_ >= number || done(number) || !waiting_.empty() || !has_room()) return;
  LaneWork nothing;
  nothing.op = SendOp::kDelay;
  nothing.signaled = true;
  post(nothing);
}

}  // namespace weft::mesh
