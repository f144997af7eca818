#include "port/packet_ring.h"

#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/big_endian.h"
#include "host/system_error.h"
#include "port/packet_train.h"
#include "wire/raw_packet.h"
#include "wire/segments.h"

namespace weft::port {
namespace {

constexpr std::size_t kRingBytes = 16 << 20;
constexpr std::size_t kLeastSlots = 256;
constexpr std::size_t kBlockBytes = 1 << 16;
/// Where the two addresses of a frame end, and a tag belongs.
constexpr std::size_t kTagAt = 12;
/// The longest packet that has a length, with its frame around it.
constexpr std::size_t kLongestFrame = 65575 + 18 + sizeof(Offload);

std::size_t slot_bytes_for(std::size_t frame_bytes) {
  return std::bit_ceil(frame_bytes + TPACKET2_HDRLEN + 2 * TPACKET_ALIGNMENT + sizeof(Offload));
}

}  // namespace

Result<PacketRing> PacketRing::make(const host::Fd& socket, std::size_t frame_bytes) {
  PacketRing ring;
  ring.socket_ = socket.get();
  ring.slot_bytes_ = slot_bytes_for(frame_bytes);
  ring.slots_ = std::max(kRingBytes / ring.slot_bytes_, kLeastSlots);
  ring.bytes_ = ring.slots_ * ring.slot_bytes_;
  const int version = TPACKET_V2;
  tpacket_req request{};
  request.tp_block_size = kBlockBytes;
  request.tp_block_nr = static_cast<unsigned>(ring.bytes_ / kBlockBytes);
  request.tp_frame_size = static_cast<unsigned>(ring.slot_bytes_);
  request.tp_frame_nr = static_cast<unsigned>(ring.slots_);
  const int yes = 1;
  if (setsockopt(socket.get(), SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
      setsockopt(socket.get(), SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes) != 0 ||
      setsockopt(socket.get(), SOL_PACKET, PACKET_COPY_THRESH, &yes, sizeof yes) != 0 ||
      setsockopt(socket.get(), SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0) {
    return host::system_error("raw queue pair: making the ring of a packet socket", errno);
  }
  void* const memory =
      mmap(nullptr, ring.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, socket.get(), 0);
  if (memory == MAP_FAILED) {
    return host::system_error("raw queue pair: mapping the ring of a packet socket", errno);
  }
  madvise(memory, ring.bytes_, MADV_DONTFORK);
  ring.memory_ = static_cast<std::byte*>(memory);
  return ring;
}

PacketRing::PacketRing(PacketRing&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      slot_bytes_(other.slot_bytes_),
      slots_(other.slots_),
      next_(other.next_),
      socket_(other.socket_) {}

PacketRing::~PacketRing() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

std::size_t PacketRing::receive(RawReceiver& receiver, std::size_t max) {
  std::size_t n = 0;
  while (n < max) {
    const std::size_t frames = hand_up(memory_ + next_ * slot_bytes_, receiver);
    if (frames == 0) break;
    next_ = next_ + 1 == slots_ ? 0 : next_ + 1;
    n += frames;
  }
  return n;
}

std::size_t PacketRing::hand_up(std::byte* slot, RawReceiver& receiver) {
  auto& header = *reinterpret_cast<tpacket2_hdr*>(slot);
  // acquire and release pair with the kernel's: the frame is whole, and is not read any more.
  const std::atomic_ref status(header.tp_status);
  const std::uint32_t said = status.load(std::memory_order_acquire);
  if ((said & TP_STATUS_USER) == 0) return 0;
  const Arrival arrival = take(slot, said);
  std::size_t frames = 0;
  const auto give = [&](RawBytes frame) {
    receiver.on_raw_frame(frame, arrival.needs_checksum);
    ++frames;
  };
  if (arrival.frame.empty()) {
    receiver.on_cut_frame();
  } else if (arrival.part_bytes == 0) {
    give(arrival.frame);
  } else if (!wire::for_each_segment(arrival.frame, wire::parse_raw_frame(arrival.frame),
                                     arrival.part_bytes, segment_, give)) {
    receiver.on_cut_frame();
  }
  status.store(TP_STATUS_KERNEL, std::memory_order_release);
  return std::max<std::size_t>(frames, 1);
}

/// Without a frame: it could not be had whole.
PacketRing::Arrival PacketRing::take(std::byte* slot, std::uint32_t status) {
  const auto& header = *reinterpret_cast<const tpacket2_hdr*>(slot);
  const std::size_t at = header.tp_mac, taken = header.tp_snaplen;
  Arrival out;
  if (at < sizeof(Offload) || at > slot_bytes_ || taken > slot_bytes_ - at) return out;
  Offload offload;
  std::memcpy(&offload, slot + at - sizeof offload, sizeof offload);
  out.needs_checksum = (status & TP_STATUS_CSUMNOTREADY) != 0;
  if (offload.kind != kNotCut) out.part_bytes = offload.part_bytes;
  out.frame = RawBytes(slot + at, taken);
  if ((status & TP_STATUS_COPY) != 0) {
    out.frame = receive_whole();
  } else if (taken < header.tp_len) {
    out.frame = {};
  }
  if ((status & TP_STATUS_VLAN_VALID) != 0 && out.frame.size() >= kTagAt) {
    const bool has_type = (status & TP_STATUS_VLAN_TPID_VALID) != 0;
    out.frame = with_tag(out.frame, has_type ? header.tp_vlan_tpid : wire::kEtherTypeVlan,
                         header.tp_vlan_tci);
  }
  return out;
}

/// The frame at the head of the socket's queue.
RawBytes PacketRing::receive_whole() {
  whole_.resize(kLongestFrame);
  const ssize_t n = recv(socket_, whole_.data(), whole_.size(), MSG_DONTWAIT | MSG_TRUNC);
  const auto got = static_cast<std::size_t>(n > 0 ? n : 0);
  if (got <= sizeof(Offload) || got > whole_.size()) return {};
  return RawBytes(whole_).subspan(sizeof(Offload), got - sizeof(Offload));
}

RawBytes PacketRing::with_tag(RawBytes frame, std::uint16_t type, std::uint16_t tag) {
  tagged_.assign(frame.begin(), frame.begin() + kTagAt);
  tagged_.resize(kTagAt + 4);
  base::store_be<std::uint16_t>(tagged_.data() + kTagAt, type);
  base::store_be<std::uint16_t>(tagged_.data() + kTagAt + 2, tag);
  tagged_.insert(tagged_.end(), frame.begin() + kTagAt, frame.end());
  return tagged_;
}

}  // namespace weft::port
