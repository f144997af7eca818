#include "port/udp_port.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "memory/guard.h"
#include "memory/guard_leaves.h"
#include "network/address.h"
#include "port/local_interface.h"
#include "port/udp_datagram.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace weft::port {
namespace {

constexpr std::size_t kSendBatch = 16;
constexpr std::size_t kReceiveBatch = 32;
constexpr std::size_t kMaxPad = 3;
constexpr std::size_t kMaxFrameBytes = wire::kMaxHeaderBytes + bytes(Mtu::k4096) + wire::kIcrcSize;
/// 0 means the same, not beyond this link, but the kernel refuses it.
constexpr std::uint8_t kLeastHopLimit = 1;
/// Traffic class and hop limit, an int each at most.
constexpr std::size_t kControlBytes = 2 * CMSG_SPACE(sizeof(int));

// ---- one message for the kernel ---------------------------------------------------------------

/// Everything that a message header points at, but for the payload. Not cleared: most stays unused.
struct OutMessage {
  std::array<iovec, transport::kMaxPieces + 2> parts;
  std::array<std::byte, wire::kMaxHeaderBytes> headers;
  std::array<std::byte, kMaxPad + wire::kIcrcSize> tail;
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
  SocketAddress to;
};

/// Returns false when payload could not be read.
bool add_payload(wire::Icrc& icrc, std::span<const memory::Vmm::View> pieces) {
  return memory::guarded([&icrc, pieces] {
    for (const auto& piece : pieces) icrc.add({piece.data, piece.size});
  });
}

void put_control(msghdr& header, cmsghdr*& at, int level, int type, int value) {
  header.msg_controllen += CMSG_SPACE(sizeof value);
  at = at == nullptr ? CMSG_FIRSTHDR(&header) : CMSG_NXTHDR(&header, at);
  at->cmsg_level = level;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(at), &value, sizeof value);
}

/// Only what differs from the socket's own settings.
void put_quality(msghdr& header, OutMessage& message, const network::Flow& flow) {
  const network::Flow usual;
  if (flow.traffic_class == usual.traffic_class && flow.hop_limit == usual.hop_limit) return;
  message.control.fill(std::byte{0});
  header.msg_control = message.control.data();
  cmsghdr* at = nullptr;
  const bool ipv4 = flow.is_ipv4();
  const int level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  put_control(header, at, level, ipv4 ? IP_TOS : IPV6_TCLASS, flow.traffic_class);
  put_control(header, at, level, ipv4 ? IP_TTL : IPV6_HOPLIMIT,
              std::max(flow.hop_limit, kLeastHopLimit));
}

/// `flow` has the addresses and ports that the datagram will really have. Returns false when
/// payload could not be read.
bool fill(msghdr& header, OutMessage& message, const transport::OutFrame& frame,
          const network::Flow& flow) {
  const auto pieces = frame.pieces();
  const std::size_t pad = frame.headers.bth.pad_count;
  WEFT_ASSERT(pad <= kMaxPad);
  const std::size_t header_bytes = wire::emit_headers(frame.headers, message.headers);
  const std::size_t tail_bytes = pad + wire::kIcrcSize;

  wire::Icrc icrc = network::start_icrc(flow, header_bytes + frame.payload_bytes() + tail_bytes);
  icrc.add_first(std::span(message.headers).first(header_bytes));
  if (!add_payload(icrc, pieces)) return false;
  const auto tail = std::span(message.tail).first(tail_bytes);
  std::fill_n(tail.begin(), pad, std::byte{0});
  icrc.add(tail.first(pad));
  icrc.store(tail.last<wire::kIcrcSize>());

  std::size_t count = 0;
  message.parts[count++] = {message.headers.data(), header_bytes};
  for (const auto& piece : pieces) message.parts[count++] = {piece.data, piece.size};
  message.parts[count++] = {tail.data(), tail.size()};

  header = {};
  header.msg_name = &message.to.generic;
  header.msg_namelen = message.to.size;
  header.msg_iov = message.parts.data();
  header.msg_iovlen = count;
  put_quality(header, message, flow);
  return true;
}

