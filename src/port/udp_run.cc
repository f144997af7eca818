#include "port/udp_run.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "memory/guard.h"
#include "memory/guard_leaves.h"
#include "wire/packet.h"

namespace weft::port {
namespace {

/// 0 means the same, not beyond this link, but the kernel refuses it.
constexpr std::uint8_t kLeastHops = 1;

std::size_t frame_bytes(const transport::OutFrame& frame) {
  return frame.headers.info().header_bytes + frame.payload_bytes() + frame.headers.bth.pad_count +
         wire::kIcrcSize;
}

bool same_way(const network::Flow& a, const network::Flow& b) {
  return a.destination == b.destination && a.source_port == b.source_port &&
         a.traffic_class == b.traffic_class && a.hop_limit == b.hop_limit;
}

bool copy_payload(std::byte* to, const transport::OutFrame& frame) {
  if (frame.is_inline()) [[likely]] {
    std::memcpy(to, frame.pieces()[0].data, frame.pieces()[0].size);
    return true;
  }
  for (const auto& piece : frame.pieces()) {
    if (memory::guarded_load(to, piece.data, piece.size) != memory::Fault::kNone) return false;
    to += piece.size;
  }
  return true;
}

bool add_payload(wire::Icrc& icrc, const transport::OutFrame& frame) {
  return memory::guarded([&icrc, pieces = frame.pieces()] {
    for (const auto& piece : pieces) icrc.add({piece.data, piece.size});
  });
}

/// A thread sends most often to where it sent before.
const wire::IcrcPrefix& prefix_of(const network::Flow& flow) {
  struct Last {
    network::Flow flow;
    wire::IcrcPrefix prefix;
  };
  thread_local Last last{flow, network::icrc_prefix(flow)};
  if (!same_way(last.flow, flow) || last.flow.source != flow.source) {
    last = {flow, network::icrc_prefix(flow)};
  }
  return last.prefix;
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

}  // namespace

std::size_t UdpRun::length(std::span<const Outgoing> frames) {
  const std::size_t each = frame_bytes(*frames.front().frame);
  std::size_t bytes = each, parts = 1 + frames.front().frame->pieces().size(), count = 1;
  for (; count < std::min(frames.size(), kMostFrames); ++count) {
    const transport::OutFrame& frame = *frames[count].frame;
    const std::size_t size = frame_bytes(frame);
    bytes += size;
    parts += 1 + frame.pieces().size();
    if (size > each || bytes > kMostBytes || parts >= kMostParts ||
        !same_way(frames[count].flow, frames.front().flow)) {
      break;
    }
    if (size < each) return count + 1;
  }
  return count;
}

std::size_t UdpRun::build(std::span<const Outgoing> frames, const network::Flow& flow) {
  WEFT_ASSERT(frames.size() <= kMostFrames);
  parts_count_ = 0;
  end_ = scratch_.data();
  control_bytes_ = 0;
  const wire::IcrcPrefix& prefix = prefix_of(flow);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (!add(*frames[i].frame, prefix, i)) return i;
  }
  header_ = {};
  header_.msg_iov = parts_.data();
  header_.msg_iovlen = parts_count_;
  put_quality(flow);
  if (frames.size() > 1) {
    const auto segment = static_cast<std::uint16_t>(frame_bytes(*frames.front().frame));
    put_control(IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
  }
  if (control_bytes_ > 0) {
    header_.msg_control = control_.data();
    header_.msg_controllen = control_bytes_;
  }
  return frames.size();
}

bool UdpRun::add(const transport::OutFrame& frame, const wire::IcrcPrefix& prefix,
                 std::size_t index) {
  std::byte* const at = end_;
  std::size_t header_bytes = frame.headers.info().header_bytes;
  if (header_bytes == wire::Bth::kSize) [[likely]] {
    frame.headers.bth.write(std::span<std::byte, wire::Bth::kSize>(at, wire::Bth::kSize));
  } else {
    header_bytes = wire::emit_headers(
        frame.headers, {at, static_cast<std::size_t>(scratch_.data() + scratch_.size() - at)});
  }
  const std::size_t payload = frame.payload_bytes();
  const std::size_t pad = frame.headers.bth.pad_count;
  WEFT_ASSERT(pad <= kMaxPad);
  const std::byte unchecked = std::exchange(at[wire::kUncheckedByte], wire::kOnes);
  // The kernel numbers what it cuts apart, from 0; a datagram by itself has 0 too.
  wire::Icrc icrc = prefix.start(static_cast<std::uint16_t>(wire::Udp::kSize + frame_bytes(frame)),
                                 static_cast<std::uint16_t>(index));
  std::byte* tail = at + header_bytes;
  if (payload <= kCopiedBytes) {
    if (!copy_payload(tail, frame)) return false;
    tail += payload;
    std::fill_n(tail, pad, std::byte{0});
    icrc.add({at, header_bytes + payload + pad});
    add_written(at, header_bytes + payload + pad + wire::kIcrcSize);
  } else {
    icrc.add({at, header_bytes});
    if (!add_payload(icrc, frame)) return false;
    std::fill_n(tail, pad, std::byte{0});
    icrc.add({tail, pad});
    add_written(at, header_bytes);
    for (const auto& piece : frame.pieces()) parts_[parts_count_++] = {piece.data, piece.size};
    parts_[parts_count_++] = {tail, pad + wire::kIcrcSize};
    end_ = tail + pad + wire::kIcrcSize;
  }
  at[wire::kUncheckedByte] = unchecked;
  icrc.store(std::span<std::byte, wire::kIcrcSize>(tail + pad, wire::kIcrcSize));
  return true;
}

void UdpRun::add_written(std::byte* at, std::size_t size) {
  end_ = at + size;
  if (parts_count_ > 0) {
    iovec& before = parts_[parts_count_ - 1];
    if (static_cast<std::byte*>(before.iov_base) + before.iov_len == at) {
      before.iov_len += size;
      return;
    }
  }
  parts_[parts_count_++] = {at, size};
}

void UdpRun::put_control(int level, int type, const void* value, std::size_t size) {
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
void UdpRun::put_quality(const network::Flow& flow) {
  if (flow.traffic_class == kUsualTrafficClass && flow.hop_limit == kUsualHopLimit) return;
  const bool ipv4 = flow.is_ipv4();
  const int level = ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  const int traffic_class = flow.traffic_class;
  const int hop_limit = std::max(flow.hop_limit, kLeastHops);
  put_control(level, ipv4 ? IP_TOS : IPV6_TCLASS, &traffic_class, sizeof traffic_class);
  put_control(level, ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hop_limit, sizeof hop_limit);
}

// The kernel is quicker with what needs no message header.
int UdpRun::send_to(int fd, const SocketAddress& to) {
  const Unwatched unwatched;
  long sent = 0;
  if (parts_count_ == 1 && control_bytes_ == 0) {
    sent = sendto(fd, parts_[0].iov_base, parts_[0].iov_len, MSG_DONTWAIT, &to.generic, to.size);
  } else {
    SocketAddress name = to;
    header_.msg_name = &name.generic;
    header_.msg_namelen = name.size;
    sent = sendmsg(fd, &header_, MSG_DONTWAIT);
  }
  return sent >= 0 ? 0 : errno;
}

int UdpRun::send(int fd) {
  const Unwatched unwatched;
  const long sent =
      parts_count_ == 1 && control_bytes_ == 0
          ? sendto(fd, parts_[0].iov_base, parts_[0].iov_len, MSG_DONTWAIT, nullptr, 0)
          : sendmsg(fd, &header_, MSG_DONTWAIT);
  return sent >= 0 ? 0 : errno;
}

}  // namespace weft::port
