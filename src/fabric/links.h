// The link layer and the crossbars: moves flits, tick by tick. It knows links, lanes, credits,
// acknowledgements and input buffers. Where a frame goes next it asks the network layer, once for
// each frame and node. Flat arrays and a calendar: nothing is allocated for a flit once the
// buckets have grown. No clock and no random number but its seed's. Owned by the Fabric; one
// thread.
//
// One tick: flits arrive, from the calendar's bucket; then each port that has something to say and
// whose link is free sends one flit. What frees a buffer or opens a lane wakes the port concerned.
//
// A frame's way through a node: its first flit comes to the end of an input lane's queue. When the
// frame is the queue's first, it asks for an output lane and waits in line until it is the owner.
// Then its flits go as they come (cut-through), one for each credit, until the last one has gone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "fabric/arbiter.h"
#include "fabric/flit.h"
#include "fabric/forwarding.h"
#include "fabric/shape.h"

namespace weft::fabric {

struct LinkSettings {
  std::uint8_t lanes = 1;
  std::uint16_t ack_batch = 8;     ///< flits that one acknowledgement covers at most
  std::uint16_t credit_batch = 1;  ///< freed places that are worth a flit of their own
  std::uint32_t ack_delay = 16;    ///< ticks that either may wait for company
  std::uint32_t turnaround = 0;    ///< ticks that an output lane rests between two frames
  /// A frame starts only when the next buffer has room for all of it, as InfiniBand demands.
  bool whole_frames = false;
  /// An input port feeds one output at a time; otherwise each of its lanes may.
  bool shared_input = true;
  /// Flits without data take their turn on the link; otherwise they cost nothing.
  bool control_takes_turns = true;
  std::uint64_t seed = 1;
};

/// A frame at its end.
struct Arrival {
  FrameIndex frame;
  PortIndex port;
  Tick when;
};
struct Dropped {
  FrameIndex frame;
  PortIndex port;
  Drop why;
};

struct LinkStats {
  std::uint64_t flit_hops = 0;      ///< flits with data that were sent, but for those sent again
  std::uint64_t control_flits = 0;  ///< acknowledgements and credits that found no company
  std::uint64_t damaged = 0;        ///< flits whose check found an error
  std::uint64_t sent_again = 0;
  std::uint64_t out_of_order = 0;  ///< flits that came after a damaged one, or twice
};

class Links {
 public:
  /// What tests and traces see: a flit as it leaves a port.
  using Tap = std::function<void(Tick, PortIndex from, const Flit&)>;

  Links(const Shape& shape, const LinkSettings& settings, Forwarding& forwarding,
        FramePool& frames);

  /// Queues a frame at its source, an endpoint's port. Its lane is set.
  void inject(PortIndex port, FrameIndex frame);
  /// nullptr: round robin. The table outlives the links.
  void set_arbitration(PortIndex port, const ArbitrationTable* table);
  void set_tap(Tap tap) { tap_ = std::move(tap); }

  void step();
  Tick now() const { return now_; }
  /// Nothing will happen by itself any more.
  bool idle() const { return scheduled_ == 0; }
  /// When something happens next; kNever if nothing does.
  Tick next_event() const;
  /// Lets time pass in which nothing happens.
  void skip_to(Tick tick);

  const LinkStats& stats() const { return stats_; }
  std::vector<Arrival>& arrivals() { return arrived_; }
  std::vector<Dropped>& drops() { return dropped_; }
  std::uint64_t sent_by(PortIndex port) const;
  std::uint32_t credits(PortIndex port, std::uint8_t lane) const;
  std::uint32_t buffered(PortIndex port, std::uint8_t lane) const;
  std::size_t bytes() const;

  /// Counts everything anew and says what contradicts: credits, flits in flight and flits in the
  /// buffer make up the capacity of each lane; empty: nothing does.
  std::string contradiction() const;
  /// The cycle of input lanes each of which waits for the next; empty: there is none at this
  /// moment.
  std::vector<std::uint32_t> wait_cycle() const;
  /// The port and lane of such an input lane, and how many flits it has sent.
  PortIndex port_of(std::uint32_t lane) const { return lane >> lane_shift_; }
  std::uint8_t lane_of(std::uint32_t lane) const {
    return static_cast<std::uint8_t>(lane & (lane_stride_ - 1));
  }
  FrameIndex first_frame(std::uint32_t lane) const;
  std::uint64_t progress_of(std::uint32_t lane) const { return in_[lane].freed; }

