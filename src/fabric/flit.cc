#include "fabric/flit.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/big_endian.h"

namespace weft::fabric {
namespace {

constexpr std::uint16_t kPolynomial = 0x1021;
constexpr std::uint8_t kAllKinds = kData | kHead | kTail | kCredit | kNak | kResume;

constexpr std::array<std::uint16_t, 256> make_check_table() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned value = byte << 8;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 0x8000) != 0 ? value << 1 ^ kPolynomial : value << 1;
    }
    table[byte] = static_cast<std::uint16_t>(value);
  }
  return table;
}

constexpr auto kCheckTable = make_check_table();

}  // namespace

std::uint16_t flit_check(std::span<const std::byte> bytes) {
  std::uint16_t check = 0xFFFF;
  for (const std::byte byte : bytes) {
    const unsigned at = (check >> 8 ^ std::to_integer<unsigned>(byte)) & 0xFF;
    check = static_cast<std::uint16_t>(check << 8 ^ kCheckTable[at]);
  }
  return check;
}

std::vector<std::byte> emit_flit(const Flit& flit, std::span<const std::byte> data) {
  WEFT_ASSERT(data.size() <= kFlitBytes);
  std::vector<std::byte> out(kFlitHeaderBytes + data.size() + kFlitCheckBytes);
  out[0] = static_cast<std::byte>(flit.kind);
  out[1] = static_cast<std::byte>(flit.lane << 4 | flit.credit_lane);
  out[2] = static_cast<std::byte>(data.size());
  base::store_be<std::uint16_t>(&out[4], flit.sequence);
  base::store_be<std::uint16_t>(&out[6], flit.acknowledged);
  base::store_be<std::uint32_t>(&out[8], flit.credit);
  base::store_be<std::uint16_t>(&out[12], flit.nak);
  base::store_be<std::uint16_t>(&out[14], flit.resume);
  std::ranges::copy(data, out.begin() + kFlitHeaderBytes);
  const auto covered = std::span(out).first(out.size() - kFlitCheckBytes);
  base::store_be<std::uint16_t>(&out[covered.size()], flit_check(covered));
  return out;
}

tl::expected<ParsedFlit, wire::ParseError> parse_flit(std::span<const std::byte> in) {
  if (in.size() < kFlitHeaderBytes + kFlitCheckBytes) {
    return tl::unexpected(wire::ParseError::kTruncated);
  }
  const auto covered = in.first(in.size() - kFlitCheckBytes);
  if (base::load_be<std::uint16_t>(&in[covered.size()]) != flit_check(covered)) {
    return tl::unexpected(wire::ParseError::kBadIcrc);
  }
  ParsedFlit parsed;
  Flit& flit = parsed.flit;
  flit.kind = std::to_integer<std::uint8_t>(in[0]);
  flit.lane = std::to_integer<std::uint8_t>(in[1] >> 4);
  flit.credit_lane = std::to_integer<std::uint8_t>(in[1] & std::byte{0xF});
  const auto size = std::to_integer<std::size_t>(in[2]);
  if ((flit.kind & ~kAllKinds) != 0 || in[3] != std::byte{0}) {
    return tl::unexpected(wire::ParseError::kUnknownOpcode);
  }
  if (size > kFlitBytes || size != covered.size() - kFlitHeaderBytes) {
    return tl::unexpected(wire::ParseError::kBadPayloadLength);
  }
  flit.sequence = base::load_be<std::uint16_t>(&in[4]);
  flit.acknowledged = base::load_be<std::uint16_t>(&in[6]);
  flit.credit = base::load_be<std::uint32_t>(&in[8]);
  flit.nak = base::load_be<std::uint16_t>(&in[12]);
  flit.resume = base::load_be<std::uint16_t>(&in[14]);
  parsed.data = covered.subspan(kFlitHeaderBytes);
  return parsed;
}

}  // namespace weft::fabric
