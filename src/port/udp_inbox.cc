#include "port/udp_inbox.h"

#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "port/address_share.h"
#include "wire/icrc_identification.h"
#include "wire/packet.h"

namespace weft::port {
namespace {

constexpr std::size_t kMaxFrameBytes = wire::kMaxHeaderBytes + bytes(Mtu::k4096) + wire::kIcrcSize;
constexpr std::size_t kLeastFrameBytes = wire::Bth::kSize + wire::kIcrcSize;
/// Traffic class, hop limit, size of a segment.
constexpr std::size_t kControlBytes = 3 * CMSG_SPACE(sizeof(int));

/// IPv4's type of service comes as one byte, all the others as an int.
int control_value(const cmsghdr& control) {
  if (control.cmsg_level == IPPROTO_IP && control.cmsg_type == IP_TOS) {
    return *CMSG_DATA(&control);
  }
  int value = 0;
  std::memcpy(&value, CMSG_DATA(&control), sizeof value);
  return value;
}

struct Quality {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::size_t segment_bytes = 0;
};

Quality read_control(msghdr& header) {
  Quality out;
  for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
    const int value = control_value(*at);
    if (at->cmsg_level == IPPROTO_UDP && at->cmsg_type == UDP_GRO) {
      out.segment_bytes = value > 0 ? static_cast<std::size_t>(value) : 0;
    }
    const bool ipv4 = at->cmsg_level == IPPROTO_IP;
    if (!ipv4 && at->cmsg_level != IPPROTO_IPV6) continue;
    if (at->cmsg_type == (ipv4 ? IP_TOS : IPV6_TCLASS)) {
      out.traffic_class = static_cast<std::uint8_t>(value);
    }
    if (at->cmsg_type == (ipv4 ? IP_TTL : IPV6_HOPLIMIT)) {
      out.hop_limit = static_cast<std::uint8_t>(value);
    }
  }
  return out;
}

bool same(const SocketAddress& a, const SocketAddress& b) {
  return a.size == b.size && std::memcmp(&a.generic, &b.generic, a.size) == 0;
}

}  // namespace

UdpInbox::UdpInbox(const Gid& local)
    : local_(local), bytes_(std::make_unique_for_overwrite<std::array<std::byte, kBytes>>()) {}

bool UdpInbox::fill(int fd) {
  SocketAddress from;
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
  iovec part{bytes_->data(), bytes_->size()};
  msghdr header{};
  header.msg_name = &from.generic;
  header.msg_namelen = sizeof from.v6;
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT);
  if (got < 0) return false;
  from.size = header.msg_namelen;
  if (!usable_ || !same(from, from_)) {
    from_ = from;
    usable_ = accept_source();
  }
  const Quality quality = read_control(header);
  flow_.traffic_class = quality.traffic_class;
  flow_.hop_limit = quality.hop_limit;
  cut(static_cast<std::size_t>(got), quality.segment_bytes);
  return true;
}

bool UdpInbox::accept_source() {
  const auto source = to_endpoint(from_);
  // Both of one family: a mapped IPv4 address has no business in an IPv6 header.
  if (!source || source->address.is_ipv4() != local_.is_ipv4()) return false;
  flow_.source = source->address;
  flow_.source_port = source->port;
  flow_.destination = local_;
  prefix_.emplace(network::icrc_prefix(flow_));
  noted_ = false;
  return true;
}

void UdpInbox::cut(std::size_t size, std::size_t segment) {
  size_ = size;
  segment_bytes_ = segment == 0 || segment > size ? std::max<std::size_t>(size, 1) : segment;
  count_ = size == 0 ? 1 : (size + segment_bytes_ - 1) / segment_bytes_;
  next_ = 0;
  first_identification_ = 0;
  last_goes_first_ = count_ > 1 && ends_with_acknowledgement();
}

/// Behind requests: behind answers, which it acknowledges too, it would be early.
bool UdpInbox::ends_with_acknowledgement() const {
  const auto last = segment(count_ - 1);
  if (last.size() < kLeastFrameBytes || last.size() == segment_bytes_) return false;
  const auto opcode = [](std::span<const std::byte> bytes) {
    return static_cast<wire::Opcode>(bytes[0]);
  };
  return opcode(last) == wire::Opcode::kRcAcknowledge &&
         opcode(segment(0)) < wire::Opcode::kRcReadResponseFirst;
}

std::span<const std::byte> UdpInbox::segment(std::size_t index) const {
  const std::size_t at = index * segment_bytes_;
  return std::span<const std::byte>(*bytes_).subspan(at, std::min(segment_bytes_, size_ - at));
}

tl::expected<Incoming, Drop> UdpInbox::next() {
  WEFT_ASSERT(has_frames());
  std::size_t index = next_++;
  if (last_goes_first_) index = index == 0 ? count_ - 1 : index - 1;
  const auto bytes = segment(index);
  if (!usable_ || bytes.size() < kLeastFrameBytes || bytes.size() > kMaxFrameBytes) {
    return tl::unexpected(AddressShare::is_probe(bytes) ? Drop::kProbe : Drop::kMalformed);
  }
  if (!check(bytes, static_cast<std::uint16_t>(index))) return tl::unexpected(Drop::kBadChecksum);
  return Incoming{flow_, bytes.first(bytes.size() - wire::kIcrcSize)};
}

bool UdpInbox::check(std::span<const std::byte> bytes, std::uint16_t place) {
  const auto identification = static_cast<std::uint16_t>(first_identification_ + place);
  const auto packet = bytes.first(bytes.size() - wire::kIcrcSize);
  const auto stored = bytes.last<wire::kIcrcSize>();
  wire::Icrc icrc =
      prefix_->start(static_cast<std::uint16_t>(wire::Udp::kSize + bytes.size()), identification);
  icrc.add_first(packet);
  if (icrc.matches(stored)) {
    if (!noted_) identifications_.note_usual(flow_.source);
    noted_ = true;
    return true;
  }
  if (!local_.is_ipv4()) return false;
  const auto real =
      wire::recover_identification(icrc.remainder(stored), packet.size(), identification);
  if (!real || !identifications_.accept(flow_.source, *real)) return false;
  first_identification_ = static_cast<std::uint16_t>(*real - place);
  return true;
}

}  // namespace weft::port
