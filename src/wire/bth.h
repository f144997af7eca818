// BTH, the base transport header: in every packet, tells the opcode, the queue pair and the PSN.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |     opcode    |S|M|pad|version|         partition key         |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |F|B|  reserved |             destination queue pair            |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//   |A|   reserved  |             packet sequence number            |
//   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// S solicited event, M migration state, F and B forward and backward congestion, A acknowledgement
// asked for. The reserved bits are kept as they came, so that a packet is emitted as it was read; a
// sender leaves them 0. Byte 4 (F, B, reserved) may change on the way and is outside the ICRC.
// A plain value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tl/expected.hpp>

#include "base/assert.h"
#include "base/big_endian.h"
#include "weft/types.h"
#include "wire/opcode.h"
#include "wire/parse_error.h"

namespace weft::wire {

struct Bth {
  static constexpr std::size_t kSize = 12;

  Opcode opcode{};
  bool solicited = false;
  bool mig_req = true;                 // hardware sends 1; both are accepted
  std::uint8_t pad_count = 0;          ///< 0 to 3
  std::uint8_t transport_version = 0;  ///< 4 bits
  PKey pkey = kDefaultPKey;
  bool fecn = false;
  bool becn = false;
  std::uint8_t reserved_variant = 0;  ///< 6 bits beside F and B
  Qpn dest_qp;
  bool ack_request = false;
  std::uint8_t reserved_ack = 0;  ///< 7 bits beside A
  Psn psn;

  /// Sets every field from exactly kSize bytes; the caller has checked the length.
  void read(std::span<const std::byte, kSize> in) {
    const auto first = base::load_be<std::uint32_t>(in.data());
    const auto second = base::load_be<std::uint32_t>(in.data() + 4);
    const auto third = base::load_be<std::uint32_t>(in.data() + 8);
    opcode = Opcode{static_cast<std::uint8_t>(first >> 24)};
    solicited = (first >> 23 & 1) != 0;
    mig_req = (first >> 22 & 1) != 0;
    pad_count = first >> 20 & 0x03;
    transport_version = first >> 16 & 0x0F;
    pkey = PKey(static_cast<std::uint16_t>(first));
    fecn = second >> 31 != 0;
    becn = (second >> 30 & 1) != 0;
    reserved_variant = second >> 24 & 0x3F;
    dest_qp = Qpn(second & kMask24);
    ack_request = third >> 31 != 0;
    reserved_ack = third >> 24 & 0x7F;
    psn = Psn(third & kMask24);
  }
  /// The destination queue pair alone.
  static Qpn destination_of(std::span<const std::byte, kSize> in) {
    return Qpn(base::load_be24(in.data() + 5));
  }
  static tl::expected<Bth, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Bth header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    const auto bit = [](bool value, unsigned at) { return std::uint32_t{value} << at; };
    const std::uint32_t first = static_cast<std::uint32_t>(opcode) << 24 | bit(solicited, 23) |
                                bit(mig_req, 22) | (pad_count & 0x03u) << 20 |
                                (transport_version & 0x0Fu) << 16 | pkey.value;
    const std::uint32_t second = bit(fecn, 31) | bit(becn, 30) | (reserved_variant & 0x3Fu) << 24 |
                                 (dest_qp.value & kMask24);
    const std::uint32_t third = bit(ack_request, 31) | (reserved_ack & 0x7Fu) << 24 | psn.value();
    base::store_be(out.data(), first);
    base::store_be(out.data() + 4, second);
    base::store_be(out.data() + 8, third);
  }
  /// `out` has room for kSize bytes.
  void emit(std::span<std::byte> out) const {
    WEFT_ASSERT(out.size() >= kSize);
    write(out.first<kSize>());
  }
  friend bool operator==(const Bth&, const Bth&) = default;
};
static_assert(Bth::kSize == detail::kBthBytes);

}  // namespace weft::wire
