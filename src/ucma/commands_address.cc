#include <cerrno>
#include <optional>

#include "ucma/commands.h"
#include "ucma/local_addresses.h"

// Addresses: binding, resolving, listening.
namespace weft::ucma {
namespace {

/// A sockaddr whose size the program tells too; other families, InfiniBand's own among them, are
/// not there. librdmacm finds that out by trying.
std::optional<Endpoint> parse_sized(const __kernel_sockaddr_storage& storage, std::uint16_t size) {
  auto endpoint = parse_endpoint(storage);
  if (!endpoint) return {};
  const std::size_t right =
      endpoint->family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (size != right) return {};
  return endpoint;
}

/// Which of this machine's addresses the connection comes from.
Gid source_for(const Endpoint& destination, const files::ShownDevice& device,
               const LocalAddresses& local) {
  if (!destination.multicast() && local.has(destination.address)) return destination.address;
  const bool same_family = device.address.is_ipv4() == destination.address.is_ipv4();
  return same_family || destination.multicast() ? device.address : destination.address;
}

Gid loopback(const Endpoint& any) {
  if (any.family == AF_INET) return Gid::ipv4(127, 0, 0, 1);
  Gid gid;
  gid.raw[15] = 1;
  return gid;
}

int bind_source(const Call& call, Identifier& id, const std::optional<Endpoint>& source,
                const Endpoint& destination) {
  if (id.state == Identifier::State::kBound) return 0;
  if (id.state != Identifier::State::kIdle) return EINVAL;
  if (source && source->port.value != 0) return call.agent.bind(id, *source);
  if (source && !source->any() && !LocalAddresses().reaches(source->address)) {
    return EADDRNOTAVAIL;
  }
  Endpoint where = destination;
  where.port = {};
  id.source = source ? *source : where.with_any();
  call.agent.assume_port(id);
  id.state = Identifier::State::kBound;
  return 0;
}

/// Through the device that has the source address, or else the one that the route goes through.
int resolve_other_host(const Call& call, Identifier& id) {
  const Gid& destination = id.destination.address;
  const files::ShownDevice* const device =
      id.source.any() ? device_towards(destination) : device_with(id.source.address);
  const bool reaches = device != nullptr && call.agent.network_device(*device) != nullptr &&
                       device->address.is_ipv4() == destination.is_ipv4();
  if (!reaches) {
    call.agent.post(id, EventCode::kAddressError, -EHOSTUNREACH);
    return 0;
  }
  call.agent.use(id, *device);
  if (id.source.any()) id.source.address = device->address;
  id.remote_gid = destination;
  id.off_host = true;
  id.state = Identifier::State::kAddressResolved;
  call.agent.post(id, EventCode::kAddressResolved, 0);
  return 0;
}

int resolve(const Call& call, Identifier& id, const std::optional<Endpoint>& source,
            Endpoint destination) {
  const sa_family_t family = source                  ? source->family
                             : id.source.family != 0 ? id.source.family
                                                     : destination.family;
  if (family != destination.family) return EINVAL;
  if (const int error = bind_source(call, id, source, destination); error != 0) return error;
  const LocalAddresses local;
  if (destination.any()) {
    destination.address = id.source.any() ? loopback(destination) : id.source.address;
  }
  id.destination = destination;
  if (!destination.multicast() && !local.reaches(destination.address)) {
    return resolve_other_host(call, id);
  }
  call.agent.use(id, device_for(id.source.any() ? destination.address : id.source.address));
  if (id.source.any()) {
    id.source.address = source_for(destination, *id.device, local);
  }
  // A loopback address that none of our devices has may be a device of the peer's; it will tell.
  const bool elsewhere = destination.multicast() || !local.has(destination.address);
  id.remote_gid = elsewhere ? destination.address : device_for(destination.address).address;
  id.state = Identifier::State::kAddressResolved;
  call.agent.post(id, EventCode::kAddressResolved, 0);
  return 0;
}

}  // namespace

int bind_ip(const Call& call) {
  const auto command = call.read<rdma_ucm_bind_ip>();
  const auto where = parse_endpoint(command.addr);
  if (!where) return EINVAL;
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  return id == nullptr ? error : call.agent.bind(*id, *where);
}

int bind_any(const Call& call) {
  const auto command = call.read<rdma_ucm_bind>();
  const auto where = parse_sized(command.addr, command.addr_size);
  if (!where || command.reserved != 0) return EINVAL;
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  return id == nullptr ? error : call.agent.bind(*id, *where);
}

int resolve_ip(const Call& call) {
  const auto command = call.read<rdma_ucm_resolve_ip>();
  const auto source = parse_endpoint(command.src_addr);
  const auto destination = parse_endpoint(command.dst_addr);
  if (!destination || (!source && command.src_addr.sin6_family != 0)) return EINVAL;
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  return id == nullptr ? error : resolve(call, *id, source, *destination);
}

int resolve_address(const Call& call) {
  const auto command = call.read<rdma_ucm_resolve_addr>();
  const auto source = parse_sized(command.src_addr, command.src_size);
  const auto destination = parse_sized(command.dst_addr, command.dst_size);
  if (!destination || command.reserved != 0 || (!source && command.src_size != 0)) return EINVAL;
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  return id == nullptr ? error : resolve(call, *id, source, *destination);
}

int resolve_route(const Call& call) {
  const auto command = call.read<rdma_ucm_resolve_route>();
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  if (id == nullptr) return error;
  if (id->state != Identifier::State::kAddressResolved) return EINVAL;
  id->state = Identifier::State::kRouteResolved;
  call.agent.post(*id, EventCode::kRouteResolved, 0);
  return 0;
}

int listen(const Call& call) {
  const auto command = call.read<rdma_ucm_listen>();
  int error = 0;
  Identifier* const id = call.find(command.id, error);
  return id == nullptr ? error : call.agent.listen(*id, command.backlog);
}

}  // namespace weft::ucma
