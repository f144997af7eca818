#include "cm/manager.h"

// Resolving: by which device and from which address a peer is reached.
namespace weft::cm {
namespace {

/// Which of this machine's addresses the connection comes from.
Gid source_for(const SocketAddress& destination, const Device& device, LocalAddresses& local) {
  if (!destination.multicast() && local.has(destination.address)) return destination.address;
  const bool same_family = device.address.is_ipv4() == destination.address.is_ipv4();
  return same_family || destination.multicast() ? device.address : destination.address;
}

Gid loopback(Family family) {
  if (family == Family::kIpv4) return Gid::ipv4(127, 0, 0, 1);
  Gid gid;
  gid.raw[15] = 1;
  return gid;
}

}  // namespace

void Manager::use(Identifier& id, const Device& device) {
  id.device = &device;
  id.local_gid = device.address;
  id.mtu_code = device.mtu_code;
}

Result<void> Manager::bind_source(Identifier& id, const std::optional<SocketAddress>& source,
                                  const SocketAddress& destination, Nanoseconds now) {
  if (id.state == Identifier::State::kBound) return {};
  if (id.state != Identifier::State::kIdle) return fail(Errc::kInvalidState, "resolve: not now");
  if (source && source->port.value != 0) return bind(id, *source, now);
  if (source && !source->any() && !LocalAddresses(devices_).reaches(source->address)) {
    return fail(Errc::kNotFound, "source: not an address of this machine");
  }
  SocketAddress where = destination;
  where.port = {};
  id.source = source ? *source : where.with_any();
  // Not taken from others: nobody connects to it.
  if (id.source.port.value == 0) id.source.port = random_port();
  id.state = Identifier::State::kBound;
  return {};
}

/// Through the device that has the source address, or else the one that the route goes through.
Result<void> Manager::resolve_other_host(Identifier& id, Actions& out) {
  const Gid& destination = id.destination.address;
  const Device* const device =
      id.source.any() ? devices_.towards(destination) : devices_.with_address(id.source.address);
  const bool reaches = device != nullptr && device->reaches_network &&
                       device->address.is_ipv4() == destination.is_ipv4();
  if (!reaches) {
    out.push_back(Notify{id.handle, {Event::Kind::kNoRoute}});
    return {};
  }
  use(id, *device);
  if (id.source.any()) id.source.address = device->address;
  id.remote_gid = destination;
  id.off_host = true;
  id.state = Identifier::State::kAddressResolved;
  out.push_back(Notify{id.handle, {Event::Kind::kAddressResolved}});
  return {};
}

Result<void> Manager::resolve_address(Identifier& id, const std::optional<SocketAddress>& source,
                                      SocketAddress destination, Nanoseconds now, Actions& out) {
  const Family family = source                              ? source->family
                        : id.source.family != Family::kNone ? id.source.family
                                                            : destination.family;
  if (family != destination.family) {
    return fail(Errc::kInvalidArgument, "destination: of another family than the source");
  }
  if (auto ok = bind_source(id, source, destination, now); !ok) return ok;
  LocalAddresses local(devices_);
  if (destination.any()) {
    destination.address = id.source.any() ? loopback(destination.family) : id.source.address;
  }
  id.destination = destination;
  if (!destination.multicast() && !local.reaches(destination.address)) {
    return resolve_other_host(id, out);
  }
  use(id, devices_.for_address(id.source.any() ? destination.address : id.source.address));
  if (id.source.any()) id.source.address = source_for(destination, *id.device, local);
  // A loopback address that none of our devices has may be a device of the peer's; it will tell.
  const bool elsewhere = destination.multicast() || !local.has(destination.address);
  id.remote_gid =
      elsewhere ? destination.address : devices_.for_address(destination.address).address;
  id.state = Identifier::State::kAddressResolved;
  out.push_back(Notify{id.handle, {Event::Kind::kAddressResolved}});
  return {};
}

Result<void> Manager::resolve_route(Identifier& id, Actions& out) {
  if (id.state != Identifier::State::kAddressResolved) {
    return fail(Errc::kInvalidState, "route: the address is not resolved");
  }
  id.state = Identifier::State::kRouteResolved;
  out.push_back(Notify{id.handle, {Event::Kind::kRouteResolved}});
  return {};
}

}  // namespace weft::cm
