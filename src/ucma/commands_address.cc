#include <algorithm>
#include <cerrno>
#include <optional>
#include <variant>

#include "files/machine_addresses.h"
#include "ucma/commands.h"
#include "ucma/sockaddr.h"

// Addresses: binding, resolving, listening.
namespace weft::ucma {
namespace {

/// A sockaddr whose size the program tells too; other families, InfiniBand's own among them, are
/// not there. librdmacm finds that out by trying.
std::optional<cm::SocketAddress> parse_sized(const __kernel_sockaddr_storage& storage,
                                             std::uint16_t size) {
  auto address = parse_sockaddr(storage);
  if (!address || size != sockaddr_size(address->family)) return {};
  return address;
}

int bind(const Call& call, std::uint32_t handle, const cm::SocketAddress& where) {
  return call.with(handle, [&](cm::Manager& manager, cm::Identifier& id, Nanoseconds now,
                               cm::Actions&) { return manager.bind(id, where, now); });
}

bool says_no_route(const cm::Actions& actions) {
  return std::any_of(actions.begin(), actions.end(), [](const auto& action) {
    const auto* const told = std::get_if<cm::Notify>(&action);
    return told != nullptr && told->event.kind == cm::Event::Kind::kNoRoute;
  });
}

int resolve(const Call& call, std::uint32_t handle, const std::optional<cm::SocketAddress>& source,
            const cm::SocketAddress& destination) {
  bool no_route = false;
  const int error = call.with(
      handle, [&](cm::Manager& manager, cm::Identifier& id, Nanoseconds now, cm::Actions& out) {
        auto done = manager.resolve_address(id, source, destination, now, out);
        no_route = says_no_route(out);
        return done;
      });
  if (no_route) files::hint_at_other_host(files::shown_devices().front(), destination.address);
  return error;
}

}  // namespace

int bind_ip(const Call& call) {
  const auto command = call.read<rdma_ucm_bind_ip>();
  const auto where = parse_sockaddr(command.addr);
  return where ? bind(call, command.id, *where) : EINVAL;
}

int bind_any(const Call& call) {
  const auto command = call.read<rdma_ucm_bind>();
  const auto where = parse_sized(command.addr, command.addr_size);
  if (!where || command.reserved != 0) return EINVAL;
  return bind(call, command.id, *where);
}

int resolve_ip(const Call& call) {
  const auto command = call.read<rdma_ucm_resolve_ip>();
  const auto source = parse_sockaddr(command.src_addr);
  const auto destination = parse_sockaddr(command.dst_addr);
  if (!destination || (!source && command.src_addr.sin6_family != 0)) return EINVAL;
  return resolve(call, command.id, source, *destination);
}

int resolve_address(const Call& call) {
  const auto command = call.read<rdma_ucm_resolve_addr>();
  const auto source = parse_sized(command.src_addr, command.src_size);
  const auto destination = parse_sized(command.dst_addr, command.dst_size);
  if (!destination || command.reserved != 0 || (!source && command.src_size != 0)) return EINVAL;
  return resolve(call, command.id, source, *destination);
}

int resolve_route(const Call& call) {
  const auto command = call.read<rdma_ucm_resolve_route>();
  return call.with(command.id, [](cm::Manager& manager, cm::Identifier& id, Nanoseconds,
                                  cm::Actions& out) { return manager.resolve_route(id, out); });
}

int listen(const Call& call) {
  const auto command = call.read<rdma_ucm_listen>();
  return call.with(command.id,
                   [&](cm::Manager& manager, cm::Identifier& id, Nanoseconds now, cm::Actions&) {
                     return manager.listen(id, command.backlog, now);
                   });
}

}  // namespace weft::ucma
