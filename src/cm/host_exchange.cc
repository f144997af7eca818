#include "cm/host_exchange.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "cm/names.h"
#include "host/fork.h"
#include "host/system_error.h"
#include "network/address.h"
#include "obs/log.h"

namespace weft::cm {
namespace {

// What epoll gives back: which kind of thing, and its number.
constexpr std::uint64_t kTimerTag = 0, kBindingTag = std::uint64_t{1} << 32,
                        kLinkTag = std::uint64_t{2} << 32;
constexpr int kMostReady = 64;
constexpr std::size_t kMostWaiting = 16'384;
constexpr int kMostAtOnce = 64;  // of one link or port, so that no peer keeps the others waiting

constexpr int kTries = 64;

std::vector<std::string> names_of(const Place& place) {
  const auto name = [&](std::string_view text) { return name_of(place.space, place.port, text); };
  switch (place.kind) {
    case Place::Kind::kAddress:
      return {name(network::to_string(place.address))};
    case Place::Kind::kAnyIpv4:
      return {name(kEveryIpv4)};
    case Place::Kind::kAnyIpv6:
      return {name(kEveryIpv6)};
    case Place::Kind::kAnywhere:
      return {name(kEveryIpv6), name(kEveryIpv4)};
  }
  return {};
}

/// The names that must be free beside the place's own.
std::vector<std::string> names_against(const Place& place, const std::vector<Gid>& neighbours) {
  std::vector<std::string> names;
  if (place.kind == Place::Kind::kAddress) {
    names.push_back(
        name_of(place.space, place.port, place.address.is_ipv4() ? kEveryIpv4 : kEveryIpv6));
    return names;
  }
  for (const Gid& each : neighbours) {
    const bool covered =
        each.is_ipv4() ? place.kind != Place::Kind::kAnyIpv6 : place.kind != Place::Kind::kAnyIpv4;
    if (covered) names.push_back(name_of(place.space, place.port, network::to_string(each)));
  }
  return names;
}

}  // namespace

Result<HostExchange> HostExchange::create() {
  const host::ForkHold hold;
  host::Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return host::system_error("connection manager: epoll", errno);
  host::Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return host::system_error("connection manager: timerfd", errno);
  HostExchange exchange(std::move(epoll), std::move(timer));
  if (!exchange.watch(exchange.timer_.get(), kTimerTag)) {
    return host::system_error("connection manager: epoll", errno);
  }
  return exchange;
}

bool HostExchange::watch(int fd, std::uint64_t tag) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void HostExchange::forget(int fd) const {
  // Not left to close(): a child between fork and its own close would keep the entry alive.
  if (fd >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Result<host::LocalSocket> HostExchange::listen(const std::string& name, std::uint64_t tag) {
  auto socket = host::LocalSocket::listen(name);
  if (socket && !watch(socket->fd(), tag)) {
    return host::system_error("connection manager: watching a port", errno);
  }
  return socket;
}

Result<BindingId> HostExchange::bind(const Place& place, const std::vector<Gid>& neighbours) {
  const BindingId id(++last_id_);
  Binding binding;
  const auto undo = [&] {
    for (const auto& each : binding.sockets) forget(each.socket.fd());
  };
  for (const std::string& name : names_of(place)) {
    auto socket = listen(name, kBindingTag | id.value);
    if (!socket) {
      undo();
      if (socket.error().code != Errc::kBusy) {
        obs::log().warn("connection manager: {}", socket.error().message);
      }
      return tl::unexpected(std::move(socket.error()));
    }
    binding.sockets.push_back({std::move(*socket), name});
  }
  // After taking the own names: of two who do this at once, at least one sees the other.
  if (host::LocalSocket::any_taken(names_against(place, neighbours))) {
    undo();
    return fail(Errc::kBusy, "port " + std::to_string(place.port.value) + " is taken");
  }
  bindings_.emplace(id, std::move(binding));
  return id;
}

Result<CommIdBlock> HostExchange::claim_block(base::Random& random) {
  for (int i = 0; i < kTries; ++i) {
    const CommIdBlock block(random.draw<std::uint16_t>());
    if (block.value == 0) continue;
    const BindingId id(++last_id_);
    auto socket = listen(name_of(block), kBindingTag | id.value);
    if (!socket && socket.error().code == Errc::kBusy) continue;
    if (!socket) {
      obs::log().warn("{}", socket.error().message);
      return tl::unexpected(std::move(socket.error()));
    }
    Binding binding;
    binding.sockets.push_back({std::move(*socket), name_of(block)});
    bindings_.emplace(id, std::move(binding));
    return block;
  }
  obs::log().warn("connection manager: no numbers are left");
  return fail(Errc::kBusy, "connection manager: no numbers are left");
}

void HostExchange::unbind(BindingId binding) {
  const auto found = bindings_.find(binding);
  if (found == bindings_.end()) return;
  for (const auto& each : found->second.sockets) forget(each.socket.fd());
  bindings_.erase(found);
}

Result<Route> HostExchange::reach(PortSpace space, Port port, const Gid& address, bool fresh) {
  Error last{Errc::kNotFound, ""};
  for (const std::string& name : names_at(space, port, address)) {
    if (const auto found = by_name_.find(name); !fresh && found != by_name_.end()) {
      ++links_.at(found->second).users;
      return Route{found->second, false};
    }
    auto link = open(name);
    if (link) {
      links_.at(*link).users = 1;
      return Route{*link, true};
    }
    last = std::move(link.error());
    if (last.code != Errc::kNotFound && last.code != Errc::kNotPermitted) break;
  }
  if (last.code == Errc::kNotPermitted) {  // a port of another user is none of ours
    obs::log().warn("connection manager: {}", last.message);
    last.code = Errc::kNotFound;
  }
  return tl::unexpected(std::move(last));
}

Result<LinkId> HostExchange::open(const std::string& name) {
  auto socket = host::LocalSocket::connect(name);
  if (!socket) return tl::unexpected(std::move(socket.error()));
  const LinkId id = add_link({std::move(*socket), name});
  if (id.value == 0) return host::system_error("connection manager: watching a link", errno);
  by_name_[name] = id;
  return id;
}

LinkId HostExchange::add_link(Link link) {
  const LinkId id(++last_id_);
  if (!watch(link.socket.fd(), kLinkTag | id.value)) return {};
  links_.emplace(id, std::move(link));
  return id;
}

void HostExchange::release(LinkId link) {
  const auto found = links_.find(link);
  // The other side's links end when the other side ends them.
  if (found == links_.end() || found->second.name.empty()) return;
  if (--found->second.users == 0) drop_link(link);
}

void HostExchange::drop_link(LinkId link) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  forget(found->second.socket.fd());
  const auto named = by_name_.find(found->second.name);
  if (named != by_name_.end() && named->second == link) by_name_.erase(named);
  links_.erase(found);
}

void HostExchange::send(LinkId link, const Packet& packet) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  auto& waiting = found->second.waiting;
  if (waiting.size() >= kMostWaiting) return;
  const auto bytes = emit_packet(packet);
  if (waiting.empty()) {
    const auto sent = found->second.socket.send(bytes, {});
    if (sent || sent.error().code != Errc::kBusy) return;
    watch_output(found->second, link, true);
  }
  waiting.push_back(bytes);
}

void HostExchange::send_waiting(LinkId link) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  auto& waiting = found->second.waiting;
  while (!waiting.empty()) {
    const auto sent = found->second.socket.send(waiting.front(), {});
    if (!sent && sent.error().code == Errc::kBusy) return;
    waiting.pop_front();
  }
  watch_output(found->second, link, false);
}

