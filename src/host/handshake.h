// The messages of a link's socket, as they lie in memory (both ends run on one machine). Whatever
// comes from a peer is checked before it is used.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "host/local_socket.h"
#include "weft/types.h"

namespace weft::host {

inline constexpr std::size_t kMaxAddresses = 8;
inline constexpr std::uint32_t kHandshakeMagic = 0x7765'6674;
inline constexpr std::uint16_t kHandshakeVersion = 2;

enum class Note : std::uint16_t {
  kHello,      ///< initiator: page, ring [, pidfd]
  kWelcome,    ///< target: page, tables [, pidfd]
  kArena,      ///< target: the memfd of an arena
  kArenaGone,  ///< target: that arena has been destroyed
};

struct Handshake {
  std::uint32_t magic = kHandshakeMagic;
  std::uint16_t version = kHandshakeVersion;
  Note note = Note::kHello;
  bool has_pidfd = false;
  bool owner_checks = false;  ///< of a welcome: whatever touches memory goes through the ring
  std::uint16_t address_count = 0;
  std::uint32_t arena = 0;
  std::uint64_t arena_bytes = 0;
  std::array<Gid, kMaxAddresses> addresses{};
};

/// Only what this version understands.
inline std::optional<Handshake> parse_handshake(const Message& message) {
  Handshake note;
  if (message.bytes.size() != sizeof note) return {};
  std::memcpy(&note, message.bytes.data(), sizeof note);
  const auto raw = std::to_integer<unsigned>(message.bytes[offsetof(Handshake, has_pidfd)]) |
                   std::to_integer<unsigned>(message.bytes[offsetof(Handshake, owner_checks)]);
  if (raw > 1 || note.magic != kHandshakeMagic || note.version != kHandshakeVersion ||
      note.note > Note::kArenaGone || note.address_count > kMaxAddresses) {
    return {};
  }
  std::size_t fds = 2u + (note.has_pidfd ? 1 : 0);
  if (note.note == Note::kArena) fds = 1;
  if (note.note == Note::kArenaGone) fds = 0;
  if (message.fds.size() != fds) return {};
  return note;
}

/// The fd if it is what its sender calls it, else none: it will be waited on.
Fd take_pidfd(StrangeFd fd);
/// Of this process; none when the kernel gives none.
Fd open_own_pidfd();

}  // namespace weft::host
