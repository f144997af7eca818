// What the tests of wire share: the packets of the captures, random packets, and a bitwise CRC that
// has nothing in common with the one under test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/capture_reader.h"
#include "wire/ethernet.h"
#include "wire/packet.h"
#include "wire/udp.h"

namespace weft::wire::test {

using Bytes = std::vector<std::byte>;

inline std::string data_file(const std::string& name) {
  return std::string(WEFT_TEST_DATA) + "/" + name;
}

struct CapturedDatagram {
  std::size_t frame = 0;  ///< number in the file, from 1
  Bytes bytes;            ///< from the IP header
};

/// The datagrams of a capture that go to the RoCE port, found by looking at bytes, not with weft.
inline std::vector<CapturedDatagram> roce_datagrams(const std::string& name) {
  std::vector<CapturedDatagram> out;
  std::size_t number = 0;
  for (const weft::test::Frame& frame : weft::test::read_capture(data_file(name))) {
    ++number;
    auto at = [&](std::size_t i) { return std::to_integer<unsigned>(frame.at(i)); };
    if (frame.size() < 62) continue;
    const unsigned type = at(12) << 8 | at(13);
    const bool v4 = type == 0x0800 && at(23) == 17, v6 = type == 0x86DD && at(20) == 17;
    if (!v4 && !v6) continue;
    const std::size_t port_at = v4 ? 14 + 20 + 2 : 14 + 40 + 2;
    if ((at(port_at) << 8 | at(port_at + 1)) != 4791) continue;
    out.push_back({number, Bytes(frame.begin() + 14, frame.end())});
  }
  return out;
}

inline const std::vector<std::string>& capture_names() {
  static const std::vector<std::string> names{"rxe_ref_small.pcapng", "every_opcode.pcap"};
  return names;
}

inline Bytes random_bytes(base::SeededRandom& random, std::size_t size) {
  Bytes out(size);
  random.fill(out);
  return out;
}

/// CRC-32 one bit at a time, as its definition says.
inline std::uint32_t bitwise_crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (std::byte b : bytes) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

/// The ICRC of a datagram without its ICRC, by the definition: copy, mask, bitwise CRC.
inline std::uint32_t reference_icrc(std::span<const std::byte> from_ip_header) {
  Bytes all(8 + from_ip_header.size(), std::byte{0xFF});
  std::ranges::copy(from_ip_header, all.begin() + 8);
  auto mask = [&all](std::initializer_list<std::size_t> offsets) {
    for (std::size_t offset : offsets) all.at(8 + offset) = std::byte{0xFF};
  };
  if (all.at(8) >> 4 == std::byte{4}) {
    mask({1, 8, 10, 11, 26, 27, 32});
  } else {
    all.at(8) |= std::byte{0x0F};
    mask({1, 2, 3, 7, 46, 47, 52});
  }
  return bitwise_crc32(all);
}

/// Opcodes by the specification's numbering, independent of the table under test.
inline std::vector<Opcode> every_opcode() {
  std::vector<Opcode> out;
  auto range = [&out](unsigned from, unsigned to) {
    for (unsigned raw = from; raw <= to; ++raw) out.push_back(static_cast<Opcode>(raw));
  };
  range(0x00, 0x14), range(0x16, 0x17), range(0x1D, 0x1D), range(0x20, 0x2B), range(0x40, 0x55),
      range(0x64, 0x65);
  out.push_back(static_cast<Opcode>(0x81));
  return out;
}

}  // namespace weft::wire::test
