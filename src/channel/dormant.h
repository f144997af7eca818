// What is left of an endpoint that sleeps: the numbers by which it goes on when something happens.
// Only an endpoint at rest can be put down to this: no send ring, nothing under way, nothing to
// receive, and its first receive ring in use. A tenth of the endpoint itself; plain values, owned
// by the channel, which wakes the endpoint for everything but a look at its figures.
#pragma once

#include <cstdint>
#include <memory>

#include "channel/receive_half.h"
#include "channel/send_half.h"

namespace weft::channel {

/// What of a sleeping endpoint is mostly nothing, or small.
struct DormantRest {
  std::uint64_t history = 0;
  Nanoseconds no_growth_until = 0;
  std::uint32_t offers = 0, peer_pulled = 0, peer_left = 0;  ///< sending
  std::uint32_t offered = 0, pulled = 0, left = 0;           ///< receiving
  std::uint64_t bells = 0;
  SendFigures sent;
  ReceiveFigures received;

  bool operator==(const DormantRest&) const = default;
};

class Dormant {
 public:
  /// All fields but those of the rest are to be set before.
  void keep(const DormantRest& rest);
  DormantRest rest() const { return rest_ != nullptr ? *rest_ : usual(); }

  std::uint64_t peer_control = 0, remote_address = 0;
  RemoteKey peer_key, remote_key;
  std::uint32_t peer_channel = 0;
  std::uint16_t remote_slot_words = 0;                ///< of eight bytes
  std::uint8_t remote_slots_1 = 0, peer_slots_1 = 0;  ///< less one: rings have 2 to 256 slots
  std::uint32_t posted = 0, completed = 0, told = 0;  ///< the newest signaled work is complete
  std::uint32_t next = 0, send_base = 0, consumed = 0;
  std::uint32_t sequence = 0, frame_work = 0;
  std::uint32_t receive_base = 0, scan = 0;
  std::uint8_t local_index = 0, remote_index = 0;
  std::uint8_t wishes = 0;
  bool behind_bell = false;

 private:
  DormantRest usual() const;

  std::uint32_t bells_ = 0;
  std::uint32_t messages_sent_ = 0, bytes_sent_ = 0, messages_received_ = 0, bytes_received_ = 0;
  std::unique_ptr<DormantRest> rest_;  ///< only where it is not what usual() says
};
static_assert(sizeof(Dormant) <= 104);

}  // namespace weft::channel
