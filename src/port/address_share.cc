#include "port/address_share.h"

#include <linux/filter.h>
#include <poll.h>
#include <sys/un.h>
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
#include "host/local_socket.h"
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
/// Parcels of strangers that are thrown away before we look elsewhere.
constexpr int kMostStrangers = 16;

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
  base::store_be24(&probe[5], slot << kNumberBlockBits);
  base::store_be<std::uint32_t>(&probe[8], nonce);
  return probe;
}

/// Datagram for slot n to the n-th socket; out of range: the kernel chooses.
bool attach_selection(const Socket& socket) {
  std::array<sock_filter, 5> code{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, 4},  // the BTH's second word: the number is in its low bits
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, kMask24},
      {BPF_ALU | BPF_RSH | BPF_K, 0, 0, kNumberBlockBits},
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, kNumberSlots - 1},
      {BPF_RET | BPF_A, 0, 0, 0},
  }};
  const sock_fprog program{code.size(), code.data()};
  return setsockopt(socket.fd(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) ==
         0;
}

void detach_selection(const Socket& socket) {
  const int unused = 0;
  setsockopt(socket.fd(), SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof unused);
}

/// Which one of the sockets this is: the first place to which a datagram can be sent that arrives
/// here, since a new one stands behind all others.
std::optional<unsigned> find_place(const Socket& socket, const Gid& address,
                                   std::uint32_t interface) {
  const host::ForkHold hold;
  const Socket prober(::socket(address.is_ipv4() ? AF_INET : AF_INET6,
                               SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const SocketAddress to = to_socket_address({address, wire::kRoceUdpPort}, interface);
  const SocketAddress own = to_socket_address({address, 0}, interface);
  if (prober.fd() < 0 || bind(prober.fd(), &own.generic, own.size) != 0) return std::nullopt;
  const auto nonce = static_cast<std::uint32_t>(getpid()) ^
                     static_cast<std::uint32_t>(SteadyClock::now().time_since_epoch().count());
  for (unsigned slot = 0; slot < kNumberSlots; ++slot) {
    const Probe probe = make_probe(slot, nonce);
    sendto(prober.fd(), probe.data(), probe.size(), 0, &to.generic, to.size);
  }
  std::optional<unsigned> place;
  pollfd waiting{socket.fd(), POLLIN, 0};
  while (poll(&waiting, 1, place ? 0 : kProbeWait_ms) == 1) {
    std::array<std::byte, 64> bytes;
    const ssize_t n = recv(socket.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n != static_cast<ssize_t>(kProbeBytes)) continue;
    const unsigned slot = base::load_be24(&bytes[5]) >> kNumberBlockBits;
    if (slot >= kNumberSlots || bytes[0] != kProbeOpcode ||
        !std::ranges::equal(make_probe(slot, nonce), std::span(bytes).first(kProbeBytes))) {
      continue;
    }
    place = std::min(place.value_or(slot), slot);
  }
  return place;
}

// ---- what is handed over -----------------------------------------------------------------------

struct LocalName {
  sockaddr_un address{};
  socklen_t size = 0;

  explicit LocalName(const std::string& text) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, text.data(), text.size());  // a zero first: abstract
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* generic() const {
    const void* const any = &address;
    return static_cast<const sockaddr*>(any);
  }
};

/// In front of the packet.
struct ParcelHeader {
  SocketAddress from;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
};
static_assert(std::is_trivially_copyable_v<ParcelHeader>);

host::Fd open_inbox(const std::string& name) {
  const host::ForkHold hold;
  host::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  const LocalName local(name);
  if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      bind(fd.get(), local.generic(), local.size) != 0) {
    return {};
  }
  return fd;
}

/// Everybody on the host can send to a name; only our own user's processes hand over.
bool from_same_user(msghdr& header) {
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_CREDENTIALS) continue;
    ucred who{};
    std::memcpy(&who, CMSG_DATA(at), sizeof who);
    return who.uid == geteuid();
  }
  return false;
}

