// The simulated network: carries frames between endpoints (addresses of ports) with delay, and
// loses, repeats, holds up and corrupts them as the faults say. An address stays when its port
// goes: frames that are on the way then find nobody, or the port that has come in its place. Owned
// by the world, outlives all ports; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/event_queue.h"
#include "sim/faults.h"
#include "sim/frame_pool.h"
#include "sim/stage.h"

namespace weft::sim {

/// Whoever takes the frames that arrive at an endpoint.
class Inbox {
 public:
  /// Takes the frame over.
  virtual void on_arrival(SimFrame* frame) = 0;
  /// All frames of this instant have arrived.
  virtual void on_arrivals_end() = 0;
  virtual std::size_t waiting() const = 0;

 protected:
  ~Inbox() = default;
};

class Network final : public Actor {
 public:
  using Tap = std::function<void(Nanoseconds when, std::span<const std::byte> packet)>;

  Network(Stage& stage, Checksums checksums) : stage_(stage), checksums_(checksums) {}

  /// A new address of a node; its number.
  std::uint32_t add_endpoint(const Gid& address, std::uint32_t node, std::string name);
  /// nullptr: nobody is there.
  void attach(std::uint32_t endpoint, Inbox* inbox) { endpoints_[endpoint].inbox = inbox; }

  void set_faults(const Faults& faults) { faults_ = faults; }
  const Faults& faults() const { return faults_; }
  void set_delay(Nanoseconds least, Nanoseconds most) { least_ns_ = least, most_ns_ = most; }
  /// Nodes whose bit is set and the others hear nothing of each other; 0: all hear all.
  void partition(std::uint64_t nodes) { cut_off_ = nodes; }
  std::uint64_t partitioned() const { return cut_off_; }
  /// Sees every frame that is sent, with its ICRC, before faults.
  void set_tap(Tap tap) { tap_ = std::move(tap); }

  FramePool& pool() { return pool_; }
  Checksums checksums() const { return checksums_; }

  /// Sends a frame whose bytes and flow are filled in. Takes it over.
  void transmit(std::uint32_t source, SimFrame* frame);

  void on_event(std::uint64_t batch) override;

 private:
  static constexpr std::uint32_t kNone = ~0u;

  struct Endpoint {
    Gid address;
    std::uint32_t node;
    Inbox* inbox;
    std::uint32_t open_batch;  ///< the last one announced; frames of the same instant join it
  };
  struct Batch {
    Nanoseconds when;
    std::uint32_t endpoint;
    FrameList frames;
  };

  std::uint32_t find(const Gid& address);
  void schedule(SimFrame* frame, Nanoseconds when);
  void corrupt(SimFrame& frame);
  SimFrame* copy_of(const SimFrame& frame);
  Nanoseconds delay_between(std::uint32_t source, std::uint32_t destination) const;
  void drop(SimFrame* frame, What fate, std::uint64_t Stats::*counter);

  Stage& stage_;
  const Checksums checksums_;
  FramePool pool_;
  Faults faults_;
  Nanoseconds least_ns_ = 1'000, most_ns_ = 1'000;
  std::uint64_t cut_off_ = 0;
  Tap tap_;
  std::vector<Endpoint> endpoints_;
  std::unordered_map<Gid, std::uint32_t> by_address_;
  std::uint32_t found_last_ = kNone;  ///< frames to one destination come in rows
  std::vector<Batch> batches_;
  std::vector<std::uint32_t> free_batches_;
};

/// Stores the ICRC that the frame's bytes ask for.
void seal(SimFrame& frame);

}  // namespace weft::sim
