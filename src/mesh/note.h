// What two meshes tell each other besides messages: how a pair begins, agrees to rest, and ends.
// Each is one send of the reliable datagram service:
//
//    0  magic      8  from (name)    24  gid    44  lane       52  consumed
//    4  kind      16  to (name)      40  qpn    48  channel    56  hello, 48 bytes
//
// A name is 64 random bits, which one end gives to one incarnation of a pair. `channel` is the
// receiver's own number for the pair. Little-endian. Values; any thread; parse() takes a stranger's
// bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "channel/endpoint.h"
#include "weft/mesh.h"

namespace weft::mesh {

enum class NoteKind : std::uint32_t {
  kAsk = 1,  ///< here are my rings; where are yours?
  kWelcome,  ///< here
  kReady,    ///< the asker has got it, which shows that it is where it says
  kRefuse,   ///< no memory for you, or no such pair
  kPart,     ///< nothing is under way: let both give everything back
  kParted,   ///< I have
  kStay,     ///< I have something under way
  kGone      ///< nothing follows, this pair ends
};

struct Note {
  static constexpr std::size_t kBytes = 104;

  NoteKind kind = NoteKind::kAsk;
  std::uint64_t from = 0, to = 0;
  Address address;  ///< of the sender
  Qpn lane;         ///< the sender's queue pair for this pair
  std::uint32_t channel = 0;
  std::uint32_t consumed = 0;  ///< frames of the receiver's, by the sender
  channel::Hello hello;        ///< of an ask and a welcome

  bool has_hello() const { return kind == NoteKind::kAsk || kind == NoteKind::kWelcome; }
  std::array<std::byte, kBytes> emit() const;
  static std::optional<Note> parse(std::span<const std::byte> bytes);
};

}  // namespace weft::mesh