// tsan notes what a call has read when the call returns, which an acknowledgement may overtake:
// then the program rightly writes to memory that seems to be still read. So these reads are not
// noted.
#if defined(WEFT_TSAN)
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
struct Unwatched {
  Unwatched() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~Unwatched() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};
#else
struct [[maybe_unused]] Unwatched {};
#endif

/// Offers all of them, going on after those that the network loses.
SendOutcome offer(int fd, std::span<mmsghdr> messages) {
  std::size_t taken = 0;
  while (taken < messages.size()) {
    const Unwatched unwatched;
    const int sent = sendmmsg(fd, &messages[taken], static_cast<unsigned>(messages.size() - taken),
                              MSG_DONTWAIT);
    if (sent > 0) {
      taken += static_cast<std::size_t>(sent);
      continue;
    }
    // An error is always about the first message: later ones come back as a short count.
    switch (classify_send_error(errno)) {
      case SendError::kBusy:
        return {SendStatus::kBusy, taken};
      case SendError::kFaulted:
        return {SendStatus::kFaulted, taken};
      case SendError::kLost:
        ++taken;
        break;
    }
  }
  return {SendStatus::kTaken, taken};
}

// ---- what came along with a datagram ----------------------------------------------------------

/// IPv4's type of service comes as one byte, all the others as an int.
std::uint8_t control_value(const cmsghdr& control) {
  if (control.cmsg_level == IPPROTO_IP && control.cmsg_type == IP_TOS) return *CMSG_DATA(&control);
  int value = 0;
  std::memcpy(&value, CMSG_DATA(&control), sizeof value);
  return static_cast<std::uint8_t>(value);
}

void read_quality(msghdr& header, Arrival& arrival) {
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    const bool ipv4 = at->cmsg_level == IPPROTO_IP;
    if (!ipv4 && at->cmsg_level != IPPROTO_IPV6) continue;
    if (at->cmsg_type == (ipv4 ? IP_TOS : IPV6_TCLASS)) arrival.traffic_class = control_value(*at);
    if (at->cmsg_type == (ipv4 ? IP_TTL : IPV6_HOPLIMIT)) arrival.hop_limit = control_value(*at);
  }
}

}  // namespace

/// Buffers and headers for one call of recvmmsg.
struct UdpPort::ReceiveBatch {
  struct Slot {
    std::array<std::byte, kMaxFrameBytes> bytes;
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
    SocketAddress from;
    iovec part;
  };
  std::array<mmsghdr, kReceiveBatch> headers;
  std::array<Slot, kReceiveBatch> slots;

