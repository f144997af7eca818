// What is left of an endpoint that sleeps: the numbers by which it goes on when something happens.
// Only an endpoint at rest can be put down to this: no send ring, nothing under way, nothing to
// receive, and its first receive ring in use. A fifth of the endpoint itself; plain values, owned
// by the channel, which wakes the endpoint for everything but a look at its figures.
#pragma once

#include <cstdint>
#include <memory>

#include "channel/receive_half.h"
#include "channel/send_half.h"

namespace weft::channel {

/// Figures that most channels have; the others are kept only where there are any.
template <class Figures>
class SleepingFigures {
 public:
  SleepingFigures() = default;
  /// `sequence` counts frames too, as far as it goes.
  SleepingFigures(const Figures& figures, std::uint32_t sequence)
      : messages_(figures.messages), bytes_(figures.bytes) {
    if (get(sequence) != figures) all_ = std::make_unique<Figures>(figures);
  }
  Figures get(std::uint32_t sequence) const {
    if (all_ != nullptr) return *all_;
    Figures figures;
    figures.messages = messages_, figures.bytes = bytes_, figures.frames = sequence;
    return figures;
  }

 private:
  std::uint64_t messages_ = 0, bytes_ = 0;
  std::unique_ptr<Figures> all_;
};

struct DormantOutlet {
  std::uint32_t posted, completed, signaled;
  bool behind_bell;
  Room room;
  std::uint64_t bells;
};

struct DormantSend {
  RemoteRing remote;
  std::uint64_t history;
  Nanoseconds no_growth_until;
  std::uint32_t next, base, consumed;
  std::uint16_t local_index, remote_index;
  std::uint32_t sequence, frame_work;
  std::uint32_t offers, peer_pulled, peer_left;
  SleepingFigures<SendFigures> figures;
};

struct DormantReceive {
  std::uint32_t peer_slots, base, scan;
  std::uint32_t offers, pulled, left;
  SleepingFigures<ReceiveFigures> figures;
};

struct Dormant {
  std::uint64_t peer_control;
  RemoteKey peer_key;
  std::uint32_t wishes;
  DormantOutlet outlet;
  DormantSend send;
  DormantReceive receive;
};

}  // namespace weft::channel
