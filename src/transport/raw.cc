#include "transport/raw.h"

#include "memory/copy.h"
#include "memory/flight.h"
#include "queue/receive_fanout.h"
#include "queue/scatter.h"
#include "queue/sge_list.h"
#include "target/receive.h"
#include "transport/local_work.h"

namespace weft::transport {
namespace {

using queue::QueuePair;

CompletionStatus copy_message(QueuePair& qp, const queue::SendWqe& wqe, std::span<std::byte> room) {
  if (wqe.is_inline()) {
    std::copy_n(wqe.inline_bytes(), wqe.length, room.begin());
    return CompletionStatus::kSuccess;
  }
  const auto status = queue::for_each_part(
      wqe.sge_list(), 0, wqe.length,
      [&](const Sge& sge, std::uint64_t at, std::uint64_t part, std::uint64_t done) {
        const auto place = qp.shared->keys->check_local(
            sge.lkey, qp.pd, sge.address + at, part, memory::Intent::kRead, memory::Hold::kLocal);
        if (!place) return CompletionStatus::kLocalProtectionError;
        if (memory::load(room.subspan(done, part), *place) == memory::Fault::kNone) {
          return CompletionStatus::kSuccess;
        }
        qp.count(obs::Counter::kVanishedMemory);
        return CompletionStatus::kLocalProtectionError;
      });
  memory::Flight::clear(memory::Hold::kLocal);
  return status;
}

}  // namespace

void start(RawRequester& rq, const QueuePair& qp) {
  rq = {};
  rq.cursor = qp.sq.head();
}

std::optional<RawMessage> next_message(RawRequester& rq, QueuePair& qp, Nanoseconds now,
                                       std::span<std::byte> room) {
  if (!may_transmit(qp, rq.cursor, now, rq.delay_until)) return std::nullopt;
  queue::SendWqe& wqe = qp.sq.at(rq.cursor);
  const CompletionStatus status =
      wqe.length > room.size() ? CompletionStatus::kLocalLengthError : copy_message(qp, wqe, room);
  if (status != CompletionStatus::kSuccess) {
    wqe.finished = true;
    wqe.status = status;
    if (rq.cursor == qp.sq.head()) stop_send_queue(qp, status);
    return std::nullopt;
  }
  return RawMessage{rq.cursor++, wqe.length};
}

void on_sent(RawRequester& rq, QueuePair& qp) { retire_sent(qp, rq.cursor); }

void on_busy(RawRequester& rq, QueuePair& qp, std::uint32_t element) {
  // It may have been flushed meanwhile.
  if (element - qp.sq.head() < qp.sq.tail() - qp.sq.head()) rq.cursor = element;
}

void stop(RawRequester& rq, QueuePair& qp) {
  rq.cursor = qp.sq.tail();
  rq.delay_until = kNever;
}

void on_raw(QueuePair& qp, const wire::RawPacket& headers, std::span<const std::byte> message) {
  if (!qp.can_receive()) return qp.count(obs::Counter::kWrongState);
  if (qp.fanout != nullptr) qp.fanout->select(qp, headers);
  target::ReceiveOutcome outcome;
  outcome.byte_count = static_cast<std::uint32_t>(message.size());
  queue::ReceiveQueue::Single single;
  if (target::take_single(qp, &single)) {
    outcome.status = queue::scatter(qp, {&single.sge, 1}, 0, message);
    return target::complete_receive(qp, single.wr_id, outcome);
  }
  queue::ReceiveWqe* const buffer = target::take_receive(qp);
  if (buffer == nullptr) return qp.count(obs::Counter::kDroppedMessages);
  outcome.status = queue::scatter(qp, buffer->sges(), 0, message);
  target::complete_receive(qp, buffer, outcome);
}

}  // namespace weft::transport