  std::size_t receive(int fd, std::size_t max) {
    for (std::size_t i = 0; i < max; ++i) {
      Slot& slot = slots[i];
      slot.part = {slot.bytes.data(), slot.bytes.size()};
      msghdr& header = headers[i].msg_hdr;
      header = {};
      header.msg_name = &slot.from.generic;
      header.msg_namelen = sizeof slot.from.v6;
      header.msg_iov = &slot.part;
      header.msg_iovlen = 1;
      header.msg_control = slot.control.data();
      header.msg_controllen = slot.control.size();
    }
    const int got = recvmmsg(fd, headers.data(), static_cast<unsigned>(max), MSG_DONTWAIT, nullptr);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

  Arrival arrival(std::size_t i) {
    msghdr& header = headers[i].msg_hdr;
    Arrival out;
    out.from = slots[i].from;
    out.from.size = header.msg_namelen;
    out.bytes = std::span(slots[i].bytes).first(headers[i].msg_len);
    out.truncated = (header.msg_flags & MSG_TRUNC) != 0;
    read_quality(header, out);
    return out;
  }
};

Result<std::unique_ptr<UdpPort>> UdpPort::open(const Gid& address) {
  const bool unspecified = address == Gid{} || address == Gid::ipv4(0, 0, 0, 0);
  const bool multicast =
      address.is_ipv4() ? (address.raw[12] & 0xF0) == 0xE0 : address.raw[0] == 0xFF;
  if (unspecified || multicast) {
    return fail(Errc::kInvalidArgument,
                "address " + network::to_string(address) +
                    ": names no single port, and each frame's checksum covers both addresses; use "
                    "one that `ip address` lists");
  }
  const auto interface = find_interface(address);
  const std::uint32_t index = interface ? interface->index : 0;
  auto receive_socket = open_receive_socket(address, index);
  if (!receive_socket) return tl::unexpected(receive_socket.error());
  auto send_socket = open_send_socket(address, index, 0);
  if (!send_socket) return tl::unexpected(send_socket.error());
  memory::install_guard();
  return std::unique_ptr<UdpPort>(new UdpPort(address, index, mtu_of_address(address, interface),
                                              std::move(*receive_socket), std::move(*send_socket)));
}

UdpPort::UdpPort(const Gid& address, std::uint32_t interface, Mtu max_mtu, Socket receive_socket,
                 SendSocket send_socket)
    : address_(address),
      interface_(interface),
      max_mtu_(max_mtu),
      receive_socket_(std::move(receive_socket)),
      first_send_socket_(std::move(send_socket)),
      batch_(std::make_unique<ReceiveBatch>()) {}

UdpPort::~UdpPort() = default;

const SendSocket& UdpPort::send_socket(const network::Flow& flow) {
  const std::size_t index = flow.source_port % kSendSockets;
  if (index == 0) return first_send_socket_;
  SendSlot& slot = more_send_sockets_[index - 1];
  std::call_once(slot.once, [&] {
    if (auto opened = open_send_socket(address_, interface_, index)) {
      slot.opened = std::move(*opened);
    }
  });
  return slot.opened ? *slot.opened : first_send_socket_;
}

SendOutcome UdpPort::send(std::span<const Outgoing> frames) {
  std::size_t taken = 0;
  while (taken < frames.size()) {
    if (frames[taken].flow.is_ipv4() != address_.is_ipv4()) {
      ++taken;
      continue;
    }
    const SendOutcome outcome = send_run(frames.subspan(taken));
    taken += outcome.taken;
    if (outcome.status != SendStatus::kTaken) return {outcome.status, taken};
  }
  return {SendStatus::kTaken, taken};
}

network::Flow UdpPort::flow_on_wire(const network::Flow& flow) {
  network::Flow out = flow;
  out.source = address_;
  out.source_port = send_socket(flow).port;
  out.hop_limit = std::max(flow.hop_limit, kLeastHopLimit);
  return out;
}

/// The first frames, as many as go through one socket in one call.
SendOutcome UdpPort::send_run(std::span<const Outgoing> frames) {
  const SendSocket& socket = send_socket(frames.front().flow);
  std::array<OutMessage, kSendBatch> messages;
  std::array<mmsghdr, kSendBatch> headers;
  std::size_t count = 0;
  bool readable = true;
  while (count < std::min(kSendBatch, frames.size())) {
    network::Flow flow = frames[count].flow;
    if (flow.is_ipv4() != address_.is_ipv4() || &send_socket(flow) != &socket) break;
    flow.source = address_;
    flow.source_port = socket.port;
    OutMessage& message = messages[count];
    message.to = to_socket_address({flow.destination, wire::kRoceUdpPort}, interface_);
    readable = fill(headers[count].msg_hdr, message, *frames[count].frame, flow);
    if (!readable) break;
    ++count;
  }
  const SendOutcome outcome = offer(socket.socket.fd(), std::span(headers).first(count));
  if (outcome.status == SendStatus::kTaken && !readable) {
    return {SendStatus::kFaulted, outcome.taken};
  }
  return outcome;
}

std::size_t UdpPort::receive(Receiver& receiver, std::size_t max) {
  std::size_t handed_up = 0;
  for (std::size_t seen = 0; seen < max;) {
    const std::size_t wanted = std::min(max - seen, kReceiveBatch);
    const std::size_t got = batch_->receive(receive_socket_.fd(), wanted);
    for (std::size_t i = 0; i < got; ++i) {
      const auto incoming = to_incoming(batch_->arrival(i), address_);
      if (incoming) {
        ++handed_up;
        receiver.on_frame(*incoming);
      } else if (incoming.error() == Drop::kBadChecksum) {
        receiver.on_bad_checksum();
      } else {
        receiver.on_malformed();
      }
    }
    seen += got;
    if (got < wanted) break;
  }
  return handed_up;
}

}  // namespace weft::port