void HostExchange::watch_output(const Link& link, LinkId id, bool on) const {
  epoll_event event{};
  event.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = kLinkTag | id.value;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link.socket.fd(), &event);
}

std::vector<Arrival> HostExchange::collect() {
  std::vector<Arrival> arrivals;
  overloaded_ = false;
  bool callers_are_ready = false;
  std::array<epoll_event, kMostReady> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), kMostReady, 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = ready[static_cast<std::size_t>(i)].data.u64;
    const auto number = static_cast<std::uint32_t>(tag);
    // The timer stays as it is: nobody may take from others what it is to wake them for.
    if (tag == kTimerTag) continue;
    if ((tag & kLinkTag) == 0) {
      accept_all(BindingId(number));
      callers_are_ready = true;
    } else if (is_silent_caller(LinkId(number))) {
      callers_are_ready = true;
    } else {
      if ((ready[static_cast<std::size_t>(i)].events & EPOLLOUT) != 0) send_waiting(LinkId(number));
      receive_all(LinkId(number), arrivals);
    }
  }
  if (callers_are_ready) receive_from_callers(arrivals);
  return arrivals;
}

bool HostExchange::is_silent_caller(LinkId link) const {
  const auto found = links_.find(link);
  return found != links_.end() && found->second.name.empty() && !found->second.has_spoken;
}

