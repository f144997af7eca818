#include "port/udp_batch.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "memory/guard.h"
#include "network/roce.h"
#include "wire/packet.h"

namespace weft::port {
namespace {

/// Whether a batch that needs no message header may go without one, which is quicker for the
/// kernel. Only by sendmsg the thread sanitizer learns that what this thread did before, reading
/// payloads among it, happened before whatever the peer answers.
#if defined(__SANITIZE_THREAD__)
constexpr bool kShortCall = false;
#else
constexpr bool kShortCall = true;
#endif

std::size_t frame_bytes(const network::OutFrame& frame) {
  return frame.packet_bytes() + wire::kIcrcSize;
}

bool same_flow(const network::Flow& a, const network::Flow& b) {
  return a.destination == b.destination && a.source_port == b.source_port &&
         a.traffic_class == b.traffic_class && a.hop_limit == b.hop_limit;
}

/// A thread sends most often to where it sent before.
const wire::IcrcPrefix& prefix_of(const network::Flow& flow) {
  struct Last {
    network::Flow flow;
    wire::IcrcPrefix prefix;
  };
  thread_local Last last{flow, network::icrc_prefix(flow)};
  if (!same_flow(last.flow, flow) || last.flow.source != flow.source) {
    last = {flow, network::icrc_prefix(flow)};
  }
  return last.prefix;
}

}  // namespace

std::size_t UdpBatch::length(std::span<const Outgoing> frames) {
  const std::size_t each = frame_bytes(*frames.front().frame);
  std::size_t bytes = each, count = 1;
  for (; count < std::min(frames.size(), kMostFrames); ++count) {
    const std::size_t size = frame_bytes(*frames[count].frame);
    bytes += size;
    if (size > each || bytes > kMostBytes || !same_flow(frames[count].flow, frames.front().flow)) {
      break;
    }
    if (size < each) return count + 1;
  }
  return count;
}

std::size_t UdpBatch::build(std::span<const Outgoing> frames, const network::Flow& flow,
                            std::uint16_t identification) {
  WEFT_ASSERT(frames.size() <= kMostFrames);
  bytes_ = control_bytes_ = 0;
  const std::size_t each = frame_bytes(*frames.front().frame);
  if (each > kMostBytes) {
    bytes_ = each;
    return frames.size();
  }
  const wire::IcrcPrefix& prefix = prefix_of(flow);
  // One guard for all of them; how far it came, a fault finds only in memory.
  volatile std::size_t built = 0;
  const bool whole = memory::guarded([&] {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      add(*frames[i].frame, prefix, static_cast<std::uint16_t>(identification + i));
      built = i + 1;
    }
  });
  if (!whole) return built;
  put_header_fields(flow);
  if (frames.size() > 1) {
    const auto segment = static_cast<std::uint16_t>(each);
    put_control(IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
  }
  return frames.size();
}

void UdpBatch::add(const network::OutFrame& frame, const wire::IcrcPrefix& prefix,
                   std::uint16_t identification) {
  std::byte* const at = scratch_.data() + bytes_;
  const std::size_t header_bytes = frame.headers.info().header_bytes;
  const std::size_t pad = frame.headers.bth.pad_count;
  WEFT_ASSERT(pad <= kMaxPad);
  const std::size_t size = header_bytes + frame.payload_bytes() + pad + wire::kIcrcSize;
  WEFT_ASSERT(size <= scratch_.size() - bytes_);
  if (header_bytes == wire::Bth::kSize) [[likely]] {
    frame.headers.bth.write(std::span<std::byte, wire::Bth::kSize>(at, wire::Bth::kSize));
  } else {
    wire::emit_headers(frame.headers, {at, size});
  }
  wire::Icrc icrc =
      prefix.start(static_cast<std::uint16_t>(wire::Udp::kSize + size), identification);
  std::byte* tail = at + header_bytes;
  std::span<const memory::Vmm::View> pieces = frame.pieces();
  std::span<const std::byte> first;
  if (!pieces.empty()) {
    first = {pieces[0].data, pieces[0].size};
    pieces = pieces.subspan(1);
  }
  icrc.add_first_copying(at, header_bytes, first);
  tail += first.size();
  for (const auto& piece : pieces) {
    icrc.add_copying(tail, {piece.data, piece.size});
    tail += piece.size;
  }
  if (pad > 0) {
    std::fill_n(tail, pad, std::byte{0});
    icrc.add({tail, pad});
    tail += pad;
  }
  icrc.store(std::span<std::byte, wire::kIcrcSize>(tail, wire::kIcrcSize));
  bytes_ += size;
}

void UdpBatch::put_control(int level, int type, const void* value, std::size_t size) {
  WEFT_ASSERT(control_bytes_ + CMSG_SPACE(size) <= control_.size());
  cmsghdr control{};
  control.cmsg_level = level;
  control.cmsg_type = type;
  control.cmsg_len = CMSG_LEN(size);
  std::byte* const at = control_.data() + control_bytes_;
  std::memset(at, 0, CMSG_SPACE(size));
  std::memcpy(at, &control, sizeof control);
  std::memcpy(at + CMSG_LEN(0), value, size);
  control_bytes_ += CMSG_SPACE(size);
}

/// Only what differs from the socket's own settings.
void UdpBatch::put_header_fields(const network::Flow& flow) {
  if (flow.traffic_class == kDefaultTrafficClass && flow.hop_limit == kDefaultHopLimit) return;
  const bool ipv4 = flow.is_ipv4();
  const int level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  const int traffic_class = flow.traffic_class;
  const int hop_limit = std::max(flow.hop_limit, kLeastHopLimit);
  put_control(level, ipv4 ? IP_TOS : IPV6_TCLASS, &traffic_class, sizeof traffic_class);
  put_control(level, ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hop_limit, sizeof hop_limit);
}

int UdpBatch::send(int fd, const SocketAddress* to) {
  const sockaddr* const name = to != nullptr ? &to->generic : nullptr;
  const socklen_t name_size = to != nullptr ? to->size : 0;
  if (bytes_ > kMostBytes) return EMSGSIZE;
  long sent = 0;
  if (kShortCall && control_bytes_ == 0) {
    sent = sendto(fd, scratch_.data(), bytes_, MSG_DONTWAIT, name, name_size);
  } else {
    iovec all{scratch_.data(), bytes_};
    msghdr header{};
    header.msg_name = const_cast<sockaddr*>(name);
    header.msg_namelen = name_size;
    header.msg_iov = &all;
    header.msg_iovlen = 1;
    if (control_bytes_ > 0) header.msg_control = control_.data();
    header.msg_controllen = control_bytes_;
    sent = sendmsg(fd, &header, MSG_DONTWAIT);
  }
  return sent >= 0 ? 0 : errno;
}

}  // namespace weft::port
