#include <algorithm>
#include <cerrno>

#include "base/random.h"
#include "obs/log.h"
#include "ucma/agent.h"
#include "ucma/clock.h"
#include "ucma/local_addresses.h"

// Ports: taking them, picking one, and finding who listens.
namespace weft::ucma {
namespace {

// What Linux gives to programs that do not care.
constexpr std::uint32_t kFirstEphemeral = 32'768, kLastEphemeral = 60'999;
constexpr int kTries = 256;

cm::Port random_port() {
  const auto draw = base::system_random().draw<std::uint32_t>();
  return cm::Port(
      static_cast<std::uint16_t>(kFirstEphemeral + draw % (kLastEphemeral - kFirstEphemeral + 1)));
}

bool covers(const Identifier& listener, const Gid& address) {
  if (!listener.source.any()) return listener.source.address == address;
  if (listener.source.family == AF_INET) return address.is_ipv4();
  return !address.is_ipv4() || !listener.only_own_family;
}

}  // namespace

cm::Place Agent::place_of(const Identifier& id, cm::Port port) const {
  cm::Place place{id.space, port};
  if (!id.source.any()) {
    place.address = id.source.address;
  } else if (id.source.family == AF_INET) {
    place.kind = cm::Place::Kind::kAnyIpv4;
  } else {
    place.kind = id.only_own_family ? cm::Place::Kind::kAnyIpv6 : cm::Place::Kind::kAnywhere;
  }
  return place;
}

int Agent::take_port(Identifier& id) {
  const LocalAddresses local;
  const bool pick = id.source.port.value == 0;
  for (int i = 0; i < (pick ? kTries : 1); ++i) {
    const cm::Port port = pick ? random_port() : id.source.port;
    const auto binding = exchange_.bind(place_of(id, port), local.all());
    if (binding) {
      id.binding = *binding;
      id.bound_at_ns = now();
      id.source.port = port;
      return 0;
    }
    if (binding.error().code != Errc::kBusy) {
      obs::log().warn("connection manager: {}", binding.error().message);
      return EMFILE;
    }
  }
  return pick ? EADDRNOTAVAIL : EADDRINUSE;
}

int Agent::bind(Identifier& id, const Endpoint& where) {
  if (id.state != Identifier::State::kIdle) return EINVAL;
  if (!where.any() && !LocalAddresses().reaches(where.address)) return EADDRNOTAVAIL;
  id.source = where;
  // Who shares a port has it only when it listens.
  if (!id.reuse_address || where.port.value == 0) {
    if (const int error = take_port(id); error != 0) {
      id.source = {};
      return error;
    }
  }
  if (!where.any()) use(id, device_for(where.address));
  id.state = Identifier::State::kBound;
  return 0;
}

void Agent::assume_port(Identifier& id) {
  if (id.source.port.value == 0) id.source.port = random_port();
}

int Agent::listen(Identifier& id, std::uint32_t backlog) {
  constexpr std::uint32_t kMostBacklog = 1024;
  if (id.state == Identifier::State::kIdle) {
    Endpoint anywhere;
    anywhere.family = AF_INET;
    if (const int error = bind(id, anywhere.with_any()); error != 0) return error;
  }
  if (id.state != Identifier::State::kBound) return EINVAL;
  if (id.binding.value == 0) {
    if (const int error = take_port(id); error != 0) return error;
  }
  id.backlog_left = backlog > 0 && backlog < kMostBacklog ? backlog : kMostBacklog;
  id.state = Identifier::State::kListening;
  listeners_.emplace(cm::service_id(id.space, id.source.port), &id);
  return 0;
}

int Agent::restrict_family(Identifier& id, bool only_own) {
  if (id.state != Identifier::State::kIdle && id.state != Identifier::State::kBound) return EINVAL;
  id.only_own_family = only_own;
  if (id.binding.value == 0) return 0;
  exchange_.unbind(id.binding);
  id.binding = {};
  return take_port(id);
}

Identifier* Agent::find_listener(cm::ServiceId service, const Gid& address) {
  const auto [first, last] = listeners_.equal_range(service);
  for (auto at = first; at != last; ++at) {
    if (covers(*at->second, address)) return at->second;
  }
  return nullptr;
}

bool Agent::is_about_to_listen(cm::ServiceId service, const Gid& address) const {
  // Between a program's bind and its listen. Who asks then asks again, a tenth of a second later.
  constexpr Nanoseconds kTimeToListen_ns = 1'000'000'000;
  return std::any_of(ids_.begin(), ids_.end(), [&](const auto& each) {
    const Identifier& id = *each.second;
    return id.state == Identifier::State::kBound && id.binding.value != 0 &&
           cm::service_id(id.space, id.source.port) == service && covers(id, address) &&
           now() - id.bound_at_ns < kTimeToListen_ns;
  });
}

}  // namespace weft::ucma
