// Which IPv4 identifications the senders around here use, so that one that was recovered from a
// frame's ICRC can be judged: without that, one damaged frame in 65,536 would pass. Senders are of
// two kinds: those like weft, whose frames have 0, or their place in a batch (GSO);
// and those that count, as do the sockets of weft that are connected. A table of fixed size,
// indexed by the sender's address and port: a flood of invented senders makes it forget, never
// grow. Owned by a port's receiving side, one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "weft/types.h"

namespace weft::port {

class IdentificationBook {
 public:
  /// A batch has no more frames than this.
  static constexpr std::uint16_t kLongestBatch = 128;

  /// A frame was good with the identification that weft would give it.
  void note_place(const Gid& source, std::uint16_t port) {
    Entry& entry = entry_of(source, port);
    if (!entry.is_of(source, port)) entry = {source, port, Kind::kPlaces, 0, 0};
  }

  /// A frame would be good with this identification: is it one that the sender would use?
  bool accept(const Gid& source, std::uint16_t port, std::uint16_t identification);

 private:
  enum class Kind : std::uint8_t { kPlaces, kCounts };
  struct Entry {
    bool is_of(const Gid& address, std::uint16_t number) const {
      return source == address && port == number;
    }

    Gid source;
    std::uint16_t port = 0;
    Kind kind = Kind::kPlaces;
    std::uint16_t last = 0;
    std::uint16_t candidate = 0;  ///< refused, but a sender that goes on from here counts
  };
  static constexpr std::size_t kEntries = 256;

  Entry& entry_of(const Gid& source, std::uint16_t port) {
    return entries_[(std::hash<Gid>{}(source) + port) % kEntries];
  }

  std::array<Entry, kEntries> entries_{};
};

}  // namespace weft::port
