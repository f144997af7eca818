// What a link is to be: where its two ends are, and how its program behaves. Values that the
// scenario draws from the seed.
#pragma once

#include <array>
#include <cstdint>

#include "weft/queue_pair_attributes.h"

namespace weft::worlds {

struct EndSpec {
  std::uint32_t node = 0;
  std::uint32_t card = 0;
  std::uint32_t process = 0;
  std::uint8_t port = 1;
  std::uint32_t send_queue = 0, receive_queue = 0;  ///< completion queues of the card
  bool shared_receive = false;
};

struct LinkSpec {
  Service service = Service::kReliableConnection;
  std::array<EndSpec, 2> ends;
  QueuePairAttributes attributes;
  QueuePairLimits limits;
  std::uint32_t slot_bytes = 4096;  ///< the longest message
  std::uint32_t requests = 100;     ///< to be posted in all
  Nanoseconds pause_ns = 10'000;    ///< at most, between two bursts
  std::uint32_t mischief = 0;       ///< one forbidden request in this many; 0: none
  std::uint32_t upheaval = 0;       ///< one forced error or destruction in so many bursts; 0: none
  std::uint32_t receive_buffers = 8;
  bool lazy_receiver = false;  ///< posts buffers late
  bool psn_near_wrap = false;
  bool reuse_queue_pairs = false;           ///< reconnects by way of RESET instead of destroying
  Access shelf_addressing = Access::kNone;  ///< kZeroBased or kOpaqueAddress
};

}  // namespace weft::worlds