/// A process that forwards messages connects anew for each, and has sent it before it connects
/// again: read in the order of the calls, they are in the order in which they came. epoll would not
/// keep it.
void HostExchange::receive_from_callers(std::vector<Arrival>& arrivals) {
  std::deque<LinkId> silent;
  int heard = 0;
  while (!silent_callers_.empty() && heard < kMostReady) {
    const LinkId link = silent_callers_.front();
    silent_callers_.pop_front();
    receive_all(link, arrivals);
    if (is_silent_caller(link)) {
      silent.push_back(link);
    } else {
      ++heard;
    }
  }
  silent_callers_.insert(silent_callers_.begin(), silent.begin(), silent.end());
}

void HostExchange::accept_all(BindingId binding) {
  const auto found = bindings_.find(binding);
  if (found == bindings_.end()) return;
  for (const auto& [socket, name] : found->second.sockets) {
    for (int i = 0; i < kMostAtOnce; ++i) {
      auto peer = socket.accept();
      if (!peer) {
        if (peer.error().code == Errc::kTimedOut) break;
        obs::log().debug("connection manager: {}", peer.error().message);
        overloaded_ = true;
        return;
      }
      if (!is_trusted(*peer)) continue;
      const LinkId link = add_link({std::move(*peer), "", name});
      if (link.value != 0) silent_callers_.push_back(link);
    }
  }
}

void HostExchange::receive_all(LinkId link, std::vector<Arrival>& arrivals) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  for (int i = 0; i < kMostAtOnce; ++i) {
    auto message = found->second.socket.receive(kPacketBytes, 0);
    if (!message && message.error().code == Errc::kTimedOut) return;
    found->second.has_spoken = true;
    if (!message) {
      if (message.error().code == Errc::kInvalidArgument) continue;
      const bool is_news = found->second.is_peer || !found->second.name.empty();
      drop_link(link);
      // Telling costs a look at every connection, and a process connects for each message that it
      // forwards.
      if (is_news) arrivals.push_back({link, {}, {}});
      return;
    }
    if (auto packet = parse_packet(message->bytes)) {
      if (!packet->from_network) found->second.is_peer = true;
      arrivals.push_back({link, std::move(packet), found->second.called_name});
    }
  }
}

void HostExchange::wake_at(Nanoseconds when) const {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  itimerspec at{};
  if (when != kNever) {
    // All zero would be never.
    const Nanoseconds time = std::max<Nanoseconds>(when, 1);
    at.it_value.tv_sec = static_cast<time_t>(time / kSecond);
    at.it_value.tv_nsec = static_cast<long>(time % kSecond);
  }
  timerfd_settime(timer_.checked(), TFD_TIMER_ABSTIME, &at, nullptr);
}

}  // namespace weft::cm
