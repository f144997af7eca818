#include <cerrno>

#include "ucma/commands.h"
#include "ucma/sockaddr.h"

// Membership in multicast groups. A group's address is its IP address, in the form of a GID.
namespace weft::ucma {
namespace {

int join_at(const Call& call, std::uint32_t handle, std::uint64_t response, UserTag tag,
            const cm::SocketAddress& where, bool send_only) {
  int error = 0;
  Context* const context = call.find(handle, error);
  if (context == nullptr) return error;
  if (call.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  using State = cm::Identifier::State;
  const cm::Identifier& id = context->id;
  const bool ready = id.state == State::kBound || id.state == State::kAddressResolved;
  if (!id.datagram() || id.device == nullptr || !ready) return EINVAL;
  Multicast& group = call.device.join(*context, where.address, tag);
  group.send_only = send_only;
  error = call.respond(response, rdma_ucm_create_id_resp{.id = group.handle.value});
  if (error != 0) {
    call.device.leave(*context, group.handle);
    return error;
  }
  call.device.post(*context, make_join_event(*context, group));
  return 0;
}

}  // namespace

int join_ip_group(const Call& call) {
  const auto command = call.read<rdma_ucm_join_ip_mcast>();
  const auto where = parse_sockaddr(command.addr);
  if (!where) return EINVAL;
  return join_at(call, command.id, command.response, UserTag(command.uid), *where, false);
}

int join_group(const Call& call) {
  const auto command = call.read<rdma_ucm_join_mcast>();
  const auto where = parse_sockaddr(command.addr);
  if (!where || command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
  if (command.addr_size != sockaddr_size(where->family)) return EINVAL;
  const bool send_only = command.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  return join_at(call, command.id, command.response, UserTag(command.uid), *where, send_only);
}

int leave_group(const Call& call) {
  const auto command = call.read<rdma_ucm_destroy_id>();
  if (call.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  const auto [context, group] = call.device.find_group(Handle(command.id));
  if (context == nullptr) return ENOENT;
  if (context->file != &call.file) return EINVAL;
  const std::uint32_t reported = call.device.leave(*context, group->handle);
  return call.respond(command.response, rdma_ucm_destroy_id_resp{.events_reported = reported});
}

}  // namespace weft::ucma
