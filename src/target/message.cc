#include "target/message.h"

namespace weft::target {

void notify(queue::QueuePair& qp, queue::ReceiveWqe* buffer, const MessageInfo& message) {
  ReceiveOutcome outcome;
  outcome.op = CompletionOp::kReceiveWriteImmediate;
  outcome.byte_count = message.bytes;
  outcome.solicited = message.solicited;
  outcome.has_immediate = true;
  outcome.immediate = message.immediate;
  outcome.source_qp = message.source_qp;
  complete_receive(qp, buffer, outcome);
}

queue::ReceiveWqe* take_for_datagram(queue::QueuePair& qp, QKey qkey) {
  if (qkey != qp.attributes.qkey) {
    qp.count(obs::Counter::kBadQKey);
    return nullptr;
  }
  queue::ReceiveWqe* const buffer = take_receive(qp);
  if (buffer == nullptr) qp.count(obs::Counter::kDroppedMessages);
  return buffer;
}

}  // namespace weft::target
