#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "ucma/agent.h"
#include "ucma/clock.h"
#include "ucma/file.h"

// What programs ask of a connection. The state machines know what is allowed when.
namespace weft::ucma {
namespace {

/// Private data of a question: both addresses, then the program's.
template <class Question>
bool set_private_data(Question& question, const Identifier& id,
                      std::span<const std::byte> private_data) {
  if (private_data.size() > question.private_data.size() - cm::kIpHeaderBytes) return false;
  const cm::IpHeader header{id.destination.family == AF_INET6, id.source.port, id.source.address,
                            id.destination.address};
  cm::emit_ip_header(header, question.private_data);
  std::copy(private_data.begin(), private_data.end(),
            question.private_data.begin() + cm::kIpHeaderBytes);
  return true;
}

}  // namespace

void Agent::begin(Identifier& id, cm::Outcome& out) {
  id.active = true;
  id.asked_at_ns = now();
  id.state = Identifier::State::kConnecting;
  apply(id, out);
}

int Agent::connect(Identifier& id, cm::Request terms, std::span<const std::byte> private_data) {
  if (id.state != Identifier::State::kRouteResolved) return EINVAL;
  if (!set_private_data(terms, id, private_data)) return EINVAL;
  terms.service = cm::service_id(id.space, id.destination.port);
  constexpr Lid kNoLid{0xFFFF};  // on Ethernet only the GIDs count
  terms.primary.local_lid = terms.primary.remote_lid = kNoLid;
  terms.primary.local_gid = id.local_gid;
  terms.primary.remote_gid = id.remote_gid;
  terms.primary.traffic_class = id.traffic_class;
  terms.ca_guid = id.device->guid;
  if (id.off_host && !claim_block()) return EMFILE;
  const cm::CommId number = new_comm_id();
  id.connection.emplace(number, random_psn(), random_transaction(), cm::Timing());
  id.local_qpn = terms.qpn;
  by_comm_id_[number] = &id;
  cm::Outcome out;
  id.connection->request(std::move(terms), now(), out);
  begin(id, out);
  return 0;
}

int Agent::ask(Identifier& id, std::span<const std::byte> private_data) {
  if (id.state != Identifier::State::kRouteResolved) return EINVAL;
  cm::ServiceRequest question;
  if (!set_private_data(question, id, private_data)) return EINVAL;
  question.pkey = kDefaultPKey;
  question.service = cm::service_id(id.space, id.destination.port);
  if (id.off_host && !claim_block()) return EMFILE;
  const cm::CommId number = new_comm_id();
  id.query = std::make_unique<cm::ServiceQuery>(number, random_transaction(), cm::Timing());
  by_comm_id_[number] = &id;
  cm::Outcome out;
  id.query->ask(std::move(question), now(), out);
  begin(id, out);
  return 0;
}

int Agent::accept(Identifier& id, const cm::Reply& terms) {
  cm::Outcome out;
  if (!id.connection || !id.connection->accept(terms, now(), out)) return EINVAL;
  id.local_qpn = terms.qpn;
  apply(id, out);
  return 0;
}

int Agent::answer(Identifier& id, const cm::ServiceReply& reply) {
  cm::Outcome out;
  if (!id.answer || !id.answer->answer(reply, out)) return EINVAL;
  apply(id, out);
  return 0;
}

int Agent::confirm(Identifier& id) {
  cm::Outcome out;
  if (!id.connection || !id.connection->confirm(out)) return EINVAL;
  apply(id, out);
  return 0;
}

int Agent::reject(Identifier& id, cm::RejectReason reason,
                  std::span<const std::byte> private_data) {
  cm::Outcome out;
  if (!id.connection || !id.connection->reject(reason, private_data, out)) return EINVAL;
  apply(id, out);
  return 0;
}

int Agent::disconnect(Identifier& id) {
  if (!id.connection) return EINVAL;
  cm::Outcome out;
  id.ended_here = true;
  post_held(id);
  // Not connected any more, or not yet: as the kernel, that is no error.
  id.connection->disconnect(now(), out);
  apply(id, out);
  return 0;
}

int Agent::on_data(Identifier& id) {
  if (!id.connection) return EINVAL;
  cm::Outcome out;
  if (!id.connection->on_data(out)) {
    const bool already = id.connection->phase() == cm::Connection::Phase::kEstablished;
    return already ? EISCONN : EINVAL;
  }
  apply(id, out);
  return 0;
}

Multicast& Agent::join(Identifier& id, const Gid& group, UserTag tag) {
  Multicast& joined = id.groups.emplace_back();
  joined.handle = Handle(++last_group_);
  joined.tag = tag;
  joined.group = group;
  return joined;
}

std::pair<Identifier*, Multicast*> Agent::find_group(Handle handle) {
  for (const auto& [number, id] : ids_) {
    for (Multicast& group : id->groups) {
      if (group.handle == handle) return {id.get(), &group};
    }
  }
  return {nullptr, nullptr};
}

std::uint32_t Agent::leave(Identifier& id, Handle handle) {
  id.file->drop_of_group(handle);
  const auto found = std::find_if(id.groups.begin(), id.groups.end(),
                                  [&](const Multicast& each) { return each.handle == handle; });
  WEFT_ASSERT(found != id.groups.end());
  const std::uint32_t reported = found->events_reported;
  id.groups.erase(found);
  return reported;
}

}  // namespace weft::ucma
