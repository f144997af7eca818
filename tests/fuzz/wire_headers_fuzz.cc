// Any bytes to every header's own parser: what it accepts is emitted byte for byte, and too few
// bytes are always refused. The first byte is part of the input, not a selector: all parsers see
// all bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/ethernet.h"
#include "wire/ieth.h"
#include "wire/immediate.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/rdeth.h"
#include "wire/reth.h"
#include "wire/udp.h"

namespace {

template <class Header>
void check(const std::vector<std::byte>& in) {
  const auto header = Header::parse(in);
  if (!header) {
    WEFT_ASSERT(header.error() < weft::wire::ParseError::kCount);
    return;
  }
  WEFT_ASSERT(in.size() >= Header::kSize);
  std::vector<std::byte> out(Header::kSize);
  header->emit(out);
  WEFT_ASSERT(std::ranges::equal(out, std::span(in).first(Header::kSize)));
  const auto again = Header::parse(out);
  WEFT_ASSERT(again.has_value() && *again == *header);
}

template <class... Headers>
void check_all(const std::vector<std::byte>& in) {
  (check<Headers>(in), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace wire = weft::wire;
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> in(bytes.begin(), bytes.end());
  check_all<wire::Bth, wire::Reth, wire::Aeth, wire::AtomicEth, wire::AtomicAckEth, wire::Immediate,
            wire::Ieth, wire::Deth, wire::Rdeth, wire::Ipv4, wire::Ipv6, wire::Udp, wire::Ethernet>(
      in);
  if (const auto aeth = wire::Aeth::parse(in); aeth && aeth->kind() == wire::AethKind::kNak) {
    WEFT_ASSERT(aeth->nak_code() <= wire::NakCode::kInvalidRd);
  }
  if (const auto ip = wire::Ipv4::parse(in)) static_cast<void>(ip->compute_checksum());
  return 0;
}
