// Which IPv4 identifications the senders around here use, so that one that was recovered from a
// frame's ICRC can be judged: without that, one damaged frame in 65,536 would pass. Senders are of
// two kinds: those like weft, whose frames have 0, or their place in a batch (GSO);
// and those that count. Sockets of weft that are connected count each by itself. Linux has one
// counter for all that the host sends to one address: it moves on while other ports send, and, when
// nothing was sent for a while, by up to as many as the kernel's clock has ticked meanwhile.
// Tables of fixed size, indexed by the sender: a flood of invented senders makes them forget, never
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
    if (!entry.is_of(source, port)) entry = {source, port, Kind::kPlaces, {}, {}};
  }

  /// A frame that came at `now` would be good with this identification: is it one that the sender
  /// would use?
  bool accept(const Gid& source, std::uint16_t port, std::uint16_t identification, Nanoseconds now);

 private:
  enum class Kind : std::uint8_t { kPlaces, kCounts };
  /// Where a sender had come to, and when.
  struct Counter {
    std::uint16_t last = 0;
    Nanoseconds at = kNever;  ///< so far it has come nowhere
  };
  struct Entry {
    bool is_of(const Gid& address, std::uint16_t number) const {
      return source == address && port == number;
    }

    Gid source;
    std::uint16_t port = 0;
    Kind kind = Kind::kPlaces;
    Counter counter;
    Counter candidate;  ///< refused, but a sender that goes on from here counts
  };
  /// Of all ports of a host that counts.
  struct Host {
    Gid source;
    bool counts = false;
    Counter counter;
  };
  static constexpr std::size_t kEntries = 256, kHosts = 64;

  static bool is_ahead(const Counter& counter, std::uint16_t identification, Nanoseconds now,
                       Nanoseconds most);
  static bool is_near(const Counter& counter, std::uint16_t identification, Nanoseconds now);
  static void advance(Counter& counter, std::uint16_t identification, Nanoseconds now);
  Entry& entry_of(const Gid& source, std::uint16_t port) {
    return entries_[(std::hash<Gid>{}(source) + port) % kEntries];
  }
  void note(Entry& entry, Host& host, std::uint16_t identification, Nanoseconds now);

  std::array<Entry, kEntries> entries_{};
  std::array<Host, kHosts> hosts_{};
};

}  // namespace weft::port