Result<host::LocalSocket> take_turn(const Gid& address) {
  const auto deadline = SteadyClock::now() + kJoinPatience;
  for (;;) {
    auto turn = host::LocalSocket::listen(name_of(address, "join"));
    if (turn || turn.error().code != Errc::kBusy) return turn;
    if (SteadyClock::now() > deadline) {
      return fail(Errc::kTimedOut, "address " + network::to_string(address) +
                                       ": another process has been joining it for seconds; is it "
                                       "stopped?");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace

AddressShare::AddressShare(const Gid& address, unsigned slot, host::Fd inbox)
    : address_(address), slot_(slot), inbox_(std::move(inbox)) {}

Result<AddressShare::Joined> AddressShare::join(const Gid& address, std::uint32_t interface,
                                                std::optional<unsigned> wanted) {
  const auto turn = take_turn(address);
  if (!turn) return tl::unexpected(turn.error());
  auto socket = open_receive_socket(address, interface, Sharing::kShared);
  if (!socket) return tl::unexpected(socket.error());
  // For all that have it. Who is alone has no need of it, and frames arrive sooner without.
  attach_selection(*socket);
  const auto place = find_place(*socket, address, interface);
  if (place == 0u) detach_selection(*socket);
  const unsigned first = wanted.value_or(place.value_or(0));
  for (unsigned i = 0; i < (wanted ? 1 : kNumberSlots); ++i) {
    const unsigned slot = (first + i) % kNumberSlots;
    host::Fd inbox = open_inbox(name_of(address, std::to_string(slot)));
    if (!inbox) continue;
    accept_runs(*socket);
    return Joined{std::move(*socket),
                  std::unique_ptr<AddressShare>(new AddressShare(address, slot, std::move(inbox)))};
  }
  return fail(Errc::kBusy,
              "address " + network::to_string(address) +
                  ": as many processes as can share an address have this one; use another");
}

AddressShare::Probe AddressShare::blank_probe() { return make_probe(0, 0); }

bool AddressShare::is_probe(std::span<const std::byte> datagram) {
  return datagram.size() == kProbeBytes && datagram[0] == kProbeOpcode;
}

bool AddressShare::hand_over(Qpn number, const Parcel& parcel, Nanoseconds now) {
  const unsigned slot = slot_of(number);
  if (now < absent_until_[slot]) return false;
  ParcelHeader parcel_header{parcel.from, parcel.traffic_class, parcel.hop_limit};
  std::array<iovec, 2> parts{
      {{&parcel_header, sizeof parcel_header},
       {const_cast<std::byte*>(parcel.packet.data()), parcel.packet.size()}}};
  LocalName to(name_of(address_, std::to_string(slot)));
  msghdr header{};
  header.msg_name = &to.address;
  header.msg_namelen = to.size;
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  if (sendmsg(inbox_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
  if (errno == EAGAIN || errno == ENOBUFS) return true;  // full: lost on the way
  absent_until_[slot] = now + kAbsence_ns;
  return false;
}

std::optional<AddressShare::Parcel> AddressShare::take() {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(ucred))> control;
  iovec part{buffer_.data(), buffer_.size()};
  for (int i = 0; i < kMostStrangers; ++i) {
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t n = recvmsg(inbox_.get(), &header, MSG_DONTWAIT);
    if (n < 0) return std::nullopt;
    const auto size = static_cast<std::size_t>(n);
    ParcelHeader parcel_header;
    if (size < sizeof parcel_header + wire::Bth::kSize || (header.msg_flags & MSG_TRUNC) != 0 ||
        !from_same_user(header)) {
      continue;
    }
    std::memcpy(&parcel_header, buffer_.data(), sizeof parcel_header);
    return Parcel{parcel_header.from, parcel_header.traffic_class, parcel_header.hop_limit,
                  std::span<const std::byte>(buffer_).first(size).subspan(sizeof parcel_header)};
  }
  return std::nullopt;
}

}  // namespace weft::port
