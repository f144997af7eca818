#include "network/frame.h"

#include <algorithm>

#include "memory/guard.h"

namespace weft::network {

bool emit_packet(const OutFrame& frame, std::span<std::byte> out) {
  WEFT_ASSERT(frame.packet_bytes() <= out.size());
  std::byte* at = out.data() + wire::emit_headers(frame.headers, out);
  for (const memory::Vmm::View& piece : frame.pieces()) {
    if (memory::guarded_copy(at, piece.data, piece.size) != memory::Fault::kNone) return false;
    at += piece.size;
  }
  std::fill_n(at, frame.headers.bth.pad_count, std::byte{0});
  return true;
}

}  // namespace weft::network
