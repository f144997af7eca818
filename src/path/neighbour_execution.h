// One record of an initiator in another process, at work: executes what it asks for with this
// process's own keys and buffers. Everything in the record is hostile. Lives for one record, on the
// stack of whoever serves the link (neighbour_service.h); the recv_lock of the queue pair is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "host/link.h"
#include "memory/copy.h"
#include "memory/flight.h"
#include "path/neighbour_record.h"
#include "queue/ring_receiver.h"
#include "target/message.h"
#include "target/remote_access.h"

namespace weft::path {

class NeighbourExecution {
 public:
  NeighbourExecution(queue::QueuePair& qp, host::Inbound& link,
                     const host::RingConsumer::Taken& taken, queue::RingInbox* inbox)
      : qp_(qp), link_(link), header_(taken.header), record_(*taken.record), inbox_(inbox) {}

  /// Of a connected queue pair.
  Answer connected();

  /// A message that is there as a whole; `last`: the record has no other behind it.
  Answer send_whole(std::span<const std::byte> message, std::uint8_t flags, bool last);
  /// What send_whole() does when all is well and nothing special: false, and nothing done, if not.
  /// deliver(fill) gets who fills the completion in.
  template <class Deliver>
  bool fast_receive(std::span<const std::byte> message, Deliver deliver) {
    if (qp_.path->partial_receive != nullptr || qp_.shared_receive != nullptr) return false;
    std::uint64_t filled = 0;
    const auto fill = [&](std::uint64_t wr_id, const Sge& sge) {
      filled = wr_id;
      return message.size() <= sge.length &&
             inbox_->into.covers(sge.lkey, sge.address, message.size()) &&
             store_where_known(sge, message);
    };
    if (!qp_.rq->fill_single(fill)) return false;
    tell_sender();
    deliver([&](Completion& completion) {
      completion = {};
      completion.wr_id = filled;
      completion.op = CompletionOp::kReceive;
      completion.byte_count = static_cast<std::uint32_t>(message.size());
      completion.qpn = qp_.qpn;
      completion.source_qp = Qpn(header_.source);
    });
    return true;
  }
  /// Of one that takes datagrams.
  void datagram(const Gid& source);

 private:
  Ask ask() const { return static_cast<Ask>(header_.kind); }
  bool flagged(std::uint8_t flag) const { return (header_.flags & flag) != 0; }

  /// All went well, and the program is about to see it: whoever waits for the news gets it first,
  /// or the program's reply might overtake it.
  void tell_sender() {
    if (link_.ring.awaited()) link_.give_back();
  }

  bool reliable() const { return qp_.service == Service::kReliableConnection; }

  Answer execute();

  // ---- endings ---------------------------------------------------------------------------------

  /// The initiator found, with our tables, that it broke a rule of ours.
  Answer complain();

  /// A rule was broken: on the wire a NAK would kill both ends; unreliable messages are dropped.
  Answer refuse(target::Refusal refusal);

  Answer no_buffer();

  // ---- channel semantics -----------------------------------------------------------------------

  /// The messages that follow are for another receive queue; a buffer of the one before goes back.
  Answer choose();

  Answer send();

  /// One after the other, until one cannot be executed: the answer is that one's.
  Answer sends();

  std::optional<ShortSend> short_send_at(std::uint32_t at) const;

  /// The grant that is remembered covers it. False: the grant holds no more, or the memory is gone.
  [[gnu::always_inline]] bool store_where_known(const Sge& sge,
                                                std::span<const std::byte> message) {
    const memory::Grant<LocalKey>& into = inbox_->into;
    memory::Flight::publish(memory::Hold::kScatter, into.entry);
    const bool stored =
        into.holds() && memory::guarded_copy(into.at(sge.address), message.data(),
                                             message.size()) == memory::Fault::kNone;
    memory::Flight::clear(memory::Hold::kScatter);
    return stored;
  }

  /// scatter() for a list of one element.
  CompletionStatus store(const Sge& sge, std::span<const std::byte> message);

  target::MessageInfo message_info(std::uint32_t bytes) const;

  Answer deliver();

  /// A buffer for what comes; a message that was never finished leaves its own to the next one.
  bool take_buffer() {
    if (qp_.path->partial_receive == nullptr) qp_.path->partial_receive = target::take_receive(qp_);
    return qp_.path->partial_receive != nullptr;
  }

  Answer notify();

  /// Payload from `at` on, inside the record.
  std::byte* payload(std::size_t at) const { return record_.payload + at; }

  // ---- memory semantics ------------------------------------------------------------------------

  std::optional<RemotePart> remote_part(std::uint32_t data) const;

  /// The memory of this part; at its start the whole message's range is checked.
  tl::expected<memory::Place, memory::AccessError> place(const RemotePart& part, std::uint32_t n,
                                                         Access need);
  /// Names the operation for one-shot keys.
  std::uint64_t use();

  Answer write();

  Answer read();

  Answer atomic();

  queue::QueuePair& qp_;
  host::Inbound& link_;
  const host::RecordHeader& header_;
  host::Record& record_;
  queue::RingInbox* inbox_;
};

}  // namespace weft::path
