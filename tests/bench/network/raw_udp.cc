// Plain UDP sockets: a ping-pong that spins, and a stream of messages that the kernel cuts (GSO)
// and joins (GRO), whose sender never has more under way than the receiver's buffer holds.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "laps.h"
#include "places.h"

namespace weft::bench {
namespace {

constexpr std::uint16_t kPort = 4799;  // the same at both ends, as the addresses differ
constexpr std::size_t kPingBytes = 64;
constexpr int kBufferBytes = 4 << 20;
constexpr std::uint64_t kUnderWayBytes = 384 << 10;

sockaddr_in socket_address(Side side, std::uint16_t port = kPort) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  if (inet_pton(AF_INET, places().of(side).address.c_str(), &out.sin_addr) != 1) {
    give_up("address:", "IPv4 only");
  }
  return out;
}

const sockaddr* generic(const sockaddr_in& address) {
  const void* const any = &address;
  return static_cast<const sockaddr*>(any);
}

int bound_socket(Side side, std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_in mine = socket_address(side, port);
  if (bind(fd, generic(mine), sizeof mine) != 0) give_up("raw socket:", std::strerror(errno));
  return fd;
}

class RawSocket {
 public:
  explicit RawSocket(Side side) : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    set(SOL_SOCKET, SO_RCVBUF, kBufferBytes);
    set(SOL_SOCKET, SO_SNDBUF, kBufferBytes);
    const sockaddr_in mine = socket_address(side), theirs = socket_address(other(side));
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&mine), sizeof mine) != 0 ||
        connect(fd_, reinterpret_cast<const sockaddr*>(&theirs), sizeof theirs) != 0) {
      give_up("raw socket:", std::strerror(errno));
    }
  }
  ~RawSocket() { close(fd_); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  void set(int level, int name, int value) const {
    setsockopt(fd_, level, name, &value, sizeof value);
  }
  bool send(std::span<const std::byte> bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), 0) >= 0;
  }
  /// 0: nothing is there.
  std::size_t receive(std::span<std::byte> into) const {
    const ssize_t n = recv(fd_, into.data(), into.size(), MSG_DONTWAIT);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }

 private:
  const int fd_;
};

}  // namespace

void measure_raw_latency(const Lane& lane) {
  enter_place(lane);
  const RawSocket socket(lane.side());
  std::array<std::byte, 2048> bytes{};
  lane.meet();
  lane.sample("limit/udp_ping_pong", kPingBytes, "us", [&] {
    return ping_pong_us(
        lane.side(), [&](std::uint64_t) { socket.send(std::span(bytes).first(kPingBytes)); },
        [&](std::uint64_t) {
          while (socket.receive(bytes) == 0) {
          }
        });
  });
  lane.meet();
}

void measure_raw_frame_latency(const Lane& lane) {
  enter_place(lane);
  // As the UDP port does: a socket that hears, with everything that a frame's receiver must know,
  // and an unconnected one that sends.
  const int hears = bound_socket(lane.side(), kPort), sends = bound_socket(lane.side(), kPort + 1);
  const auto set = [](int fd, int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof value);
  };
  set(hears, IPPROTO_IP, IP_RECVTTL, 1);
  set(hears, IPPROTO_IP, IP_RECVTOS, 1);
  set(hears, IPPROTO_UDP, UDP_GRO, 1);
  set(sends, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  const sockaddr_in theirs = socket_address(other(lane.side()), kPort);
  std::array<std::byte, 2048> bytes{};
  alignas(cmsghdr) std::array<std::byte, 128> control{};
  lane.meet();
  lane.sample("limit/udp_frame_ping_pong", kPingBytes, "us", [&] {
    return ping_pong_us(
        lane.side(),
        [&](std::uint64_t) {
          sendto(sends, bytes.data(), kPingBytes, 0, generic(theirs), sizeof theirs);
        },
        [&](std::uint64_t) {
          for (ssize_t got = -1; got <= 0;) {
            sockaddr_in from{};
            iovec part{bytes.data(), bytes.size()};
            msghdr header{};
            header.msg_name = &from;
            header.msg_namelen = sizeof from;
            header.msg_iov = &part;
            header.msg_iovlen = 1;
            header.msg_control = control.data();
            header.msg_controllen = control.size();
            got = recvmsg(hears, &header, MSG_DONTWAIT);
          }
        });
  });
  lane.meet();
  close(hears);
  close(sends);
}

void measure_raw_stream(const Lane& lane) {
  enter_place(lane);
  const RawSocket socket(lane.side());
  std::atomic<std::uint64_t>& arrived = lane.shared().credit.value;
  std::vector<std::byte> bytes(1 << 16);
  // Segments as large as the frames that weft sends over this way.
  const std::size_t segment = places().apart() ? 1040 : 4112;
  const std::size_t message = std::min<std::size_t>(65000 / segment, 64) * segment;
  socket.set(IPPROTO_UDP, UDP_GRO, 1);
  if (lane.first()) socket.set(IPPROTO_UDP, UDP_SEGMENT, static_cast<int>(segment));
  lane.meet();
  lane.sample("limit/udp_stream", 1 << 20, "GB/s", [&] {
    constexpr std::uint64_t kLapBytes = 8 << 20;
    if (lane.first()) {
      Laps laps;
      std::uint64_t sent = 0;
      for (std::uint64_t lap = kLapBytes; !laps.sample_complete(); lap += kLapBytes) {
        while (sent < lap) {
          const auto start = Clock::now();
          while (sent + message > arrived.load(std::memory_order_acquire) + kUnderWayBytes) {
            if (seconds_since(start) > 1) give_up("raw stream:", "bytes were lost");
          }
          if (socket.send(std::span(bytes).first(message))) sent += message;
        }
        laps.lap();
      }
      arrived.store(~std::uint64_t{0}, std::memory_order_release);
      return static_cast<double>(kLapBytes) / laps.median_seconds() / 1e9;
    }
    std::uint64_t total = 0;
    while (arrived.load(std::memory_order_relaxed) != ~std::uint64_t{0}) {
      const std::size_t n = socket.receive(bytes);
      if (n == 0) continue;
      std::uint64_t before = total;
      total += n;
      arrived.compare_exchange_strong(before, total, std::memory_order_release);
    }
    return 0.0;
  });
  arrived.store(0);
  lane.meet();
}

}  // namespace weft::bench
