#include "port/address_share.h"

#include <linux/filter.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/big_endian.h"
#include "base/random.h"
#include "host/own_names.h"
#include "host/same_user.h"
#include "host/settings.h"
#include "host/system_error.h"
#include "network/address.h"
#include "wire/bth.h"
#include "wire/udp.h"

namespace weft::port {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

/// Joining takes a millisecond; whoever holds the place longer is stopped.
constexpr milliseconds kJoinPatience{3000};
constexpr int kProbeWait_ms = 20;
constexpr Nanoseconds kAbsence_ns = 10'000'000;
/// Connections, and messages that are no frames, before we look elsewhere.
constexpr int kMostAtOnce = 16;

std::string name_of(const Gid& address, std::string_view what) {
  return "weft-port/" + network::to_string(address) + "/" + std::string(what);
}

// ---- the place of a socket among those of the address ------------------------------------------

/// No opcode has this number, and no frame is so short.
constexpr std::byte kProbeOpcode{0xFF};
constexpr std::size_t kProbeBytes = AddressShare::kProbeBytes;
using Probe = AddressShare::Probe;

Probe make_probe(unsigned slot, std::uint32_t nonce) {
  Probe probe{};
  probe[0] = kProbeOpcode;
  base::store_be24(&probe[5], slot << host::kBlockBits);
  base::store_be<std::uint32_t>(&probe[8], nonce);
  return probe;
}

/// Datagram for slot n to the n-th socket; out of range: the kernel chooses.
bool attach_selection(const host::Fd& socket) {
  std::array<sock_filter, 5> code{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, 4},  // the BTH's second word: the number is in its low bits
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, kMask24},
      {BPF_ALU | BPF_RSH | BPF_K, 0, 0, host::kBlockBits},
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, host::kNumberSlots - 1},
      {BPF_RET | BPF_A, 0, 0, 0},
  }};
  const sock_fprog program{code.size(), code.data()};
  return setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) ==
         0;
}

void detach_selection(const host::Fd& socket) {
  const int unused = 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof unused);
}

/// Which one of the sockets this is: the first place to which a datagram can be sent that arrives
/// here, since a new one stands behind all others.
std::optional<unsigned> find_place(const host::Fd& socket, const Gid& address,
                                   std::uint32_t interface) {
  const host::ForkHold hold;
  const host::Fd prober(::socket(address.is_ipv4() ? AF_INET : AF_INET6,
                                 SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const SocketAddress to = to_socket_address({address, wire::kRoceUdpPort}, interface);
  const SocketAddress own = to_socket_address({address, 0}, interface);
  if (prober.get() < 0 || bind(prober.get(), &own.generic, own.size) != 0) return std::nullopt;
  const auto nonce = static_cast<std::uint32_t>(getpid()) ^
                     static_cast<std::uint32_t>(SteadyClock::now().time_since_epoch().count());
  for (unsigned slot = 0; slot < host::kNumberSlots; ++slot) {
    const Probe probe = make_probe(slot, nonce);
    sendto(prober.get(), probe.data(), probe.size(), 0, &to.generic, to.size);
  }
  std::optional<unsigned> place;
  pollfd waiting{socket.get(), POLLIN, 0};
  while (poll(&waiting, 1, place ? 0 : kProbeWait_ms) == 1) {
    std::array<std::byte, 64> bytes;
    const ssize_t n = recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n != static_cast<ssize_t>(kProbeBytes)) continue;
    const unsigned slot = base::load_be24(&bytes[5]) >> host::kBlockBits;
    if (slot >= host::kNumberSlots || bytes[0] != kProbeOpcode ||
        !std::ranges::equal(make_probe(slot, nonce), std::span(bytes).first(kProbeBytes))) {
      continue;
    }
    place = std::min(place.value_or(slot), slot);
  }
  return place;
}

// ---- frames that are forwarded -----------------------------------------------------------------

/// In front of the packet.
struct ForwardHeader {
  SocketAddress from;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
};
static_assert(std::is_trivially_copyable_v<ForwardHeader>);

/// No other process has a slot of the address. Asked by the one whose turn it is to join.
bool is_alone(const Gid& address) {
  const std::string turn = name_of(address, "join");
  const auto names = host::own_names(name_of(address, ""));
  return host::owners_are_told() && std::ranges::all_of(names, [&](const std::string& name) {
           return name.starts_with(turn);
         });
}

Result<host::LocalSocket> lock_joining(const Gid& address) {
  const auto deadline = SteadyClock::now() + kJoinPatience;
  for (;;) {
    auto turn = host::LocalSocket::listen(name_of(address, "join"));
    if (turn || turn.error().code != Errc::kBusy) return turn;
    if (SteadyClock::now() > deadline) {
      return fail(Errc::kTimedOut, "address " + network::to_string(address) +
                                       ": another process has been joining it for seconds; is it "
                                       "stopped?");
    }
    // Not in step: two who see each other let go, and come again.
    std::this_thread::sleep_for(
        std::chrono::microseconds(500 + base::system_random().draw<std::uint8_t>() * 4));
  }
}

}  // namespace

AddressShare::AddressShare(const Gid& address, unsigned slot, host::LocalSocket listener,
                           host::Fd epoll)
    : address_(address), slot_(slot), listener_(std::move(listener)), epoll_(std::move(epoll)) {}

