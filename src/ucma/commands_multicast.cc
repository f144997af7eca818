#include <cerrno>

#include "ucma/commands.h"

// Membership in multicast groups. A group's address is its IP address, in the form of a GID.
namespace weft::ucma {
namespace {

int join_at(const Call& call, Identifier& id, std::uint64_t response, UserTag tag,
            const Endpoint& where, bool send_only) {
  if (call.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  const bool ready =
      id.state == Identifier::State::kBound || id.state == Identifier::State::kAddressResolved;
  if (!id.datagram() || id.device == nullptr || !ready) return EINVAL;
  Multicast& group = call.agent.join(id, where.address, tag);
  group.send_only = send_only;
  const int error = call.respond(response, rdma_ucm_create_id_resp{.id = group.handle.value});
  if (error != 0) {
    call.agent.leave(id, group.handle);
    return error;
  }
  call.agent.post(id, make_join_event(id, group));
  return 0;
}

}  // namespace

int join_ip_group(const Call& call) {
  const auto command = call.read<rdma_ucm_join_ip_mcast>();
  const auto where = parse_endpoint(command.addr);
  if (!where) return EINVAL;
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  if (id == nullptr) return error;
  return join_at(call, *id, command.response, UserTag(command.uid), *where, false);
}

int join_group(const Call& call) {
  const auto command = call.read<rdma_ucm_join_mcast>();
  const auto where = parse_endpoint(command.addr);
  if (!where || command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
  const std::size_t size = where->family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (command.addr_size != size) return EINVAL;
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  if (id == nullptr) return error;
  const bool send_only = command.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  return join_at(call, *id, command.response, UserTag(command.uid), *where, send_only);
}

int leave_group(const Call& call) {
  const auto command = call.read<rdma_ucm_destroy_id>();
  if (call.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  const auto [id, group] = call.agent.find_group(Handle(command.id));
  if (id == nullptr) return ENOENT;
  if (id->file != &call.file) return EINVAL;
  const std::uint32_t reported = call.agent.leave(*id, group->handle);
  return call.respond(command.response, rdma_ucm_destroy_id_resp{.events_reported = reported});
}

}  // namespace weft::ucma
