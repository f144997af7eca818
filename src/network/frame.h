// A frame on its way out: header values plus views of the memory that holds the payload. A
// transport machine fills it, a port sends it, release() gives the views back. Until the port makes
// a packet of it nothing is copied, but for inline data. Part of the batch of the thread that
// transmits, and used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.h"
#include "memory/vmm.h"
#include "weft/work.h"
#include "wire/packet.h"

namespace weft::network {

inline constexpr std::uint32_t kMaxSge = 32;
/// Each gather element may straddle one page boundary inside a frame.
inline constexpr std::size_t kMaxPieces = 2 * kMaxSge + 1;
/// Inline data travels inside the frame: its element may be gone when the frame is sent.
inline constexpr std::size_t kMaxInlineBytes = 512;

class OutFrame {
 public:
  OutFrame() = default;
  ~OutFrame() { release(); }
  OutFrame(const OutFrame&) = delete;
  OutFrame& operator=(const OutFrame&) = delete;

  wire::Packet headers;  ///< without payload
  /// Datagrams only; for connected services the path knows.
  AddressVector destination;
  /// The builder's own: of a request, the send queue index of the element that it carries a part
  /// of.
  std::uint32_t element = 0;

  std::span<const memory::Vmm::View> pieces() const { return {pieces_.data(), count_}; }
  std::uint32_t payload_bytes() const { return bytes_; }
  /// BTH to pad.
  std::size_t packet_bytes() const {
    return headers.info().header_bytes + bytes_ + headers.bth.pad_count;
  }

  /// `vmm` gets the view back at release(); nullptr for memory that needs no giving back.
  void add_piece(memory::Vmm* vmm, const memory::Vmm::View& view) {
    WEFT_ASSERT(count_ < kMaxPieces);
    WEFT_ASSERT(vmm == nullptr || vmm_ == nullptr || vmm_ == vmm);
    if (vmm != nullptr) vmm_ = vmm;
    pieces_[count_++] = view;
    bytes_ += static_cast<std::uint32_t>(view.size);
  }
  /// The only piece of a frame that has none yet, of memory that needs no giving back.
  void set_piece(std::byte* data, std::uint32_t size) {
    pieces_[0] = {data, size, 0};
    count_ = 1;
    bytes_ = size;
  }
  void add_inline(std::span<const std::byte> data) {
    WEFT_ASSERT(data.size() <= kMaxInlineBytes && count_ == 0);
    std::memcpy(inline_.data(), data.data(), data.size());
    add_piece(nullptr, {inline_.data(), data.size(), 0});
  }
  /// The payload lies in the frame itself: it cannot vanish.
  bool is_inline() const { return count_ == 1 && pieces_[0].data == inline_.data(); }
  /// Sets the pad after the last piece.
  void finish() { headers.bth.pad_count = wire::pad_for(bytes_); }

  void release() {
    if (vmm_ != nullptr) {
      for (const auto& view : pieces()) vmm_->unmap(view);
    }
    vmm_ = nullptr;
    count_ = 0;
    bytes_ = 0;
  }

 private:
  memory::Vmm* vmm_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t bytes_ = 0;
  std::array<memory::Vmm::View, kMaxPieces> pieces_;
  std::array<std::byte, kMaxInlineBytes> inline_;
};

/// Writes BTH to pad, packet_bytes() of them. False: its payload cannot be read any more.
bool emit_packet(const OutFrame& frame, std::span<std::byte> out);

}  // namespace weft::network
