#include "transport/message.h"

#include <algorithm>

#include "transport/gather.h"

namespace weft::transport {

CompletionStatus build_message_frame(queue::QueuePair& qp, const queue::SendWqe& wqe,
                                     wire::Service service, std::uint32_t offset, Psn psn,
                                     network::OutFrame& frame, bool* last) {
  const std::uint32_t n = std::min(bytes(qp.attributes.path_mtu), wqe.length - offset);
  const bool is_first = offset == 0;
  const bool is_last = offset + n == wqe.length;
  const bool is_write = wqe.op == SendOp::kWrite || wqe.op == SendOp::kWriteImmediate;
  const bool immediate =
      is_last && (wqe.op == SendOp::kSendImmediate || wqe.op == SendOp::kWriteImmediate);
  const bool invalidate = is_last && wqe.op == SendOp::kSendInvalidate;
  begin_request(qp, wqe, psn, frame);
  wire::Packet& headers = frame.headers;
  headers.bth.opcode =
      wire::make_opcode(service, is_write ? wire::Operation::kWrite : wire::Operation::kSend,
                        position_of(is_first, is_last), immediate, invalidate);
  headers.bth.solicited = is_last && has(wqe.flags, SendFlags::kSolicited);
  if (is_write && is_first) {
    headers.reth = {wqe.rdma.remote.address, wqe.rdma.remote.key, wqe.length};
  }
  headers.immediate = wqe.immediate;
  headers.invalidate_key = RemoteKey(wqe.immediate);
  const CompletionStatus status = gather(qp, wqe, offset, n, frame);
  if (status != CompletionStatus::kSuccess) {
    frame.release();
    return status;
  }
  frame.finish();
  *last = is_last;
  return CompletionStatus::kSuccess;
}

CompletionStatus run_local(queue::QueuePair& qp, queue::SendWqe& wqe) {
  memory::KeyTable& keys = *qp.shared->keys;
  if (wqe.op == SendOp::kLocalInvalidate) {
    return keys.invalidate(RemoteKey(wqe.immediate), qp.pd, qp.qpn)
               ? CompletionStatus::kSuccess
               : CompletionStatus::kLocalQpOperationError;
  }
  const WindowBinding& bind = wqe.bind;
  return keys.bind({.window = bind.window,
                    .new_tag = bind.new_tag,
                    .region = bind.region,
                    .address = bind.address,
                    .length = bind.length,
                    .access = bind.access,
                    .pd = qp.pd,
                    .qpn = qp.qpn})
             ? CompletionStatus::kSuccess
             : CompletionStatus::kWindowBindError;
}

}  // namespace weft::transport
