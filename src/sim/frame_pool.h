// Frames on the simulated network, and the pool that they come from. A frame is the bytes of a real
// RoCEv2 packet, from its IP header to its ICRC, plus what the simulation notes about it. The pool
// grows to the most frames that were ever on the way and then allocates no more; it is owned by the
// world and outlives all frames. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "network/roce.h"
#include "wire/opcode.h"

namespace weft::sim {

inline constexpr std::size_t kMaxFrameBytes =
    network::kMaxNetworkHeaderBytes + wire::kMaxHeaderBytes + bytes(Mtu::k4096) + wire::kIcrcSize;

struct SimFrame {
  SimFrame* next = nullptr;  ///< in the pool or in a FrameList
  std::uint32_t source = 0;  ///< endpoint numbers of the network
  std::uint32_t destination = 0;
  std::uint16_t size = 0;       ///< all bytes
  std::uint16_t packet_at = 0;  ///< where the BTH begins
  /// The ICRC was neither computed nor needs checking, since nobody touched the frame: what a
  /// controller with checksum offload would report.
  bool intact = false;
  network::Flow flow;  ///< as sent
  std::array<std::byte, kMaxFrameBytes> bytes;

  std::span<std::byte> all() { return {bytes.data(), size}; }
  std::span<const std::byte> all() const { return {bytes.data(), size}; }
  /// BTH to pad.
  std::span<const std::byte> packet() const {
    return all().subspan(packet_at, size - packet_at - wire::kIcrcSize);
  }
};

/// Frames in order, linked through SimFrame::next.
class FrameList {
 public:
  void push(SimFrame* frame) {
    frame->next = nullptr;
    (last_ != nullptr ? last_->next : first_) = frame;
    last_ = frame;
    ++size_;
  }
  SimFrame* pop() {
    SimFrame* frame = first_;
    if (frame == nullptr) return nullptr;
    first_ = frame->next;
    if (first_ == nullptr) last_ = nullptr;
    --size_;
    return frame;
  }
  std::size_t size() const { return size_; }

 private:
  SimFrame* first_ = nullptr;
  SimFrame* last_ = nullptr;
  std::size_t size_ = 0;
};

class FramePool {
 public:
  SimFrame* take() {
    if (free_ == nullptr) grow();
    SimFrame* frame = free_;
    free_ = frame->next;
    ++in_use_;
    return frame;
  }
  void give_back(SimFrame* frame) {
    frame->next = free_;
    free_ = frame;
    --in_use_;
  }
  std::size_t in_use() const { return in_use_; }
  std::size_t allocated() const { return chunks_.size() * kPerChunk; }

 private:
  static constexpr std::size_t kPerChunk = 64;

  void grow() {
    // Not value-initialised: nobody reads bytes that were not written.
    chunks_.push_back(std::make_unique_for_overwrite<SimFrame[]>(kPerChunk));
    for (std::size_t i = kPerChunk; i > 0; --i) {
      SimFrame* frame = &chunks_.back()[i - 1];
      frame->next = free_;
      free_ = frame;
    }
  }

  std::vector<std::unique_ptr<SimFrame[]>> chunks_;
  SimFrame* free_ = nullptr;
  std::size_t in_use_ = 0;
};

}  // namespace weft::sim
