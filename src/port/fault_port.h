// A port with faults: what arrives is lost, repeated, overtaken, corrupted, late or slow, as a
// specification and a seed say; the n-th frame to arrive always meets the same fate. What is sent
// passes untouched, so two ends that both have faults affect each direction once.
//
// Why on arrival: there the frame is a whole packet again, in one thread, and what is held back is
// a copy that nobody waits for. The port inside has confirmed the ICRC; to corrupt a frame, the
// datagram is made once more with the ICRC that it had, bits are flipped anywhere in it, and the
// same check that guards the socket decides. So the receiver finds out by itself, or does not when
// the flips are where no ICRC looks.
//
//   arrives -> lost? -> corrupted? -> link (rate) -> delay, in order -> held up (reorder) -> handed
//   up
//
// Threads as port.h says. `now` must be the clock of the engine that asks for the next deadline.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "port/fates.h"
#include "port/fault_spec.h"
#include "port/port_wrapper.h"

namespace weft::port {

/// What happened so far. A frame may be counted in several, but in `lost` or `overflowed` alone.
struct FaultCounts {
  std::uint64_t frames = 0;  ///< arrived, before faults
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t reordered = 0;  ///< held up, whether or not something came by
  std::uint64_t marked = 0;
  std::uint64_t overflowed = 0;  ///< lost because too many were waiting
};

class FaultPort final : public PortWrapper {
 public:
  using Now = std::function<Nanoseconds()>;
  /// What waits at most: 128 ms of full frames at 1 Gbit.
  static constexpr std::size_t kMostHeld = 4096;

  FaultPort(std::unique_ptr<Port> inner, const FaultSpec& spec, std::uint64_t seed, Now now);
  ~FaultPort() override;

  std::size_t receive(Receiver& receiver, std::size_t max) override;
  Nanoseconds next_deadline() const override;

  /// For the thread that receives.
  const FaultCounts& counts() const { return counts_; }
  std::size_t held() const { return held_.size(); }

 private:
  /// One call of receive(): what comes from the port inside, and what becomes of it.
  class Arrivals;
  struct Held {
    Nanoseconds when;
    std::uint64_t number;  ///< equal times: first come, first served
    network::Flow flow;
    std::vector<std::byte> packet;
  };

  static bool later(const Held& a, const Held& b);
  void hold(Nanoseconds until, const Incoming& frame);
  std::size_t release(Receiver& receiver, Nanoseconds now, std::size_t max);

  const FaultSpec spec_;
  const Now clock_;
  Fates fates_;
  FaultCounts counts_;
  Nanoseconds link_free_at_ = 0;   ///< the last frame has been carried
  Nanoseconds last_in_order_ = 0;  ///< no later frame that is not held up comes before
  std::uint64_t next_number_ = 0;
  std::vector<Held> held_;  ///< a heap, the earliest first
  std::atomic<Nanoseconds> earliest_{kNever};
};

}  // namespace weft::port
