// The receiving direction of a channel, without clock, socket or thread (figure 6): finds frames in
// its ring, answers control messages, reads what was offered, and hands out messages in order, each
// a view into the ring or, if it came in pieces or was read, memory of its own. A slot is free
// again when everything in it was handed out and every view of it is gone.
//
// Rings: current (frames arrive here), pending (granted, the sender has not moved yet), retired
// (the sender has left it: its key is dead, its memory goes when the last view does).
//
// Belongs to an endpoint; one thread at a time. What it reads may be a liar's: every length is
// checked where it is used, also when it was checked before; and a peer that writes a frame for
// which it has no slot ends the channel, before its frame takes the entry of one that is held.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "channel/acknowledgement.h"
#include "channel/layout.h"
#include "channel/outlet.h"
#include "channel/wires.h"
#include "weft/channel_settings.h"

namespace weft::channel {

struct ReceiveFigures {
  std::uint64_t messages = 0, bytes = 0, frames = 0, pieces = 0, pulls = 0;
  std::uint32_t controls = 0, granted = 0, refused = 0, switches = 0, abandoned = 0;

  bool operator==(const ReceiveFigures&) const = default;
};

/// The peer, as a sender.
struct PeerShape {
  std::uint32_t channel = 0;  ///< what its control messages call the channel
  std::uint32_t slots = 2;    ///< of its send ring: the fewest that it ever said
};

/// A message that was handed out; release() takes it back.
struct Incoming {
  const std::byte* data = nullptr;
  std::uint64_t length = 0;
  std::uint32_t frame = 0;
  Region region;  ///< exists: the message's own memory
};

/// The same for a message that lies in a frame.
struct View {
  const std::byte* data;
  std::uint64_t length;
  std::uint32_t frame;

  explicit operator Incoming() const { return {data, length, frame, {}}; }
};

class ReceiveHalf {
 public:
  ReceiveHalf(const Settings& settings, Wires& wires, Outlet& outlet, std::byte* control)
      : settings_(settings),
        wires_(wires),
        outlet_(outlet),
        room_(outlet.room()),
        control_(control) {}
  ReceiveHalf(const ReceiveHalf&) = delete;
  ReceiveHalf& operator=(const ReceiveHalf&) = delete;

  bool start();
  RemoteRing grant() const {
    return {current_.address(), current_.remote_key, current_.slots, current_.slot_bytes};
  }
  void connect(std::uint64_t peer_control, RemoteKey key, const PeerShape& peer) {
    peer_control_ = peer_control, peer_key_ = key;
    peer_ = peer;
    measure_window();
  }
  void stop();

