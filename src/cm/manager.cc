#include "cm/manager.h"

#include <algorithm>
#include <variant>

namespace weft::cm {

Result<Identifier*> Manager::create(PortSpace space, QpType type) {
  // Twice as many as there may be: what librdmacm can index.
  constexpr std::uint32_t kNumbers = 2 * kMostIdentifiers;
  if (ids_.size() >= kMostIdentifiers) return fail(Errc::kOutOfMemory, "too many identifiers");
  // Not the number that was freed last: librdmacm may not have cleared its own entry yet.
  do {
    last_handle_ = (last_handle_ + 1) % kNumbers;
  } while (ids_.contains(Handle(last_handle_)));
  auto id = std::make_unique<Identifier>();
  id->handle = Handle(last_handle_);
  id->space = space;
  id->qp_type = type;
  return ids_.emplace(id->handle, std::move(id)).first->second.get();
}

Identifier* Manager::find(Handle handle) {
  const auto found = ids_.find(handle);
  return found == ids_.end() ? nullptr : found->second.get();
}

void Manager::destroy(Identifier& id, Actions& out) {
  Outcome outcome;
  if (id.connection) id.connection->close(outcome);
  if (id.answer && !id.answer->answered()) {
    ServiceReply no;
    no.status = ServiceStatus::kReject;
    id.answer->answer(no, outcome);
  }
  for (const auto& message : outcome.messages) transmit(id, message, out);
  if (id.active) out.push_back(Release{id.link});
  links_.unbind(id.binding);
  std::erase_if(listeners_, [&](const auto& each) { return each.second == &id; });
  forget_comm_ids(id);
  ids_.erase(id.handle);
}

void Manager::forget_comm_ids(const Identifier& id) {
  if (id.connection) {
    by_comm_id_.erase(id.connection->local());
    if (!id.active) by_question_.erase(asker_of(id, id.connection->remote()));
  }
  if (id.query) by_comm_id_.erase(id.query->local());
  if (id.answer) by_question_.erase(asker_of(id, id.answer->question()));
}

void Manager::close_all(Actions& out) {
  for (const auto& [handle, id] : ids_) {
    if (id->link != kNetworkLink || !id->connection) continue;
    Outcome outcome;
    id->connection->close(outcome);
    for (const auto& message : outcome.messages) transmit(*id, message, out);
  }
}

void Manager::on_timer(Nanoseconds now, Actions& out) {
  next_deadline_ = kNever;
  for (const auto& [handle, id] : ids_) {
    Outcome outcome;
    if (id->connection) id->connection->on_timer(now, outcome);
    if (id->query) id->query->on_timer(now, outcome);
    apply(*id, outcome, now, out);
    if (!id->held.empty()) arm(release_held(*id, now, out));
  }
}

void Manager::arm(Nanoseconds deadline) { next_deadline_ = std::min(next_deadline_, deadline); }

bool Manager::claim_block() {
  if (block_.value != 0) return true;
  const auto claimed = links_.claim_block(random_);
  if (claimed) block_ = *claimed;
  return claimed.has_value();
}

TransactionId Manager::random_transaction() { return TransactionId(random_.draw<std::uint64_t>()); }

CommId Manager::new_comm_id() {
  // There are twice as many numbers as identifiers, so one is found soon.
  CommId number;
  do {
    number = CommId(random_.draw<std::uint32_t>());
    if (block_.value != 0) {
      number = CommId(std::uint32_t{block_.value} << 16 | (number.value & 0xFFFF));
    }
  } while (number.value == 0 || by_comm_id_.contains(number));
  return number;
}

Connection& Manager::make_connection(Identifier& id) {
  const CommId number = new_comm_id();
  const Psn receive_psn(random_.draw<std::uint32_t>());
  id.connection.emplace(number, receive_psn, random_transaction(), Timing());
  by_comm_id_[number] = &id;
  return *id.connection;
}

void Manager::apply(Identifier& id, Outcome& outcome, Nanoseconds now, Actions& out) {
  // By index: when nobody is there, that is one more thing that happened.
  for (std::size_t i = 0; i < outcome.messages.size(); ++i) {
    const Message message = outcome.messages[i];
    if (transmit(id, message, out) || asks_again(id, now)) continue;
    // As if somebody had said so.
    if (id.connection) id.connection->on_nobody_there(outcome);
    if (id.query) id.query->on_nobody_there(outcome);
  }
  for (const Event& event : outcome.events) report(id, event, now, out);
  if (id.connection) arm(id.connection->deadline());
  if (id.query) arm(id.query->deadline());
}

bool Manager::transmit(Identifier& id, const Message& message, Actions& out) {
  const bool opens = std::holds_alternative<Request>(message.body) ||
                     std::holds_alternative<ServiceRequest>(message.body);
  if (opens) id.first_message = std::make_unique<const Message>(message);
  if (id.link.value == 0) {
    if (!opens) return true;
    if (id.off_host) {
      id.link = kNetworkLink;
    } else {
      const auto route = links_.reach(id.space, id.destination.port, id.destination.address, false);
      if (!route) return route.error().code != Errc::kNotFound;
      id.link = route->link;
      id.link_fresh = route->fresh;
    }
  }
  out.push_back(Send{id.link, {id.local_gid, id.remote_gid, message}});
  return true;
}

bool asks_again(const Identifier& id, Nanoseconds now) {
  constexpr Nanoseconds kPatience_ns = 500'000'000;
  return now - id.asked_at_ns < kPatience_ns;
}

}  // namespace weft::cm
