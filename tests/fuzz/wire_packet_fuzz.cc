// Any bytes to parse_packet: it never reads outside them, and what it accepts is emitted with the
// same headers and payload, and parses to the same again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "wire/packet.h"

using weft::wire::Packet;

namespace {

void expect_same(const Packet& a, const Packet& b) {
  WEFT_ASSERT(a.bth == b.bth);
  WEFT_ASSERT(a.reth == b.reth && a.aeth == b.aeth);
  WEFT_ASSERT(a.atomic == b.atomic && a.atomic_ack == b.atomic_ack);
  WEFT_ASSERT(a.immediate == b.immediate && a.invalidate_key == b.invalidate_key);
  WEFT_ASSERT(a.deth == b.deth && a.rdeth == b.rdeth);
  WEFT_ASSERT(std::ranges::equal(a.payload, b.payload));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size, so that a sanitizer sees a read past its end.
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> in(bytes.begin(), bytes.end());
  const auto packet = weft::wire::parse_packet(in);
  if (!packet) {
    WEFT_ASSERT(packet.error() < weft::wire::ParseError::kCount);
    return 0;
  }
  std::vector<std::byte> out(in.size());
  WEFT_ASSERT(weft::wire::emit_packet(*packet, out) == in.size());
  // Pad bytes are the one thing that is not kept: they go out as zeros.
  const std::size_t kept = in.size() - packet->bth.pad_count;
  WEFT_ASSERT(std::ranges::equal(std::span(in).first(kept), std::span(out).first(kept)));
  const auto again = weft::wire::parse_packet(out);
  WEFT_ASSERT(again.has_value());
  expect_same(*packet, *again);
  return 0;
}
