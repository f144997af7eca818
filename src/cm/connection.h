// One end of a connection as the communication manager sees it, from the request to the end of its
// timewait. Sans-IO: messages and times come in, messages and events go out; no clock, socket,
// thread or lock inside. Owned by whoever owns the program's identifier; one thread at a time.
//
//   active:   idle -request()-> request sent -REP-> reply received -confirm()-> established
//   passive:  idle -REQ-> request received -accept()-> reply sent -RTU-> established
//   both:     established -disconnect()-> disconnect sent -DREP, DREQ-> timewait -time-> ended
//             established -DREQ-> disconnect received -disconnect()-> timewait
//   a reject, no answer, or the peer's death leads from anywhere before established to ended
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cm/message.h"
#include "cm/outcome.h"
#include "cm/resender.h"
#include "weft/types.h"

namespace weft::cm {

class Connection {
 public:
  enum class Phase : std::uint8_t {
    kIdle,
    kRequestSent,
    kRequestReceived,
    kReplySent,
    kReplyReceived,
    kEstablished,
    kDisconnectSent,
    kDisconnectReceived,
    kTimewait,
    kEnded,
  };

  /// What both ends agreed on so far, from this end's point of view.
  struct Terms {
    Qpn remote_qpn;
    Psn send_psn;     ///< with which this end begins: the peer says it
    Psn receive_psn;  ///< with which the peer begins: this end says it
    std::uint8_t responder_resources = 0, initiator_depth = 0;
    std::uint8_t retry_count = 0, rnr_retry_count = 0;
    bool srq = false, flow_control = false;  ///< of the peer
    VendorOptions vendor;                    ///< of the peer
    Transport transport = Transport::kReliable;
    std::uint8_t mtu_code = 0;
  };

  /// `local` is not in use on this host's side of the peer. The queue pair of the passive end is
  /// made ready before the answer is known, so what the answer will say is decided now. Nobody can
  /// guess `transaction`: until the peer's number is known, it tells the peer's answers from
  /// others.
  Connection(CommId local, Psn receive_psn, TransactionId transaction, const Timing& timing);

  // What the program asks for. False: not in this phase; then nothing happened.

  /// REQ; its `local` and `starting_psn` are filled in.
  bool request(Request terms, Nanoseconds now, Outcome& out);
  /// REP; its ids and `starting_psn` are filled in.
  bool accept(Reply terms, Nanoseconds now, Outcome& out);
  /// RTU.
  bool confirm(Outcome& out);
  /// REJ; private data up to 148 bytes.
  bool reject(RejectReason reason, std::span<const std::byte> private_data, Outcome& out);
  /// Data arrived before the RTU.
  bool on_data(Outcome& out);
  /// DREQ, or DREP if the peer was first.
  bool disconnect(Nanoseconds now, Outcome& out);
  /// Whatever makes the peer stop waiting; nothing comes after it.
  void close(Outcome& out);

  // What happens.

  /// Whether it is from this connection's peer. Both numbers must be those of the connection; an
  /// answer to the request, whose sender's number is not known yet, must have its transaction; a
  /// DREQ must name the queue pair.
  bool fits(const Message& message) const;
  /// False: it does not fit, and nothing happened.
  bool on_message(const Message& message, Nanoseconds now, Outcome& out);
  /// Nobody has the port that was asked for.
  void on_nobody_there(Outcome& out);
  void on_peer_gone(Nanoseconds now, Outcome& out);
  void on_timer(Nanoseconds now, Outcome& out);
  /// When on_timer() is to be called; kNever: not now.
  Nanoseconds deadline() const;

  Phase phase() const { return phase_; }
  CommId local() const { return local_; }
  /// 0 until the peer answered.
  CommId remote() const { return remote_; }
  const Terms& terms() const { return terms_; }

 private:
  void on_body(const Request& request, Nanoseconds now, Outcome& out);
  void on_body(const Acknowledgement& acknowledgement, Nanoseconds now, Outcome& out);
  void on_body(const Reject& reject, Nanoseconds now, Outcome& out);
  void on_body(const Reply& reply, Nanoseconds now, Outcome& out);
  void on_body(const ReadyToUse& ready, Nanoseconds now, Outcome& out);
  void on_body(const DisconnectRequest& request, Nanoseconds now, Outcome& out);
  void on_body(const DisconnectReply& reply, Nanoseconds now, Outcome& out);
  void on_body(const ServiceRequest&, Nanoseconds, Outcome&) {}
  void on_body(const ServiceReply&, Nanoseconds, Outcome&) {}

  bool fits(const Message& message, const Request& request) const;
  bool fits(const Message& message, const Reject& reject) const;
  bool fits(const Message& message, const DisconnectRequest& request) const;
  bool fits(const Message&, const ServiceRequest&) const { return false; }
  bool fits(const Message&, const ServiceReply&) const { return false; }
  template <class Answer>
  bool fits(const Message& message, const Answer& answer) const;
  void end_rejected(RejectReason reason, std::vector<std::byte> private_data, Outcome& out);

  template <class Body>
  void send(Body body, Outcome& out) const;
  void send_patience(About about, Outcome& out) const;
  void send_disconnect_reply(Outcome& out) const;
  void enter_timewait(Nanoseconds now);
  void end();

  CommId local_, remote_;
  Resender resender_;
  Phase phase_ = Phase::kIdle;
  TransactionId transaction_;
  Qpn local_qpn_;  ///< as the peer was told
  Terms terms_;
  Nanoseconds timewait_end_ns_ = kNever;
};

}  // namespace weft::cm
