// Fast paths: runs of requests, and frames that arrive, which are as most are. Whatever is out
// of the ordinary is left to the general path, which does all of this too.
#include <algorithm>

#include "base/big_endian.h"
#include "memory/copy.h"
#include "memory/flight.h"
#include "queue/scatter.h"
#include "target/remote_access.h"
#include "transport/gather.h"
#include "transport/message.h"
#include "transport/rc.h"
#include "transport/rc_stream.h"

namespace weft::transport {

using queue::QueuePair;
using queue::SendWqe;

std::size_t fast_short_sends(RcRequester& rq, QueuePair& qp, Nanoseconds now,
                             std::span<network::OutFrame> frames) {
  if (rq.offset != 0 || !rq.stream.may_send_new(now) ||
      qp.state.load(std::memory_order_acquire) != QpState::kReadyToSend) {
    return 0;
  }
  const std::uint32_t mtu = mtu_of(qp);
  std::size_t n = 0;
  for (; n < frames.size() && rq.cursor != qp.sq.tail(); ++n) {
    SendWqe& wqe = qp.sq.at(rq.cursor);
    const Psn psn = rq.stream.next();
    if (wqe.op != SendOp::kSend || wqe.started || wqe.finished || wqe.length > mtu ||
        has(wqe.flags, SendFlags::kFence) || !rq.stream.fits(psn, 1) ||
        !memory::Flight::has_room_to_keep(network::kMaxSge)) {
      break;
    }
    network::OutFrame& frame = frames[n];
    if (gather(qp, wqe, 0, wqe.length, frame) != CompletionStatus::kSuccess) {
      frame.release();
      break;
    }
    wqe.started = true;
    wqe.first_psn = rq.stream.take_numbers(1);
    begin_frame(qp, psn, frame);
    frame.headers.bth.opcode = wire::Opcode::kRcSendOnly;
    frame.headers.bth.solicited = has(wqe.flags, SendFlags::kSolicited);
    frame.headers.bth.ack_request = rq.stream.asks(psn, end_of(qp, wqe), now);
    frame.finish();
    frame.element = rq.cursor++;
  }
  if (n > 0) rq.stream.on_sent(rq.stream.next(), settings_of(qp), now);
  return n;
}

std::size_t fast_middles(RcRequester& rq, QueuePair& qp, Nanoseconds now,
                         const network::OutFrame& before, std::span<network::OutFrame> frames) {
  const wire::OpcodeInfo& info = before.headers.info();
  if (info.is_last_or_only() || rq.offset == 0 || before.element != rq.cursor) return 0;
  const SendWqe& wqe = qp.sq.at(rq.cursor);
  if (wqe.num_sge != 1 || wqe.is_inline() || wqe.finished) return 0;
  const std::uint32_t mtu = mtu_of(qp);
  const Psn first = before.headers.bth.psn + 1;
  if (first.distance_from(wqe.first_psn) * mtu != rq.offset) return 0;  // it was a probe
  const std::uint32_t room = rq.stream.room(first);
  const std::uint32_t left = (wqe.length - rq.offset - 1) / mtu;  // without the last one
  const auto n =
      static_cast<std::uint32_t>(std::min<std::size_t>(frames.size(), std::min(room, left)));
  if (n == 0) return 0;
  const Sge& sge = wqe.sge_list().front();
  const auto place = qp.shared->keys->keep_local(sge.lkey, qp.pd, sge.address + rq.offset,
                                                 std::uint64_t{n} * mtu, memory::Intent::kRead);
  // The ordinary way finds out where it ends.
  if (!place || !place->vmm->identity()) return 0;
  const bool is_write = info.operation == wire::Operation::kWrite;
  wire::Bth common = before.headers.bth;
  common.opcode =
      in_service(qp, is_write ? wire::Opcode::kRcWriteMiddle : wire::Opcode::kRcSendMiddle);
  for (std::uint32_t i = 0; i < n; ++i) {
    const Psn psn = first + i;
    network::OutFrame& frame = frames[i];
    frame.headers.bth = common;
    frame.headers.rdeth = before.headers.rdeth;
    frame.headers.deth = before.headers.deth;
    frame.headers.bth.psn = psn;
    frame.headers.bth.ack_request = rq.stream.asks(psn, StreamSender::Frame::kInside, now);
    frame.element = rq.cursor;
    frame.set_piece(reinterpret_cast<std::byte*>(place->address) + std::size_t{i} * mtu, mtu);
  }
  rq.offset += n * mtu;
  rq.stream.on_sent(first + n, settings_of(qp), now);
  return n;
}

namespace {

using Message = RcResponder::Message;

/// A frame in the middle of a write that goes on behind it. What it does not store the code for all
/// frames refuses, and counts.
bool store_middle(RcResponder& rs, QueuePair& qp, std::span<const std::byte> payload) {
  if (rs.message != Message::kWrite || rs.write_length - rs.offset <= payload.size()) return false;
  const memory::Flight::Adopted<memory::Hold::kRemote> flight;
  const auto place = target::open(qp, {rs.write_key, rs.write_address + rs.offset, payload.size(),
                                       payload.size(), Access::kRemoteWrite, rs.write_use});
  return place && memory::store(*place, payload) == memory::Fault::kNone;
}

bool scatter_middle(RcResponder& rs, QueuePair& qp, std::span<const std::byte> payload) {
  return rs.message == Message::kSend && rs.receive != nullptr &&
         rs.offset + payload.size() < kMaxMessageBytes &&
         queue::try_scatter(qp, rs.receive->sges(), rs.offset, payload) ==
             CompletionStatus::kSuccess;
}

/// A whole message, for a buffer in one piece.
bool take_short(RcResponder& rs, QueuePair& qp, std::span<const std::byte> payload) {
  if (rs.message != Message::kNone || !rs.heard_from_peer || qp.shared_receive != nullptr ||
      payload.size() > mtu_of(qp) || payload.size() % 4 != 0) {
    return false;
  }
  std::uint64_t wr_id = 0;
  const bool filled = qp.rq->fill_single([&](std::uint64_t id, const Sge& sge) {
    wr_id = id;
    return queue::try_scatter(qp, {&sge, 1}, 0, payload) == CompletionStatus::kSuccess;
  });
  if (!filled) return false;
  qp.recv_cq->emplace(false, [&](Completion& completion) {
    completion = {};
    completion.wr_id = wr_id;
    completion.op = CompletionOp::kReceive;
    completion.byte_count = static_cast<std::uint32_t>(payload.size());
    completion.qpn = qp.qpn;
    completion.source_qp = qp.attributes.remote_qpn;
  });
  return true;
}

/// Of the BTH's first word: neither solicited nor padded, version 0, and which partition.
constexpr std::uint32_t kPlainMask = 0x00BF'FFFF;

}  // namespace

bool fast_on_request(RcResponder& rs, QueuePair& qp, std::span<const std::byte> packet) {
  const auto first = base::load_be<std::uint32_t>(packet.data());
  const auto third = base::load_be<std::uint32_t>(packet.data() + 8);
  if ((first & kPlainMask) != kDefaultPKey.value || !rs.stream.expects(Psn(third)) ||
      !qp.can_receive()) {
    return false;
  }
  const auto payload = packet.subspan(wire::Bth::kSize);
  const auto opcode = static_cast<wire::Opcode>(first >> 24);
  const bool whole = opcode == wire::Opcode::kRcSendOnly;
  if (whole) {
    if (!take_short(rs, qp, payload)) return false;
  } else {
    if (payload.size() != mtu_of(qp)) return false;
    if (opcode == wire::Opcode::kRcWriteMiddle) {
      if (!store_middle(rs, qp, payload)) return false;
    } else if (opcode != wire::Opcode::kRcSendMiddle || !scatter_middle(rs, qp, payload)) {
      return false;
    }
    rs.offset += static_cast<std::uint32_t>(payload.size());
  }
  rs.stream.accept(whole, third >> 31 != 0 || acknowledges_each(qp.attributes));
  return true;
}

}  // namespace weft::transport