  /// The next frame has landed.
  bool has_landed() const {
    return static_cast<std::uint32_t>(watch64(tail_) >> 32) == tag_of(scan_);
  }
  /// The same within so many looks, and pauses before them.
  bool lands(std::uint32_t looks, std::uint32_t pauses) const {
    return comes_to_be(tail_ + sizeof(std::uint32_t), tag_of(scan_), looks, pauses);
  }
  /// Takes up the next frame, which has landed, for the most common case: whole messages in it, and
  /// nothing before it. False: scan() has to look closer.
  bool fast_take_up(std::uint32_t& peer_consumed) {
    // A full ring is for scan() to judge, which knows what of it lies in the ring before this one.
    if (deliver_ != scan_ || scan_ - room_.consumed >= current_.slots || peer_closed_ ||
        !error_.empty()) {
      return false;
    }
    const auto end = static_cast<std::uint32_t>(watch64(tail_));
    const std::uint32_t length = end - kPlain;
    if (length < kHeadBytes + kRecordBytes + kTailBytes || length > current_.slot_bytes ||
        length % 8 != 0) {  // not plain: the subtraction leaves no multiple of 8
      return false;
    }
    const std::byte* begin = tail_ + kTailBytes - length;
    const auto head = load<std::uint64_t>(begin);
    if (static_cast<std::uint32_t>(head) != tag_of(scan_)) return false;
    peer_consumed = static_cast<std::uint32_t>(head >> 32);
    // Its lines come from the peer's core: all at once, not one after the other.
    const std::byte* ahead = begin + std::min(length, kAhead);
    for (const std::byte* line = begin + kLineBytes; line < ahead; line += kLineBytes) {
      __builtin_prefetch(line);
    }
    frame_at(scan_) = {begin, length, 1};
    ++figures_.frames;
    ++scan_;
    tail_ += current_.slot_bytes;
    if (tail_ > last_tail_) aim();
    return true;
  }
  /// Takes up the frames that have landed; true if there were any. `peer_consumed` is what the last
  /// of them said about the other direction.
  bool scan(std::uint32_t& peer_consumed);
  /// The next message, if all of it is here.
  std::optional<Incoming> deliver();
  /// The same for the usual case: a whole message.
  bool deliver_next(View& message) {
    if (deliver_ == scan_) return false;
    Frame& frame = frame_at(deliver_);
    const auto head = load<std::uint64_t>(frame.begin + offset_);
    const auto bytes = static_cast<std::uint32_t>(head >> 32);
    const std::uint32_t end = frame.length - kTailBytes;
    const std::uint64_t next = std::uint64_t{offset_} + kRecordBytes + round_up_8(bytes);
    if (head != record_word(Kind::kWhole, bytes) || bytes > end || next > end || !error_.empty()) {
      return false;
    }
    message = {frame.begin + offset_ + kRecordBytes, bytes, deliver_};
    ++figures_.messages;
    figures_.bytes += bytes;
    if (next == end) {  // what counted for the rest of the frame counts for this view now
      offset_ = kHeadBytes;
      if (++deliver_ != scan_) skip_controls();
      return true;
    }
    offset_ = static_cast<std::uint32_t>(next);
    ++frame.live;
    if (load<RecordHead>(frame.begin + next).kind != Kind::kWhole) skip_controls();
    return true;
  }
  void release(Incoming& message) {
    if (message.region.exists()) return release_region(message);
    release_view(message.frame);
  }
  /// The same for a message without memory of its own.
  void release_view(std::uint32_t frame) {
    if (--frame_at(frame).live > 0) return;
    if (frame != room_.consumed || frame + 1 != deliver_ || cold_ != nullptr) {
      return advance_consumed();
    }
    ++room_.consumed;
  }
  /// An answer that had to wait, a repetition that was asked for, a read that had no memory.
  void progress(std::uint32_t repeat, Nanoseconds now);
  /// Makes the ring that a control message asks for, and answers. To be done between two looks for
  /// messages, of which it takes the time of a few.
  void step() { finish_move(); }
  bool has_steps() const { return move_waits_ || answer_waiting_; }
  /// A control message was found, and the sender has not moved yet.
  bool growing() const { return has_steps() || cold().pending.exists(); }
  /// Reads what was offered, as far as that is possible now. An offer is not read in the moment in
  /// which it was found, but after another look at what else has come: the sender may have recalled
  /// it while this end slept, and a read of what is closed ends the connection.
  void start_pulls();
  bool has_fresh_offers() const { return fresh_offers_; }
  /// Reads are under way.
  bool reading() const { return reading_ > 0; }
  /// True: that work was one of the reads.
  bool on_read_done(std::uint32_t number);

  std::uint32_t consumed() const { return room_.consumed; }
  /// So few frames have come since the peer was told of its room that it need not hear more yet.
  bool is_quiet() const { return scan_ - room_.told < quiet_frames_; }
  /// Frames that have landed.
  std::uint32_t scanned() const { return scan_; }
  /// For the status words: offers that need not stay any more, and those of them that were left.
  std::uint32_t pulled() const { return pulled_; }
  std::uint32_t left() const { return left_; }
  /// One of these is news that nothing else brings to the sender.
  bool has_news() const { return news_; }
  void news_told() { news_ = false; }
  /// Slots that the sender can use: its own ring may have fewer.
  std::uint32_t window() const { return std::min(current_.slots, peer_.slots); }
  std::uint32_t phase() const { return current_.phase; }
  bool peer_closed() const { return peer_closed_; }
  /// Nothing more will ever be delivered.
  bool at_end() const { return peer_closed_ && deliver_ == scan_; }
  bool has_undelivered() const { return deliver_ != scan_; }
  /// A frame has landed, or was not yet handed out whole.
  bool has_arrivals() const { return deliver_ != scan_ || has_landed(); }
  /// There may be a message to deliver, or the end.
  bool has_something() const { return deliver_ != scan_ || peer_closed_ || !error_.empty(); }
  bool busy() const {
    return has_steps() || cold().retired.exists() || !cold().pulls.empty() ||
           !cold().returns.empty();
  }
  /// Nothing is to be expected for a while: gives back what only growth and large messages need.
  void rest();
  std::uint64_t registered_bytes() const;
  const ReceiveFigures& figures() const { return figures_; }
  std::string_view error() const { return error_; }

  // dormant.cc
  bool can_be_dormant() const;
  void sleep(Dormant& to, DormantRest& rest) const;
  /// In the ring that it had when it fell asleep.
  void wake(const Dormant& from, const DormantRest& rest, const Ring& ring);
  const Ring& ring() const { return current_; }

