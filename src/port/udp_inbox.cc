#include "port/udp_inbox.h"

#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>

#include "base/assert.h"
#include "network/roce.h"
#include "port/address_share.h"
#include "wire/icrc_identification.h"
#include "wire/packet.h"

namespace weft::port {
namespace {

constexpr std::size_t kMaxFrameBytes = wire::kMaxHeaderBytes + bytes(Mtu::k4096) + wire::kIcrcSize;
constexpr std::size_t kLeastFrameBytes = wire::Bth::kSize + wire::kIcrcSize;
constexpr std::size_t kAcknowledgementBytes = kLeastFrameBytes + wire::Aeth::kSize;
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

void read_header_fields(msghdr& header, Arrival& out) {
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
}

/// Where joined frames may be cut takes trying; what looks like headers in more places is dropped.
constexpr std::size_t kMostCuts = 64;
/// How often the book learns where a sender that counts has come to.
constexpr std::uint16_t kNotedEach = 64;
/// So many datagrams a sender that counts may have sent meanwhile.
constexpr std::uint16_t kMostMissed = 64;

/// To a few milliseconds.
Nanoseconds rough_time() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<Nanoseconds>(now.tv_sec) * 1'000'000'000 +
         static_cast<Nanoseconds>(now.tv_nsec);
}

/// Reads a datagram and where it comes from, and nothing else.
ssize_t receive_from(int fd, std::span<std::byte> into, SocketAddress& from) {
  from.size = sizeof from.v6;
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer knows that a recvmsg happens after what the peer did before it sent; of
  // the quicker recvfrom it does not.
  iovec part{into.data(), into.size()};
  msghdr header{};
  header.msg_name = &from.generic;
  header.msg_namelen = from.size;
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  const ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT);
  from.size = header.msg_namelen;
  return got;
#else
  return recvfrom(fd, into.data(), into.size(), MSG_DONTWAIT, &from.generic, &from.size);
#endif
}

}  // namespace

void report_drop(Receiver& receiver, Drop drop) {
  switch (drop) {
    case Drop::kBadChecksum:
      return receiver.on_bad_checksum();
    case Drop::kMalformed:
      return receiver.on_malformed();
    case Drop::kProbe:
      return;
  }
}

UdpInbox::UdpInbox(const Gid& local)
    : local_(local), bytes_(std::make_unique_for_overwrite<std::array<std::byte, kBytes>>()) {}

bool UdpInbox::fill(int fd) {
  Arrival arrival;
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
  iovec part{bytes_->data(), bytes_->size()};
  msghdr header{};
  header.msg_name = &arrival.from.generic;
  header.msg_namelen = sizeof arrival.from.v6;
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT);
  if (got < 0) return false;
  arrival.from.size = header.msg_namelen;
  arrival.bytes = static_cast<std::size_t>(got);
  read_header_fields(header, arrival);
  take(arrival);
  return true;
}

bool UdpInbox::fast_fill(int fd) {
  Arrival arrival;
  const ssize_t got = receive_from(fd, *bytes_, arrival.from);
  if (got < 0) return false;
  arrival.bytes = static_cast<std::size_t>(got);
  take(arrival);
  if (usable_) {
    const std::size_t segment = find_cut(size_);
    in_doubt_ = segment == 0;
    if (segment == size_) {
      checked_ = true;
    } else if (segment != 0) {
      cut(size_, segment);
    }
  }
  return true;
}

void UdpInbox::take(const Arrival& arrival) {
  WEFT_ASSERT(!has_frames() && arrival.bytes <= kBytes);
  take_source(arrival.from);
  incoming_.flow.traffic_class = arrival.traffic_class;
  incoming_.flow.hop_limit = arrival.hop_limit;
  cut(arrival.bytes, arrival.segment_bytes);
}

void UdpInbox::take_source(const SocketAddress& from) {
  if (usable_ && same(from, from_)) [[likely]]
    return;
  from_ = from;
  usable_ = accept_source();
}

bool UdpInbox::accept_source() {
  const auto source = to_endpoint(from_);
  // Both of one family: a mapped IPv4 address has no business in an IPv6 header.
  if (!source || source->address.is_ipv4() != local_.is_ipv4()) return false;
  network::Flow& flow = incoming_.flow;
  flow.source = source->address;
  flow.source_port = source->port;
  flow.destination = local_;
  prefix_.emplace(network::icrc_prefix(flow));
  next_identification_ = 0;
  counts_ = noted_ = false;
  return true;
}

void UdpInbox::cut(std::size_t size, std::size_t segment) {
  size_ = size;
  segment_bytes_ = segment == 0 || segment > size ? std::max<std::size_t>(size, 1) : segment;
  count_ = size <= segment_bytes_ ? 1 : (size + segment_bytes_ - 1) / segment_bytes_;
  next_ = 0;
  first_identification_ = next_identification_;
  checked_ = false;
  in_doubt_ = false;
  last_goes_first_ = count_ > 1 && may_take_last_first();
}

/// How long the first frame of the datagram is: all of it, or less if the kernel joined several.
/// 0: it begins with no good one.
std::size_t UdpInbox::find_cut(std::size_t size) {
  if (size < kLeastFrameBytes) return 0;
  // A reply with an acknowledgement behind it is the most likely one of those that are joined.
  const std::size_t reply = size - std::min(size, kAcknowledgementBytes);
  if (may_be_cut_at(reply) && wire::is_acknowledgement((*bytes_)[reply]) && begins_with(reply)) {
    return reply;
  }
  if (size <= kMaxFrameBytes && begins_with(size)) [[likely]] {
    on_expected();
    return size;
  }
  // All but the last are equally long, and the last is no longer.
  std::array<std::size_t, kMostCuts> cuts;
  std::size_t found = 0;
  for (std::size_t at = std::min(size, kMaxFrameBytes) / 4 * 4;
       at >= kLeastFrameBytes && found < cuts.size(); at -= 4) {
    if (may_be_cut_at(at)) cuts[found++] = at;
  }
  const auto likely = std::span(cuts).first(found);
  const auto exact = std::ranges::find_if(likely, [&](std::size_t at) { return begins_with(at); });
  if (exact != likely.end()) return *exact;
  const auto behind =
      std::ranges::find_if(likely, [&](std::size_t at) { return begins_behind_gap(at); });
  if (behind != likely.end()) return *behind;
  return likely.empty() && size <= kMaxFrameBytes && check(segment(0), 0) ? size : 0;
}

