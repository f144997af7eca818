// What the tests of the UDP port share: ports on addresses of their own, a receiver that remembers,
// frames, and a plain socket that can send and see any bytes. Tests run side by side in several
// processes and RoCE has one UDP port, so each takes loopback addresses that nobody else has.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "network/address.h"
#include "port/udp_port.h"
#include "wire/datagram.h"

namespace weft::port::test {

using Bytes = std::vector<std::byte>;
using std::chrono::steady_clock;

inline constexpr std::chrono::seconds kPatience{20};

inline Gid random_ipv4() {
  const auto draw = base::system_random().draw<std::uint32_t>();
  return Gid::ipv4(127, static_cast<std::uint8_t>(1 + draw % 250),
                   static_cast<std::uint8_t>(draw >> 8), static_cast<std::uint8_t>(draw >> 16));
}

inline bool ipv6_available() {
  const host::Fd probe(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto loopback = to_socket_address({network::parse_address("::1").value(), 0}, 0);
  return probe.get() >= 0 && bind(probe.get(), &loopback.generic, loopback.size) == 0;
}

/// IPv6 has one loopback address: wait until another test gives it back.
inline std::unique_ptr<UdpPort> open_port(bool ipv4 = true) {
  const auto deadline = steady_clock::now() + 3 * kPatience;
  for (;;) {
    auto port = UdpPort::open(ipv4 ? random_ipv4() : network::parse_address("::1").value());
    if (port) return std::move(*port);
    if (port.error().code != Errc::kBusy || steady_clock::now() > deadline) {
      ADD_FAILURE() << port.error().message;
      return nullptr;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

struct Received {
  network::Flow flow;
  Bytes packet;
};

class Collector final : public Receiver {
 public:
  void on_frame(const Incoming& frame) override {
    frames.push_back({frame.flow, Bytes(frame.packet.begin(), frame.packet.end())});
  }
  void on_bad_checksum() override { ++bad_checksums; }
  void on_malformed() override { ++malformed; }
  std::size_t all() const { return frames.size() + bad_checksums + malformed; }

  std::vector<Received> frames;
  std::size_t bad_checksums = 0;
  std::size_t malformed = 0;
};

inline bool readable(int fd, int timeout_ms) {
  pollfd poll_for{fd, POLLIN, 0};
  return poll(&poll_for, 1, timeout_ms) == 1;
}

/// The own socket, what is forwarded, the connected socket: those that the port has.
inline std::vector<int> wait_fds(const Port& port) {
  std::vector<int> fds;
  port.add_wait_fds(fds);
  return fds;
}

/// Until `count` datagrams have come, good or bad.
inline void receive(UdpPort& port, Collector& collector, std::size_t count) {
  const auto deadline = steady_clock::now() + kPatience;
  while (collector.all() < count && steady_clock::now() < deadline) {
    readable(wait_fds(port)[0], 100);
    port.receive(collector, count - collector.all());
  }
  EXPECT_EQ(collector.all(), count);
}

inline network::Flow flow_to(const Gid& destination, std::uint16_t source_port = 0xC000) {
  network::Flow flow;
  flow.destination = destination;
  flow.source_port = source_port;
  return flow;
}

inline void make_send(network::OutFrame& frame, std::uint32_t psn,
                      std::span<const std::span<std::byte>> pieces = {}) {
  frame.headers.bth.opcode = wire::Opcode::kRcSendOnly;
  frame.headers.bth.dest_qp = Qpn(0x123456);
  frame.headers.bth.psn = Psn(psn);
  for (const auto piece : pieces) frame.add_piece(nullptr, {piece.data(), piece.size(), 0});
  frame.finish();
}

inline Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  Bytes out(count);
  base::SeededRandom random(seed);
  random.fill(out);
  return out;
}

inline std::uint32_t psn_of(const Received& received) {
  return wire::parse_packet(received.packet).value().bth.psn.value();
}

/// A UDP socket that knows nothing of RoCE.
class PlainSocket {
 public:
  explicit PlainSocket(const Gid& address, std::uint16_t port = 0)
      : socket_(::socket(address.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
        own_{address, port} {
    const SocketAddress name = to_socket_address(own_, 0);
    bound_ = bind(socket_.get(), &name.generic, name.size) == 0;
    SocketAddress bound = name;
    getsockname(socket_.get(), &bound.generic, &bound.size);
    own_ = to_endpoint(bound).value();
  }
  int fd() const { return socket_.get(); }
  bool bound() const { return bound_; }
  const Endpoint& own() const { return own_; }

  void send(const Endpoint& to, std::span<const std::byte> bytes) const {
    const SocketAddress name = to_socket_address(to, 0);
    ASSERT_EQ(sendto(socket_.get(), bytes.data(), bytes.size(), 0, &name.generic, name.size),
              static_cast<ssize_t>(bytes.size()));
  }
  std::pair<Endpoint, Bytes> receive() const {
    Bytes bytes(65536);
    SocketAddress from;
    from.size = sizeof from.v6;
    if (!readable(socket_.get(), 20'000)) return {};
    const ssize_t got =
        recvfrom(socket_.get(), bytes.data(), bytes.size(), 0, &from.generic, &from.size);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return {to_endpoint(from).value(), bytes};
  }

 private:
  host::Fd socket_;
  Endpoint own_;
  bool bound_ = false;
};

/// The datagram that the kernel takes the headers off, with headers as this test believes that it
/// writes them: IPv4 identification 0 unless the sender counts, don't fragment.
inline Bytes with_ip_headers(const Endpoint& from, const Gid& to, std::span<const std::byte> rest,
                             std::uint16_t identification = 0) {
  Bytes out((to.is_ipv4() ? wire::Ipv4::kSize : wire::Ipv6::kSize) + wire::Udp::kSize);
  const auto udp_length = static_cast<std::uint16_t>(wire::Udp::kSize + rest.size());
  if (to.is_ipv4()) {
    wire::Ipv4 ip;
    ip.total_length = static_cast<std::uint16_t>(wire::Ipv4::kSize + udp_length);
    ip.identification = identification;
    ip.dont_fragment = true;
    std::copy_n(from.address.raw.begin() + 12, 4, ip.source.begin());
    std::copy_n(to.raw.begin() + 12, 4, ip.destination.begin());
    ip.emit(out);
  } else {
    wire::Ipv6 ip;
    ip.payload_length = udp_length;
    ip.source = from.address;
    ip.destination = to;
    ip.emit(out);
  }
  wire::Udp udp;
  udp.source_port = from.port;
  udp.length = udp_length;
  udp.emit(std::span(out).last<wire::Udp::kSize>());
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

/// BTH to ICRC of a SEND, as a sender at `from` has to write it.
inline Bytes good_datagram(const Endpoint& from, const Gid& to, std::span<const std::byte> payload,
                           std::uint16_t identification = 0) {
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::kRcSendOnly;
  packet.bth.dest_qp = Qpn(7);
  packet.bth.pad_count = wire::pad_for(payload.size());
  packet.payload = payload;
  Bytes bytes(wire::kMaxHeaderBytes + payload.size() + 3);
  bytes.resize(wire::emit_packet(packet, bytes));
  bytes.resize(bytes.size() + wire::kIcrcSize);
  const Bytes whole = with_ip_headers(from, to, bytes, identification);
  const auto datagram = wire::split_datagram(whole);
  EXPECT_TRUE(datagram.has_value());
  wire::compute_icrc(*datagram).store(std::span(bytes).last<wire::kIcrcSize>());
  return bytes;
}

}  // namespace weft::port::test
