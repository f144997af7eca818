#include "port/packet_port.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "host/abstract_name.h"
#include "host/system_error.h"
#include "memory/guard.h"
#include "network/address.h"
#include "port/kernel_gate.h"
#include "port/packet_train.h"
#include "wire/ethernet.h"

namespace weft::port {
namespace {

constexpr std::size_t kMostTogether = 64;
constexpr std::size_t kFrameHeaders = wire::Ethernet::kSize + 4;

/// The kernel routes by the name that it is given, not by the header.
struct Destination {
  sockaddr_in6 v6{};
  sockaddr_in v4{};
  bool ipv4 = false;
};

bool read_destination(RawBytes packet, Destination& out) {
  const unsigned version = packet.empty() ? 0 : std::to_integer<unsigned>(packet[0]) >> 4;
  out.ipv4 = version == 4;
  if (version == 6 && packet.size() >= 40) {
    out.v6.sin6_family = AF_INET6;
    std::memcpy(&out.v6.sin6_addr, packet.data() + 24, sizeof out.v6.sin6_addr);
    return true;
  }
  if (version == 4 && packet.size() >= 20) {
    out.v4.sin_family = AF_INET;
    std::memcpy(&out.v4.sin_addr, packet.data() + 16, sizeof out.v4.sin_addr);
    return true;
  }
  return false;
}

bool is_busy(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS; }

/// One call for as many as it takes; frames that the network refuses are passed over.
SendOutcome send_messages(const host::Fd& socket, std::span<mmsghdr> messages) {
  std::size_t taken = 0;
  while (taken < messages.size()) {
    const int sent = sendmmsg(socket.get(), messages.data() + taken,
                              static_cast<unsigned>(messages.size() - taken), MSG_DONTWAIT);
    if (sent > 0) {
      taken += static_cast<std::size_t>(sent);
    } else if (errno == EINTR) {
      continue;
    } else if (is_busy(errno)) {
      return {SendStatus::kBusy, taken};
    } else {
      ++taken;  // no route, interface down, too long for it: lost
    }
  }
  return {SendStatus::kTaken, taken};
}

iovec piece(RawBytes bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // it is only read
}

}  // namespace

Result<std::unique_ptr<RawPort>> PacketPort::open(const Gid& address, RawUnclaimed unclaimed) {
  auto interface = find_raw_interface(address);
  if (!interface) return tl::unexpected(interface.error());
  auto receiver = open_frame_receiver();
  if (!receiver) return tl::unexpected(receiver.error());
  auto ring = PacketRing::make(*receiver, interface->max_packet + kFrameHeaders);
  if (!ring) return tl::unexpected(ring.error());
  if (auto bound = bind_receiver(*receiver, *interface); !bound) {
    return tl::unexpected(bound.error());
  }
  auto sender = open_frame_sender(*interface);
  if (!sender) return tl::unexpected(sender.error());
  // A machine may lack a family.
  auto ipv6_sender = open_packet_sender(*interface, false);
  auto ipv4_sender = open_packet_sender(*interface, true);
  if (!ipv6_sender && !ipv4_sender) return tl::unexpected(ipv6_sender.error());
  Sockets sockets{.receiver = std::move(*receiver),
                  .sender = std::move(*sender),
                  .ipv6_sender = {},
                  .ipv4_sender = {},
                  .train_sender = open_train_sender(*interface),
                  .gate = {}};
  if (ipv6_sender) sockets.ipv6_sender = std::move(*ipv6_sender);
  if (ipv4_sender) sockets.ipv4_sender = std::move(*ipv4_sender);
  if (unclaimed == RawUnclaimed::kDrop) {
    auto gate = close_kernel_gate(*interface);
    if (!gate) return tl::unexpected(gate.error());
    sockets.gate = std::move(*gate);
    let_through(sockets.receiver, true);
  }
  memory::install_guard();
  return std::unique_ptr<RawPort>(
      new PacketPort(std::move(*interface), std::move(*ring), std::move(sockets)));
}

PacketPort::PacketPort(RawInterface interface, PacketRing ring, Sockets sockets)
    : interface_(std::move(interface)),
      sockets_(std::move(sockets)),
      ring_(std::move(ring)),
      trains_(sockets_.train_sender.get() >= 0),
      listens_(sockets_.gate.get() >= 0) {}

SendOutcome PacketPort::send(std::span<const RawBytes> frames) {
  if (!trains_.load(std::memory_order_relaxed)) return send_each(frames);
  // In order: what goes alone before what goes together behind it.
  std::size_t taken = 0, alone = 0;
  while (taken + alone < frames.size()) {
    const auto rest = frames.subspan(taken + alone);
    const std::size_t together = PacketTrain::length(rest);
    if (together == 1) {
      ++alone;
      continue;
    }
    const SendOutcome before = send_each(frames.subspan(taken, alone));
    taken += before.taken;
    if (before.status != SendStatus::kTaken) return {before.status, taken};
    alone = 0;
    const auto sent = send_train(rest.first(together));
    if (!sent) break;
    if (*sent != SendStatus::kTaken) return {*sent, taken};
    taken += together;
  }
  const SendOutcome last = send_each(frames.subspan(taken));
  return {last.status, taken + last.taken};
}

std::optional<SendStatus> PacketPort::send_train(std::span<const RawBytes> frames) {
  const PacketTrain train(frames);
  for (;;) {
    if (sendmsg(sockets_.train_sender.get(), &train.message(), MSG_DONTWAIT) >= 0) {
      return SendStatus::kTaken;
    }
    if (errno == EINTR) continue;
    if (is_busy(errno)) return SendStatus::kBusy;
    if (errno == ENETDOWN || errno == ENXIO) return SendStatus::kTaken;  // lost, as one alone
    trains_.store(false, std::memory_order_relaxed);
    return std::nullopt;
  }
}

SendOutcome PacketPort::send_each(std::span<const RawBytes> frames) {
  std::array<mmsghdr, kMostTogether> messages;
  std::array<iovec, kMostTogether> pieces;
  std::size_t taken = 0;
  while (taken < frames.size()) {
    const std::size_t n = std::min(frames.size() - taken, kMostTogether);
    for (std::size_t i = 0; i < n; ++i) {
      pieces[i] = piece(frames[taken + i]);
      messages[i] = {};
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const SendOutcome outcome = send_messages(sockets_.sender, {messages.data(), n});
    taken += outcome.taken;
    if (outcome.status != SendStatus::kTaken) return {outcome.status, taken};
  }
  return {SendStatus::kTaken, taken};
}

SendOutcome PacketPort::send_packets(std::span<const RawBytes> packets) {
  std::array<mmsghdr, kMostTogether> messages;
  std::array<iovec, kMostTogether> pieces;
  std::array<Destination, kMostTogether> names;
  std::size_t taken = 0;
  while (taken < packets.size()) {
    std::size_t n = 0;
    for (; n < kMostTogether && taken + n < packets.size(); ++n) {
      names[n] = {};
      if (!read_destination(packets[taken + n], names[n])) break;
      if (names[n].ipv4 != names[0].ipv4) break;
      pieces[n] = piece(packets[taken + n]);
      messages[n] = {};
      msghdr& message = messages[n].msg_hdr;
      message.msg_iov = &pieces[n];
      message.msg_iovlen = 1;
      message.msg_name = names[n].ipv4 ? static_cast<void*>(&names[n].v4) : &names[n].v6;
      message.msg_namelen = names[n].ipv4 ? sizeof names[n].v4 : sizeof names[n].v6;
    }
    if (n == 0) {  // no IP packet: nobody would take it
      ++taken;
      continue;
    }
    const host::Fd& socket = names[0].ipv4 ? sockets_.ipv4_sender : sockets_.ipv6_sender;
    const SendOutcome outcome = send_messages(socket, {messages.data(), n});
    taken += outcome.taken;
    if (outcome.status != SendStatus::kTaken) return {outcome.status, taken};
  }
  return {SendStatus::kTaken, taken};
}

std::size_t PacketPort::receive(RawReceiver& receiver, std::size_t max) {
  return sockets_.receiver.get() >= 0 ? ring_.receive(receiver, max) : 0;
}

void PacketPort::add_wait_fds(std::vector<int>& fds) const {
  fds.push_back(sockets_.receiver.get());
}

void PacketPort::set_claims(const network::RawClaims& claims) {
  const std::lock_guard guard(claims_lock_);
  // What is kept from the kernel is counted, if not claimed.
  const bool listens = !claims.empty() || sockets_.gate.get() >= 0;
  if (listens_ != listens) {
    listens_ = listens;
    let_through(sockets_.receiver, listens_);
  }
  if (promiscuous_) return;
  promiscuous_ = std::ranges::any_of(claims.rows(), [&](const network::RawClaims::Row& row) {
    const auto& link = row.claim.match.link_destination;
    return !link.any() && !link.matches(interface_.link_address);
  });
  if (promiscuous_) join_promiscuously(sockets_.receiver, interface_);
}

/// A local socket with a name that says all of it: gone with its process, and one for each network
/// namespace.
Result<host::Fd> PacketPort::reserve(const RawKey& key) {
  std::string text = fmt::format("weft/raw/{}/", interface_.index);
  text += key.next_header ? fmt::format("{}/", *key.next_header) : "any/";
  text += key.destination ? network::to_string(*key.destination) : "any";
  if (key.link_destination) text += fmt::format("/{:02x}", fmt::join(*key.link_destination, ":"));
  const auto name = host::AbstractName::make(text);
  if (!name) return tl::unexpected(name.error());
  const host::ForkHold hold;
  host::Fd socket = host::make_local_socket();
  if (socket.get() >= 0 && bind(socket.get(), name->generic(), name->size) == 0) return socket;
  if (errno == EADDRINUSE) {
    return fail(Errc::kBusy, "key: a queue pair of another process has claimed the same at " +
                                 interface_.name + "; end that process, or claim a part of it");
  }
  return host::system_error("raw queue pair: reserving a key", errno);
}

}  // namespace weft::port