 private:
  static constexpr std::uint32_t kAhead = 16 * kLineBytes;
  struct Frame {
    const std::byte* begin = nullptr;
    std::uint32_t length = 0;
    std::uint32_t live = 0;  // views, and one more until all of it is handed out
  };
  /// An offer whose message is read ahead, or a piece that is read into the message under way.
  struct Pull {
    Offer offer;
    Region region;  // for a whole message
    std::uint32_t work = 0;
    bool fresh = true;  // not yet looked at by start_pulls()
    bool started = false, done = false;
    bool left = false;  // recalled before it was started: also done
  };

  bool fail(std::string_view why);
  void aim();
  void measure_window() {
    quiet_frames_ = peer_closed_ ? 0 : std::min((window() + 1) / 2, window() - 1);
  }
  Frame& frame_at(std::uint32_t sequence) { return frames_[sequence & frames_mask_]; }
  /// Every slot of the current ring holds a frame that was not given back.
  bool is_full() const {
    const bool before = static_cast<std::int32_t>(room_.consumed - base_) < 0;
    return scan_ - (before ? base_ : room_.consumed) >= current_.slots;
  }
  bool take_frame(const std::byte* slot, std::uint32_t length);
  bool take_record(const std::byte* payload, RecordHead head, bool last_in_frame);
  std::optional<Move> control_in(const std::byte* payload, RecordHead head);
  bool on_move(const Move& move);
  void make_answer();
  bool must_drain_first();
  void replace_ring(const Move& move);
  void finish_move();
  void on_abandon();
  bool on_offer(const Offer& offer);
  void answer(Verdict verdict, const Ring& ring);
  void post_answer();
  void switch_rings(std::uint32_t next_frame);
  void drop(Ring& ring);
  std::optional<Ring> find_ring(const Move& move);
  void resize_frames(std::uint32_t slots);
  void start(Pull& pull, std::byte* to, LocalKey key);
  bool heed_recall(Pull& pull);
  void note_ended(Pull& pull);
  void return_keys();
  bool begin_message(std::uint64_t total);
  bool deliver_piece(const std::byte* bytes, std::uint64_t n);
  enum class Step { kNext, kWait, kFailed };
  Step deliver_offer(std::optional<Incoming>& out);
  std::optional<Incoming> finish_message();
  void advance(std::uint32_t record_length);
  void skip_controls();
  void release_region(Incoming& message);
  void advance_consumed();

  const Settings& settings_;
  Wires& wires_;
  Outlet& outlet_;
  Room& room_;
  std::byte* const control_;
  std::uint64_t peer_control_ = 0;
  RemoteKey peer_key_;
  PeerShape peer_;

  /// What a connection whose messages all fit has no use for: most have none of it.
  struct ColdState {
    Ring pending, retired;
    std::vector<Ring> kept;
    Move move;                       // not yet looked into
    Nanoseconds drain_deadline = 0;  // until when the ring before is waited for; 0: not yet known
    bool drain_overdue = false;      // it was waited for in vain
    Acknowledgement answer;
    Region message;  // of which pieces have come
    std::uint64_t message_bytes = 0, filled = 0;
    std::vector<Pull> pulls;             // oldest first; few
    std::vector<std::uint32_t> returns;  // windows of the peer that are to be closed
  };
  static const ColdState kNoColdState;
  ColdState& make_cold() {
    if (cold_ == nullptr) cold_ = std::make_unique<ColdState>();
    return *cold_;
  }
  const ColdState& cold() const { return cold_ == nullptr ? kNoColdState : *cold_; }

  Ring current_;
  std::unique_ptr<ColdState> cold_;
  std::unique_ptr<Frame[]> frames_;  // of two rings, which can be unreleased at one time
  std::uint32_t frames_mask_ = 0;
  const std::byte* tail_ = nullptr;       // of the frame that is looked for
  const std::byte* last_tail_ = nullptr;  // of the ring's last slot
  std::uint32_t base_ = 0;                // first frame of the current ring
  std::uint32_t scan_ = 0;                // the frame that is looked for
  std::uint32_t deliver_ = 0;             // the frame that is handed out
  std::uint32_t offset_ = kHeadBytes;
  std::uint32_t quiet_frames_ = 0;  // see is_quiet()

  std::uint32_t answered_ = 0;  // sequence of the newest answer
  bool move_waits_ = false, answer_waiting_ = false;
  std::uint32_t offers_ = 0, pulled_ = 0, left_ = 0, reading_ = 0;
  bool news_ = false, fresh_offers_ = false;
  bool peer_closed_ = false;
  ReceiveFigures figures_;
  std::string_view error_;
};

}  // namespace weft::channel
