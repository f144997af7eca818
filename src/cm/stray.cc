#include "cm/stray.h"

#include <variant>

namespace weft::cm {
namespace {

std::optional<Message> answer(TransactionId transaction, const Request& request) {
  Reject reject;
  reject.remote = request.local;
  reject.reason = RejectReason::kInvalidServiceId;
  return Message{transaction, reject};
}

std::optional<Message> answer(TransactionId transaction, const ServiceRequest& request) {
  ServiceReply reply;
  reply.request = request.request;
  reply.service = request.service;
  reply.status = ServiceStatus::kUnsupported;
  return Message{transaction, reply};
}

std::optional<Message> answer(TransactionId transaction, const DisconnectRequest& request) {
  return Message{transaction, DisconnectReply{request.remote, request.local, {}}};
}

std::optional<Message> answer(TransactionId transaction, const Reply& reply) {
  Reject reject;
  reject.local = reply.remote;
  reject.remote = reply.local;
  reject.about = About::kReply;
  reject.reason = RejectReason::kInvalidCommId;
  return Message{transaction, reject};
}

template <class Other>
std::optional<Message> answer(TransactionId, const Other&) {
  return {};
}

}  // namespace

std::optional<Message> answer_to_stray(const Message& message) {
  return std::visit([&](const auto& body) { return answer(message.transaction, body); },
                    message.body);
}

}  // namespace weft::cm