Result<AddressShare::Joined> AddressShare::join(const Gid& address, std::uint32_t interface,
                                                std::optional<unsigned> wanted) {
  const auto turn = lock_joining(address);
  if (!turn) return tl::unexpected(turn.error());
  auto socket = open_receive_socket(address, interface, Sharing::kShared);
  if (!socket) return tl::unexpected(socket.error());
  // For all that have it. Who is alone has no need of it, and frames arrive sooner without.
  std::optional<unsigned> place;
  if (!is_alone(address) && host::filters_addresses() && attach_selection(*socket)) {
    place = find_place(*socket, address, interface);
    if (place == 0u) detach_selection(*socket);
  }
  const unsigned first = wanted.value_or(place.value_or(0));
  for (unsigned i = 0; i < (wanted ? 1 : host::kNumberSlots); ++i) {
    const unsigned slot = (first + i) % host::kNumberSlots;
    auto share = open(address, slot);
    if (!share && share.error().code == Errc::kBusy) continue;
    if (!share) return tl::unexpected(share.error());
    enable_gro(*socket);
    return Joined{std::move(*socket), std::move(*share)};
  }
  return fail(Errc::kBusy,
              "address " + network::to_string(address) +
                  ": as many processes as can share an address have this one; use another");
}

Result<std::unique_ptr<AddressShare>> AddressShare::open(const Gid& address, unsigned slot) {
  auto listener = host::LocalSocket::listen(name_of(address, std::to_string(slot)));
  if (!listener) return tl::unexpected(listener.error());
  const host::ForkHold hold;
  host::Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kListener;
  if (!epoll || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, listener->fd(), &event) != 0) {
    return host::system_error("address " + network::to_string(address) + ": epoll", errno);
  }
  return std::unique_ptr<AddressShare>(
      new AddressShare(address, slot, std::move(*listener), std::move(epoll)));
}

AddressShare::Probe AddressShare::blank_probe() { return make_probe(0, 0); }

bool AddressShare::is_probe(std::span<const std::byte> datagram) {
  return datagram.size() == kProbeBytes && datagram[0] == kProbeOpcode;
}

// ---- to others ---------------------------------------------------------------------------------

/// False: nobody has the slot, or nobody of this user.
bool AddressShare::connect_to(unsigned slot) {
  auto socket = host::LocalSocket::connect(name_of(address_, std::to_string(slot)));
  if (socket) outgoing_[slot] = std::move(*socket);
  return socket.has_value();
}

bool AddressShare::forward(Qpn number, const Incoming& frame, Nanoseconds now) {
  const unsigned slot = host::slot_of(number);
  if (now < absent_until_[slot]) return false;
  ForwardHeader forward_header{to_socket_address({frame.flow.source, frame.flow.source_port}, 0),
                               frame.flow.traffic_class, frame.flow.hop_limit};
  std::array<iovec, 2> parts{{{&forward_header, sizeof forward_header},
                              {const_cast<std::byte*>(frame.packet.data()), frame.packet.size()}}};
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  // The peer of an older connection may have ended, and another process have its slot.
  for (const bool again : {false, true}) {
    if ((again || outgoing_[slot].fd() < 0) && !connect_to(slot)) break;
    if (sendmsg(outgoing_[slot].fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    if (errno == EAGAIN || errno == ENOBUFS) return true;  // full: lost on the way
    outgoing_[slot].close();
  }
  absent_until_[slot] = now + kAbsence_ns;
  return false;
}

// ---- from others -------------------------------------------------------------------------------

/// Everybody on the host can connect to a name; only our own user's processes may forward.
void AddressShare::accept_connections() {
  for (int i = 0; i < kMostAtOnce; ++i) {
    auto connection = listener_.accept();
    if (!connection) return;
    const auto who = connection->peer();
    const auto place =
        std::ranges::find_if(incoming_, [](const auto& each) { return each.fd() < 0; });
    if (!who || !host::is_same_user(who->uid, connection->fd()) || place == incoming_.end())
      continue;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(place - incoming_.begin());
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->fd(), &event) == 0) {
      *place = std::move(*connection);
    }
  }
}

/// The next connection that has something.
bool AddressShare::find_readable() {
  for (int i = 0; i < 2; ++i) {
    epoll_event event{};
    if (epoll_wait(epoll_.get(), &event, 1, 0) != 1) return false;
    current_ = event.data.u32;
    if (current_ != kListener) return true;
    accept_connections();
  }
  return false;
}

std::optional<Incoming> AddressShare::take() {
  for (int i = 0; i < kMostAtOnce; ++i) {
    if (current_ == kListener && !find_readable()) return std::nullopt;
    host::LocalSocket& sender = incoming_[current_];
    const ssize_t n = recv(sender.fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (n <= 0) {
      if (n == 0 || (errno != EAGAIN && errno != EINTR && errno != ECONNRESET)) {
        // Not left to close(): a child between fork and its own close would keep the entry alive.
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, sender.fd(), nullptr);
        sender.close();
      }
      current_ = kListener;
      continue;
    }
    const auto size = static_cast<std::size_t>(n);
    ForwardHeader forward_header;
    if (size < sizeof forward_header + wire::Bth::kSize || size > buffer_.size()) continue;
    std::memcpy(&forward_header, buffer_.data(), sizeof forward_header);
    const auto source = to_endpoint(forward_header.from);
    if (!source || source->address.is_ipv4() != address_.is_ipv4()) continue;
    Incoming frame;
    frame.flow.source = source->address;
    frame.flow.source_port = source->port;
    frame.flow.destination = address_;
    frame.flow.traffic_class = forward_header.traffic_class;
    frame.flow.hop_limit = forward_header.hop_limit;
    frame.packet = std::span<const std::byte>(buffer_).first(size).subspan(sizeof forward_header);
    return frame;
  }
  return std::nullopt;
}

}  // namespace weft::port