/// Whether what lies there can be the headers of a frame; almost nothing else can.
bool UdpInbox::may_be_cut_at(std::size_t at) const {
  if (at < kLeastFrameBytes || at >= size_ || at % 4 != 0 || at > kMaxFrameBytes) return false;
  const std::size_t last = (size_ - 1) % at + 1;
  const std::byte* const first = bytes_->data();
  const std::byte* const next = first + at;
  constexpr std::byte kVersion{0x0F};
  return last >= kLeastFrameBytes && (next[1] & kVersion) == std::byte{0} && next[2] == first[2] &&
         next[3] == first[3];  // the partition
}

/// The frame that the sender is likely to send next.
bool UdpInbox::begins_with(std::size_t bytes) const {
  const std::span<std::byte> first(bytes_->data(), bytes);
  return icrc_of(first, first_identification_).matches(first.last<wire::kIcrcSize>());
}

/// One a little later than that, of a sender that counts; of one that is new, whichever.
bool UdpInbox::begins_behind_gap(std::size_t bytes) {
  if (!local_.is_ipv4()) return false;
  const std::span<std::byte> first(bytes_->data(), bytes);
  const auto stored = first.last<wire::kIcrcSize>();
  const auto real =
      wire::recover_identification(icrc_of(first, first_identification_).remainder(stored),
                                   bytes - wire::kIcrcSize, first_identification_);
  if (!real) return false;
  const bool known = counts_ || noted_;
  if (known ? static_cast<std::uint16_t>(*real - first_identification_) > kMostMissed
            : !may_have(*real)) {
    return false;
  }
  next_identification_ = *real;
  counts_ = *real != 0;
  return true;
}

bool UdpInbox::may_take_last_first() const {
  const auto last = segment(count_ - 1);
  return last.size() >= kLeastFrameBytes && last.size() < segment_bytes_ &&
         wire::may_go_first(last[0], segment(0)[0]);
}

std::span<std::byte> UdpInbox::segment(std::size_t index) const {
  const std::size_t at = index * segment_bytes_;
  return {bytes_->data() + at, std::min(segment_bytes_, size_ - at)};
}

const Incoming* UdpInbox::next() {
  WEFT_ASSERT(has_frames());
  std::size_t index = next_++;
  if (last_goes_first_) index = index == 0 ? count_ - 1 : index - 1;
  const std::span<std::byte> bytes = segment(index);
  if (!usable_ || bytes.size() < kLeastFrameBytes || bytes.size() > kMaxFrameBytes) {
    dropped_ = AddressShare::is_probe(bytes) ? Drop::kProbe : Drop::kMalformed;
    return nullptr;
  }
  if (!checked_ && !check(bytes, static_cast<std::uint16_t>(index))) {
    dropped_ = Drop::kBadChecksum;
    return nullptr;
  }
  incoming_.packet = bytes.first(bytes.size() - wire::kIcrcSize);
  return &incoming_;
}

/// In one go: the byte that the ICRC takes for ones is that for a moment.
wire::Icrc UdpInbox::icrc_of(std::span<std::byte> bytes, std::uint16_t identification) const {
  wire::Icrc icrc =
      prefix_->start(static_cast<std::uint16_t>(wire::Udp::kSize + bytes.size()), identification);
  const std::byte unchecked = std::exchange(bytes[wire::kUncheckedByte], wire::kOnes);
  icrc.add(bytes.first(bytes.size() - wire::kIcrcSize));
  bytes[wire::kUncheckedByte] = unchecked;
  return icrc;
}

/// The sender is one that would use this identification now, as far as the book knows.
bool UdpInbox::may_have(std::uint16_t identification) {
  return identifications_.accept(incoming_.flow.source, incoming_.flow.source_port, identification,
                                 rough_time());
}

/// A frame had the identification that was likely.
void UdpInbox::on_expected() {
  if (counts_) {
    next_identification_ = static_cast<std::uint16_t>(first_identification_ + 1);
    if (next_identification_ % kNotedEach == 0) {
      may_have(first_identification_);
    }
  } else if (!noted_) {
    identifications_.note_place(incoming_.flow.source, incoming_.flow.source_port);
    noted_ = true;
  }
}

bool UdpInbox::check(std::span<std::byte> bytes, std::uint16_t place) {
  const auto identification = static_cast<std::uint16_t>(first_identification_ + place);
  const auto stored = bytes.last<wire::kIcrcSize>();
  const wire::Icrc icrc = icrc_of(bytes, identification);
  if (icrc.matches(stored)) [[likely]] {
    on_expected();
    return true;
  }
  if (!local_.is_ipv4()) return false;
  const auto real = wire::recover_identification(icrc.remainder(stored),
                                                 bytes.size() - wire::kIcrcSize, identification);
  if (!real || (*real != place && !may_have(*real))) return false;
  first_identification_ = static_cast<std::uint16_t>(*real - place);
  counts_ = first_identification_ != 0;
  next_identification_ = counts_ ? static_cast<std::uint16_t>(first_identification_ + 1) : 0;
  return true;
}

}  // namespace weft::port
