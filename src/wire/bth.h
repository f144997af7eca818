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
    const std::byte* p = in.data();
    const auto flags = std::to_integer<std::uint8_t>(p[1]);
    const auto variant = std::to_integer<std::uint8_t>(p[4]);
    const auto ack = std::to_integer<std::uint8_t>(p[8]);
    opcode = Opcode{std::to_integer<std::uint8_t>(p[0])};
    solicited = (flags & 0x80) != 0;
    mig_req = (flags & 0x40) != 0;
    pad_count = (flags >> 4) & 0x03;
    transport_version = flags & 0x0F;
    pkey = PKey(base::load_be<std::uint16_t>(p + 2));
    fecn = (variant & 0x80) != 0;
    becn = (variant & 0x40) != 0;
    reserved_variant = variant & 0x3F;
    dest_qp = Qpn(base::load_be24(p + 5));
    ack_request = (ack & 0x80) != 0;
    reserved_ack = ack & 0x7F;
    psn = Psn(base::load_be24(p + 9));
  }
  static tl::expected<Bth, ParseError> parse(std::span<const std::byte> in) {
    if (in.size() < kSize) return tl::unexpected(ParseError::kTruncated);
    Bth header;
    header.read(in.first<kSize>());
    return header;
  }

  void write(std::span<std::byte, kSize> out) const {
    std::byte* p = out.data();
    p[0] = static_cast<std::byte>(opcode);
    p[1] = static_cast<std::byte>((solicited ? 0x80 : 0) | (mig_req ? 0x40 : 0) |
                                  (pad_count & 0x03) << 4 | (transport_version & 0x0F));
    base::store_be<std::uint16_t>(p + 2, pkey.value);
    p[4] =
        static_cast<std::byte>((fecn ? 0x80 : 0) | (becn ? 0x40 : 0) | (reserved_variant & 0x3F));
    base::store_be24(p + 5, dest_qp.value);
    p[8] = static_cast<std::byte>((ack_request ? 0x80 : 0) | (reserved_ack & 0x7F));
    base::store_be24(p + 9, psn.value());
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
