// Datagram services (SIDR): who asks which queue pair serves, and who answers. Sans-IO like
// connection.h; one thread at a time. The one who answers keeps the answer, because the question
// may come again.
#pragma once

#include <optional>

#include "cm/message.h"
#include "cm/outcome.h"
#include "cm/resender.h"

namespace weft::cm {

class ServiceQuery {
 public:
  /// Nobody can guess `transaction`: it tells the peer's answer from others.
  ServiceQuery(CommId local, TransactionId transaction, const Timing& timing);

  /// SIDR_REQ; its `request` is filled in. False: asked already.
  bool ask(ServiceRequest question, Nanoseconds now, Outcome& out);
  /// Whether it answers this question.
  bool fits(const Message& message) const;
  /// False: it does not fit, and nothing happened.
  bool on_message(const Message& message, Outcome& out);
  /// Nobody has the port that was asked for.
  void on_nobody_there(Outcome& out) { refuse(ServiceStatus::kUnsupported, out); }
  void on_peer_gone(Outcome& out) { refuse(ServiceStatus::kReject, out); }
  void on_timer(Nanoseconds now, Outcome& out);
  Nanoseconds deadline() const { return resender_.deadline(); }

  CommId local() const { return local_; }
  /// What kResolved was about.
  Qpn qpn() const { return qpn_; }
  QKey qkey() const { return qkey_; }

 private:
  enum class Phase : std::uint8_t { kIdle, kAsked, kAnswered };

  void refuse(ServiceStatus status, Outcome& out);

  CommId local_;
  TransactionId transaction_;
  Resender resender_;
  Phase phase_ = Phase::kIdle;
  Qpn qpn_;
  QKey qkey_;
};

class ServiceAnswer {
 public:
  ServiceAnswer(CommId question, TransactionId transaction, ServiceId service)
      : question_(question), transaction_(transaction), service_(service) {}

  /// SIDR_REP; `request` and `service` are filled in. False: answered already.
  bool answer(ServiceReply reply, Outcome& out);
  /// The same question came again.
  void on_question(Outcome& out) const;
  bool answered() const { return answer_.has_value(); }
  CommId question() const { return question_; }

 private:
  CommId question_;
  TransactionId transaction_;
  ServiceId service_;
  std::optional<Message> answer_;
};

}  // namespace weft::cm