 private:
  /// A frame, as far as it is in an input buffer.
  struct Segment {
    FrameIndex frame;
    std::uint16_t arrived, sent, flits;
  };
  /// Of a port that receives: a queue of frames; of an endpoint: those that it sends.
  struct InLane {
    std::uint32_t out = kNone;  ///< the output lane that the first frame owns or waits for
    std::uint32_t next_waiting = kNone;
    std::uint32_t received = 0, freed = 0, told = 0;  ///< flits; the last is what the peer knows
    std::uint16_t head = 0, count = 0;                ///< of the ring of segments
  };
  struct OutLane {
    std::uint32_t owner = kNone;                                ///< an input lane
    std::uint32_t first_waiting = kNone, last_waiting = kNone;  ///< input lanes
    std::uint32_t sent = 0, returned = 0;                       ///< flits
    std::uint32_t capacity = 0;
    Tick open_at = 0;  ///< for the next frame
    std::uint32_t credits() const { return capacity - (sent - returned); }
  };
  struct Port {
    PortIndex peer = kNone;
    std::uint32_t flight = 0;  ///< ticks from the beginning of a flit to its use at the other end
    std::uint16_t ticks_per_flit = 1;
    std::uint16_t ready = 0;        ///< lanes with a flit and a credit
    std::uint16_t owes_credit = 0;  ///< lanes whose freed places the peer does not know
    std::uint16_t next_sequence = 0, acknowledged = 0;  ///< as sender
    std::uint16_t expected = 0, unacknowledged = 0;     ///< as receiver
    bool endpoint = false;
    bool awake = false;
    bool timer = false;
    bool owes_control = false;
    Tick free_at = 0;
    Tick input_used = kNever;
    std::uint32_t lossy = kNone;
    const ArbitrationTable* table = nullptr;
    Arbiter arbiter;
  };
  struct Sent {
    FrameIndex frame;
    std::uint16_t index;
    std::uint8_t lane, kind;
  };
  /// What only a link that damages flits needs.
  struct Lossy {
    std::vector<Sent> unacknowledged;  ///< a ring, by sequence number
    double rate = 0;
    std::uint64_t until_damage = kNever;
    std::uint16_t again_from = 0;
    bool sending_again = false;
    std::uint16_t nak = 0;     ///< number of the last one sent
    std::uint16_t resume = 0;  ///< number of the one to be answered
    Tick nak_again_at = 0;
    bool owes_nak = false, nak_open = false, owes_resume = false;
    bool damaged_since = false, nak_timer = false;
  };
  /// The rest of a source's queue, whose first frame is in the input lane.
  struct Source {
    FrameIndex first = kNone, last = kNone;
  };

  // links.cc: flits on links.
  void wake(PortIndex port);
  void wake_at(PortIndex port, Tick when, bool timer = false);
  void process(PortIndex port);
  bool send_data(PortIndex port, Flit& flit);
  std::uint32_t free_lanes(PortIndex port) const;
  bool take_again(Port& port, Lossy& lossy, Flit& flit);
  void transmit(PortIndex port, Flit& flit);
  void attach(PortIndex index, Flit& flit);
  void arrive(const Flit& flit);
  void take_credit(PortIndex index, const Flit& flit);
  void owe_credit(std::uint32_t in, std::uint32_t flits);
  void arm_timer(PortIndex index);

  // links_lossy.cc: what errors on a link need.
  Lossy& make_lossy(PortIndex port, double rate);
  void draw_damage(Lossy& lossy);
  void notice_damage(PortIndex index, Lossy& lossy);
  void send_nak(PortIndex index, Lossy& lossy);
  void on_nak_timer(PortIndex index);
  Tick round_trip(PortIndex index) const;
  static void attach_answers(Lossy& lossy, Flit& flit);
  void maybe_damage(PortIndex port, Lossy& lossy, Flit& flit);
  void take_acknowledgement(PortIndex index, Lossy& lossy, const Flit& flit);
  bool accept_sequence(Port& port, const Flit& flit);
  bool window_open(const Port& port) const;

  // crossbar.cc: frames through nodes.
  void push_flit(const Flit& flit, PortIndex index);
  void pop_frame(std::uint32_t in);
  void route_first(std::uint32_t in);
  void release(std::uint32_t out);
  void renew_ready(std::uint32_t out);
  void consume(std::uint32_t in, Segment& segment);
  Segment& segment(std::uint32_t in, std::uint32_t at) {
    return segments_[segment_base_[port_of(in)] + std::size_t{lane_of(in)} * ring_of(in) +
                     (at & (ring_of(in) - 1))];
  }
  const Segment& segment(std::uint32_t in, std::uint32_t at) const {
    return const_cast<Links*>(this)->segment(in, at);
  }
  Segment& front(std::uint32_t in) { return segment(in, in_[in].head); }
  const Segment& front(std::uint32_t in) const { return segment(in, in_[in].head); }
  std::uint32_t ring_of(std::uint32_t in) const { return ring_size_[port_of(in)]; }

  static constexpr std::uint32_t kConsumed = kNone - 1;  ///< `out` of a frame that is dropped
  /// In the calendar, beside a port's number: whose waiting for company, or for an answer, is over.
  static constexpr std::uint32_t kTimerBit = 1u << 31, kNakBit = 1u << 30;

  const Shape& shape_;
  const LinkSettings settings_;
  Forwarding& forwarding_;
  FramePool& frames_;
  base::SeededRandom random_;
  std::uint32_t lane_shift_ = 0, lane_stride_ = 1;
  Tick now_ = 0;
  std::uint64_t scheduled_ = 0;
  std::vector<Port> ports_;
  std::vector<InLane> in_;
  std::vector<OutLane> out_;
  std::vector<Segment> segments_;
  std::vector<std::size_t> segment_base_;
  std::vector<std::uint16_t> ring_size_;
  std::vector<Source> sources_;
  std::vector<std::unique_ptr<Lossy>> lossy_;
  std::uint64_t calendar_mask_ = 0;
  std::vector<std::vector<Flit>> flights_;
  std::vector<std::vector<std::uint32_t>> wakes_;
  std::vector<Arrival> arrived_;
  std::vector<Dropped> dropped_;
  Tap tap_;
  LinkStats stats_;
};

}  // namespace weft::fabric
