#include "port/identification_book.h"

namespace weft::port {
namespace {

/// How far a counting sender may be ahead of what we saw: it sends to others too.
constexpr std::uint16_t kMostAhead = 4096;
/// Frames that overtook each other.
constexpr std::uint16_t kMostBehind = 64;
/// Two frames in a row show that a sender counts.
constexpr std::uint16_t kNextAhead = 64;

std::uint16_t distance(std::uint16_t from, std::uint16_t to) {
  return static_cast<std::uint16_t>(to - from);
}

}  // namespace

bool IdentificationBook::accept(const Gid& source, std::uint16_t port,
                                std::uint16_t identification) {
  Entry& entry = entry_of(source, port);
  if (!entry.is_of(source, port)) {
    entry = {source, port, identification < kLongestBatch ? Kind::kPlaces : Kind::kCounts,
             identification, identification};
    return true;
  }
  if (entry.kind == Kind::kPlaces) {
    if (identification < kLongestBatch) return true;
  } else {
    if (distance(entry.last, identification) <= kMostAhead) {
      entry.last = identification;
      return true;
    }
    if (distance(identification, entry.last) <= kMostBehind) return true;
  }
  const std::uint16_t step = distance(entry.candidate, identification);
  const bool goes_on = step != 0 && step <= kNextAhead;
  entry.candidate = identification;
  if (!goes_on) return false;
  entry.kind = Kind::kCounts;
  entry.last = identification;
  return true;
}

}  // namespace weft::port
