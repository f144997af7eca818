// The header of every management datagram (MAD), 24 bytes in front of what its class says.
//
//    byte 0         1               2               3
//   +---------------+---------------+---------------+---------------+
//   |  base version |     class     | class version |     method    |
//   +---------------+---------------+---------------+---------------+
//   |             status            |         class specific        |
//   +---------------+---------------+---------------+---------------+
//   |                        transaction (64 bits)                  |
//   +---------------+---------------+---------------+---------------+
//   |           attribute           |            reserved           |
//   +---------------+---------------+---------------+---------------+
//   |                       attribute modifier                      |
//   +---------------+---------------+---------------+---------------+
//
// A plain value, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "weft/types.h"

namespace weft::mad {

/// Every management datagram has this length.
inline constexpr std::size_t kBytes = 256;
using Bytes = std::array<std::byte, kBytes>;

inline constexpr std::uint8_t kBaseVersion = 1;

/// Who is to handle a datagram. Any number may arrive.
enum class Class : std::uint8_t {
  kSubnetManagement = 0x01,
  kSubnetAdministration = 0x03,
  kPerformance = 0x04,
  kCommunication = 0x07,
  kSubnetManagementDirected = 0x81,
};

/// Any number may arrive.
enum class Method : std::uint8_t { kGet = 0x01, kSet = 0x02, kSend = 0x03, kGetResponse = 0x81 };

/// Pairs an answer with its question.
using TransactionId = Strong<struct TransactionIdTag, std::uint64_t>;

struct Header {
  static constexpr std::size_t kSize = 24;

  Class management_class{};
  std::uint8_t class_version = 1;
  Method method = Method::kSend;
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  TransactionId transaction{};
  std::uint16_t attribute = 0;
  std::uint32_t modifier = 0;

  /// Nothing when the bytes are too few or of another base version.
  static std::optional<Header> parse(std::span<const std::byte> in);
  /// The reserved bytes become 0.
  void emit(std::span<std::byte, kSize> out) const;

  friend bool operator==(const Header&, const Header&) = default;
};

}  // namespace weft::mad
