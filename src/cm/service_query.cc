#include "cm/service_query.h"

#include <utility>
#include <variant>

namespace weft::cm {

ServiceQuery::ServiceQuery(CommId local, TransactionId transaction, const Timing& timing)
    : local_(local), transaction_(transaction), resender_(timing) {}

bool ServiceQuery::ask(ServiceRequest question, Nanoseconds now, Outcome& out) {
  if (phase_ != Phase::kIdle) return false;
  question.request = local_;
  phase_ = Phase::kAsked;
  resender_.start(Message{transaction_, std::move(question)}, now, out);
  return true;
}

bool ServiceQuery::fits(const Message& message) const {
  const auto* reply = std::get_if<ServiceReply>(&message.body);
  return reply != nullptr && reply->request == local_ && message.transaction == transaction_;
}

bool ServiceQuery::on_message(const Message& message, Outcome& out) {
  if (!fits(message)) return false;
  if (phase_ != Phase::kAsked) return true;
  const auto* reply = std::get_if<ServiceReply>(&message.body);
  phase_ = Phase::kAnswered;
  resender_.stop();
  qpn_ = reply->qpn;
  qkey_ = reply->qkey;
  const bool found = reply->status == ServiceStatus::kSuccess;
  out.events.push_back({.kind = found ? Event::Kind::kResolved : Event::Kind::kRefused,
                        .status = reply->status,
                        .private_data = {reply->private_data.begin(), reply->private_data.end()}});
  return true;
}

void ServiceQuery::refuse(ServiceStatus status, Outcome& out) {
  if (phase_ != Phase::kAsked) return;
  phase_ = Phase::kAnswered;
  resender_.stop();
  out.events.push_back({.kind = Event::Kind::kRefused, .status = status});
}

void ServiceQuery::on_timer(Nanoseconds now, Outcome& out) {
  if (now < deadline() || resender_.on_timer(now, out)) return;
  phase_ = Phase::kAnswered;
  resender_.stop();
  out.events.push_back({.kind = Event::Kind::kUnreachable, .timed_out = true});
}

bool ServiceAnswer::answer(ServiceReply reply, Outcome& out) {
  if (answer_) return false;
  reply.request = question_;
  reply.service = service_;
  answer_ = Message{transaction_, std::move(reply)};
  out.messages.push_back(*answer_);
  return true;
}

void ServiceAnswer::on_question(Outcome& out) const {
  if (answer_) out.messages.push_back(*answer_);
}

}  // namespace weft::cm
