#include <algorithm>
#include <string>

#include "cm/manager.h"

// Ports: taking them, picking one, and finding who listens.
namespace weft::cm {
namespace {

// What Linux gives to programs that do not care.
constexpr std::uint32_t kFirstEphemeral = 32'768, kLastEphemeral = 60'999;
constexpr int kPortTries = 256;

bool covers(const Identifier& listener, const Gid& address) {
  if (!listener.source.any()) return listener.source.address == address;
  if (listener.source.family == Family::kIpv4) return address.is_ipv4();
  return !address.is_ipv4() || !listener.only_own_family;
}

}  // namespace

Port Manager::random_port() {
  const auto draw = random_.draw<std::uint32_t>();
  return Port(
      static_cast<std::uint16_t>(kFirstEphemeral + draw % (kLastEphemeral - kFirstEphemeral + 1)));
}

Place Manager::place_of(const Identifier& id, Port port) {
  Place place{id.space, port};
  if (!id.source.any()) {
    place.address = id.source.address;
  } else if (id.source.family == Family::kIpv4) {
    place.kind = Place::Kind::kAnyIpv4;
  } else {
    place.kind = id.only_own_family ? Place::Kind::kAnyIpv6 : Place::Kind::kAnywhere;
  }
  return place;
}

Result<void> Manager::take_port(Identifier& id, Nanoseconds now) {
  LocalAddresses local(devices_);
  const bool pick = id.source.port.value == 0;
  for (int i = 0; i < (pick ? kPortTries : 1); ++i) {
    const Port port = pick ? random_port() : id.source.port;
    const auto binding = links_.bind(place_of(id, port), local.all());
    if (binding) {
      id.binding = *binding;
      id.bound_at_ns = now;
      id.source.port = port;
      return {};
    }
    if (binding.error().code != Errc::kBusy) return fail(Errc::kSystem, binding.error().message);
  }
  if (pick) return fail(Errc::kNotFound, "port: none is free");
  return fail(Errc::kBusy, "port: " + std::to_string(id.source.port.value) + " is taken");
}

Result<void> Manager::bind(Identifier& id, const SocketAddress& where, Nanoseconds now) {
  if (id.state != Identifier::State::kIdle) return fail(Errc::kInvalidState, "bind: not idle");
  if (!where.any() && !LocalAddresses(devices_).reaches(where.address)) {
    return fail(Errc::kNotFound, "address: not of this machine");
  }
  id.source = where;
  // Who shares a port has it only when it listens.
  if (!id.reuse_address || where.port.value == 0) {
    if (auto ok = take_port(id, now); !ok) {
      id.source = {};
      return ok;
    }
  }
  if (!where.any()) use(id, devices_.for_address(where.address));
  id.state = Identifier::State::kBound;
  return {};
}

Result<void> Manager::listen(Identifier& id, std::uint32_t backlog, Nanoseconds now) {
  constexpr std::uint32_t kMostBacklog = 1024;
  if (id.state == Identifier::State::kIdle) {
    SocketAddress anywhere;
    anywhere.family = Family::kIpv4;
    if (auto ok = bind(id, anywhere.with_any(), now); !ok) return ok;
  }
  if (id.state != Identifier::State::kBound) return fail(Errc::kInvalidState, "listen: not bound");
  if (id.binding.value == 0) {
    if (auto ok = take_port(id, now); !ok) return ok;
  }
  id.backlog_left = backlog > 0 && backlog < kMostBacklog ? backlog : kMostBacklog;
  id.state = Identifier::State::kListening;
  listeners_.emplace(service_id(id.space, id.source.port), &id);
  return {};
}

Result<void> Manager::restrict_family(Identifier& id, bool only_own, Nanoseconds now) {
  if (id.state != Identifier::State::kIdle && id.state != Identifier::State::kBound) {
    return fail(Errc::kInvalidState, "family: listening or connecting already");
  }
  id.only_own_family = only_own;
  if (id.binding.value == 0) return {};
  links_.unbind(id.binding);
  id.binding = {};
  return take_port(id, now);
}

Identifier* Manager::find_listener(ServiceId service, const Gid& address) {
  const auto [first, last] = listeners_.equal_range(service);
  for (auto at = first; at != last; ++at) {
    if (covers(*at->second, address)) return at->second;
  }
  return nullptr;
}

bool Manager::is_about_to_listen(ServiceId service, const Gid& address, Nanoseconds now) const {
  // Between a program's bind and its listen. Who asks then asks again, a tenth of a second later.
  constexpr Nanoseconds kTimeToListen_ns = 1'000'000'000;
  return std::any_of(ids_.begin(), ids_.end(), [&](const auto& each) {
    const Identifier& id = *each.second;
    return id.state == Identifier::State::kBound && id.binding.value != 0 &&
           service_id(id.space, id.source.port) == service && covers(id, address) &&
           now - id.bound_at_ns < kTimeToListen_ns;
  });
}

}  // namespace weft::cm
