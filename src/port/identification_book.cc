#include "port/identification_book.h"

namespace weft::port {
namespace {

/// How far a counting sender may be ahead of what we saw: it sends to others too.
constexpr Nanoseconds kMostAhead = 4096;
/// Frames that overtook each other.
constexpr std::uint16_t kMostBehind = 64;
/// Two frames in a row show that a sender counts, or one and the next attempt at it.
constexpr Nanoseconds kNextAhead = 64, kNextAfter_ns = 10'000'000'000;
/// Of the kernels whose clocks tick most often. A host that was silent for a minute may be
/// anywhere.
constexpr Nanoseconds kTick_ns = 1'000'000;

std::uint16_t distance(std::uint16_t from, std::uint16_t to) {
  return static_cast<std::uint16_t>(to - from);
}

}  // namespace

bool IdentificationBook::is_ahead(const Counter& counter, std::uint16_t identification,
                                  Nanoseconds now, Nanoseconds most) {
  const Nanoseconds ticks = now > counter.at ? (now - counter.at) / kTick_ns : 0;
  return distance(counter.last, identification) <= most + ticks;
}

bool IdentificationBook::is_near(const Counter& counter, std::uint16_t identification,
                                 Nanoseconds now) {
  return is_ahead(counter, identification, now, kMostAhead) ||
         distance(identification, counter.last) <= kMostBehind;
}

/// It stays where it is for a frame that others have overtaken.
void IdentificationBook::advance(Counter& counter, std::uint16_t identification, Nanoseconds now) {
  if (distance(identification, counter.last) > kMostBehind) counter = {identification, now};
}

void IdentificationBook::note(Entry& entry, Host& host, std::uint16_t identification,
                              Nanoseconds now) {
  entry.kind = Kind::kCounts;
  advance(entry.counter, identification, now);
  entry.candidate = entry.counter;
  if (host.counts && host.source == entry.source) {
    advance(host.counter, identification, now);
  } else {
    host = {entry.source, true, {identification, now}};
  }
}

bool IdentificationBook::accept(const Gid& source, std::uint16_t port, std::uint16_t identification,
                                Nanoseconds now) {
  Entry& entry = entry_of(source, port);
  Host& host = hosts_[std::hash<Gid>{}(source) % kHosts];
  const bool follows_host =
      host.counts && host.source == source && is_near(host.counter, identification, now);
  if (!entry.is_of(source, port)) {
    entry = {source, port, Kind::kPlaces, {identification, now}, {identification, now}};
    if (follows_host || identification >= kLongestBatch) note(entry, host, identification, now);
    return true;
  }
  if (entry.kind == Kind::kPlaces && identification < kLongestBatch) return true;
  if (follows_host ||
      (entry.kind == Kind::kCounts && is_near(entry.counter, identification, now))) {
    note(entry, host, identification, now);
    return true;
  }
  const bool goes_on = identification != entry.candidate.last &&
                       now < entry.candidate.at + kNextAfter_ns &&
                       is_ahead(entry.candidate, identification, now, kNextAhead);
  entry.candidate = {identification, now};
  if (!goes_on) return false;
  entry.counter = entry.candidate;
  note(entry, host, identification, now);
  return true;
}

}  // namespace weft::port
