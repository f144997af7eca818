#include "wire/packet.h"

#include <algorithm>
#include <optional>

#include "base/assert.h"
#include "wire/ieth.h"
#include "wire/immediate.h"

namespace weft::wire {
namespace {

/// Walks over headers whose total length has been checked against the table.
class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}

  template <class Header>
  void next(Header& header) {
    header.read(std::span<const std::byte, Header::kSize>(at_, Header::kSize));
    at_ += Header::kSize;
  }

 private:
  const std::byte* at_;
};

class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}

  template <class Header>
  void next(const Header& header) {
    header.write(std::span<std::byte, Header::kSize>(at_, Header::kSize));
    at_ += Header::kSize;
  }

 private:
  std::byte* at_;
};

/// What is wrong with the bytes for a packet of this kind, before its extension headers are read.
std::optional<ParseError> fault_in(const Bth& bth, const OpcodeInfo& info, std::size_t size) {
  if (bth.transport_version != 0) return ParseError::kBadTransportVersion;
  if (!info.known) return ParseError::kUnknownOpcode;
  if (size < info.header_bytes) return ParseError::kTruncated;
  if (size % 4 != 0) return ParseError::kUnaligned;
  const std::size_t rest = size - info.header_bytes;
  if (bth.pad_count > rest) return ParseError::kBadPad;
  if (!info.has_payload && rest != 0) return ParseError::kBadPayloadLength;
  if (info.service == Service::kCongestion && rest - bth.pad_count != kCnpPayloadBytes) {
    return ParseError::kBadPayloadLength;
  }
  return std::nullopt;
}

}  // namespace

// One variable for every return, so that it is built in the caller's place: a copy of a Packet that
// was just written costs more than the parsing.
tl::expected<Packet, ParseError> parse_packet(std::span<const std::byte> in) {
  tl::expected<Packet, ParseError> result;
  if (in.size() < Bth::kSize) {
    result = tl::unexpected(ParseError::kTruncated);
    return result;
  }
  Packet& packet = *result;
  Reader reader(in.data());
  reader.next(packet.bth);
  const OpcodeInfo& info = packet.info();
  if (const auto fault = fault_in(packet.bth, info, in.size())) {
    result = tl::unexpected(*fault);
    return result;
  }
  packet.payload =
      in.subspan(info.header_bytes, in.size() - info.header_bytes - packet.bth.pad_count);
  if (info.header_bytes == Bth::kSize) return result;
  if (info.has_rdeth) reader.next(packet.rdeth);
  if (info.has_deth) reader.next(packet.deth);
  if (info.has_reth) reader.next(packet.reth);
  if (info.has_atomic) reader.next(packet.atomic);
  if (info.has_aeth) reader.next(packet.aeth);
  if (info.has_atomic_ack) reader.next(packet.atomic_ack);
  if (info.has_immediate) {
    Immediate immediate;
    reader.next(immediate);
    packet.immediate = immediate.data;
  }
  if (info.has_invalidate) {
    Ieth ieth;
    reader.next(ieth);
    packet.invalidate_key = ieth.key;
  }
  return result;
}

std::size_t emit_headers(const Packet& packet, std::span<std::byte> out) {
  const OpcodeInfo& info = packet.info();
  WEFT_ASSERT(info.known);
  WEFT_ASSERT(out.size() >= info.header_bytes);
  Writer writer(out.data());
  writer.next(packet.bth);
  if (info.header_bytes == Bth::kSize) return Bth::kSize;
  if (info.has_rdeth) writer.next(packet.rdeth);
  if (info.has_deth) writer.next(packet.deth);
  if (info.has_reth) writer.next(packet.reth);
  if (info.has_atomic) writer.next(packet.atomic);
  if (info.has_aeth) writer.next(packet.aeth);
  if (info.has_atomic_ack) writer.next(packet.atomic_ack);
  if (info.has_immediate) writer.next(Immediate{packet.immediate});
  if (info.has_invalidate) writer.next(Ieth{packet.invalidate_key});
  return info.header_bytes;
}

std::size_t emit_packet(const Packet& packet, std::span<std::byte> out) {
  const std::size_t headers = emit_headers(packet, out);
  const std::size_t pad = packet.bth.pad_count;
  const std::size_t total = headers + packet.payload.size() + pad;
  WEFT_ASSERT(pad < 4 && out.size() >= total);
  std::ranges::copy(packet.payload, out.begin() + static_cast<std::ptrdiff_t>(headers));
  std::ranges::fill(out.subspan(total - pad, pad), std::byte{0});
  return total;
}

}  // namespace weft::wire
