// One end of a channel: both directions, the control block, and the status words that this end
// writes to the other. Still without clock, socket, thread or lock: the driver says what completed
// and what time it is. Owned by the driver's channel; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "channel/outlet.h"
#include "channel/receive_half.h"
#include "channel/send_half.h"

namespace weft::channel {

/// What an end tells the other when they meet: where to write. 48 bytes on the wire.
struct Hello {
  std::uint64_t control = 0;
  RemoteKey control_key;
  RemoteRing ring;
  std::uint32_t send_slots = 0;  ///< of this end's send ring: the peer returns room in time for it

  bool lets_identifier_go = false;  ///< of the connection manager, once the connection stands
  std::uint32_t channel = 0;        ///< what this end's control messages call the channel

  static constexpr std::size_t kBytes = 48;
  void emit(std::span<std::byte, kBytes> to) const;
  /// Nothing: no hello of this version, or one that no honest peer would send.
  static std::optional<Hello> parse(std::span<const std::byte> from);
};

class Endpoint {
 public:
  Endpoint(const Settings& settings, Wires& wires, const Control& control, std::uint32_t send_depth,
           std::uint32_t channel)
      : outlet_(wires, send_depth, control),
        send_(settings, wires, outlet_, control.memory, channel),
        receive_(settings, wires, outlet_, control.memory),
        control_(control.memory) {}

  /// Provisions the first rings (A1). False: no memory.
  bool start() { return receive_.start() && send_.start(); }
  void connect(const Hello& peer);
  RemoteRing grant() const { return receive_.grant(); }
  std::uint32_t send_slots() const { return send_.slots(); }
  std::uint32_t channel() const { return send_.channel(); }
  void stop() {
    send_.stop();
    receive_.stop();
  }

  std::uint64_t take(std::span<const iovec> vector, std::uint64_t size_hint, Nanoseconds now) {
    if (vector.size() == 1 && fast_take(vector[0])) {
      if (has_steps_behind()) step_behind(now);
      return vector[0].iov_len;
    }
    const std::uint64_t taken = send_.take(vector, size_hint, now);
    send_status();
    notify_if_missed();
    return taken;
  }
  /// One element that fits, when nothing out of the ordinary is under way.
  bool fast_take(const iovec& element) {
    if (!send_.fast_take(element)) return false;
    if (outlet_.unnotified()) notify_if_missed();
    return true;
  }
  /// A step of changing rings, behind a message that was sent.
  bool has_steps_behind() const { return send_.has_steps(); }
  void step_behind(Nanoseconds now) { send_.step_behind(now); }
  /// For who has asked just now: looks for the answer, so many times, and makes use of it.
  void await_answer(std::uint32_t looks, Nanoseconds now) {
    for (; looks > 0 && send_.moving(); --looks) {
      send_.step_behind(now);
      base::relax();
    }
  }
  /// Of messages that fit, as many as find room; frames go when they are full, and the last one.
  std::size_t take_batch(std::span<const iovec> messages) {
    const std::size_t taken = send_.take_batch(messages);
    if (taken > 0 && outlet_.unnotified()) notify_if_missed();
    return taken;
  }
  std::uint32_t lend(std::span<const std::byte> message) { return send_.lend(message); }
  void on_returned(RemoteKey key) { send_.on_returned(key); }
  void recall(std::uint32_t loan) {
    send_.recall(loan);
    send_status();
  }
  void revoke(std::uint32_t loan) {
    send_.revoke(loan);
    send_status();
  }
  bool was_left(std::uint32_t loan) { return send_.was_left(loan); }
  void end_loans() { send_.end_loans(); }
  /// For who looks again and again: a message that is here, or comes within so many looks at
  /// memory, if nothing out of the ordinary comes with it. `patient`: nothing else waits.
  [[gnu::always_inline]] bool fast_deliver(View& message, std::uint32_t looks, bool patient) {
    if (receive_.deliver_next(message)) return true;
    if (receive_.has_undelivered()) return false;
    // Where messages go to and fro, the other end is at work now, perhaps on the same core.
    const std::uint32_t pauses = patient && converses_ ? kPauses : 0;
    std::uint32_t consumed = 0;
    if (!receive_.lands(looks, pauses) || !receive_.fast_take_up(consumed)) return false;
    note_delivery();
    send_.note_consumed(consumed);
    if (!receive_.is_quiet()) note_progress();
    return receive_.deliver_next(message);
  }
  /// The same for whatever has come, with a closer look if there is something to see.
  std::optional<Incoming> look() {
    if (status_due_) send_owed_status();
    View message;
    if (fast_deliver(message, 1, false)) return Incoming(message);
    return receive_.has_arrivals() ? deliver() : std::nullopt;
  }
  /// For who takes many: the next message of a frame that was taken up before.
  bool deliver_next(View& message) { return receive_.deliver_next(message); }
  bool owes_status() const { return status_due_; }
  bool take_note_of_room() { return send_.take_note_of_room(); }
  std::optional<Incoming> deliver() {
    View view;
    if (receive_.deliver_next(view)) return Incoming(view);
    auto message = receive_.deliver();
    if (!message && scan()) message = receive_.deliver();
    note_progress();  // pieces give room back even while the rest of their message is missing
    return message;
  }
  void release(Incoming& message) {
    release_one(message);
    released();
  }
  /// The same for many: each by release_one() or release_view(), then released() once.
  void release_one(Incoming& message) { receive_.release(message); }
  void release_view(std::uint32_t frame) { receive_.release_view(frame); }
  void released() {
    if (!receive_.is_quiet()) note_progress();
  }
  /// Completions are to be expected.
  bool awaits() const { return outlet_.awaits(); }
  /// Nothing is to be done but to look for messages.
  bool has_time() const { return !awaits() && !has_steps(); }
  /// Offers were found: to be followed by start_reads() when completions have been looked at.
  bool has_fresh_offers() const { return receive_.has_fresh_offers(); }
  void start_reads() { receive_.start_pulls(); }
  /// Something that takes a while waits to be done between two looks for messages.
  bool has_steps() const { return receive_.has_steps(); }
  void step() { receive_.step(); }
  /// One round: what landed, what is due, what waits.
  void progress(Nanoseconds now);
  void on_done(std::uint32_t number);
  bool close() { return send_.close(); }
  /// Closes; true when the peer has got everything. From a peer that leaves, and of which nothing
  /// is left to receive, only the confirmation of its end is due.
  bool finish(bool peer_leaves) {
    if (peer_leaves && receive_.consumed() == receive_.scanned()) return false;
    return send_.close() && send_.drained();
  }
  /// A write that means nothing and asks for a completion, by which this end learns whether the
  /// peer is still there. Gives its number; 0: none is needed now, or there is no room.
  std::uint32_t probe();
  /// All has been handed out, and the peer, which leaves, knows it.
  bool confirm_end();

  // dormant.cc
  /// Nothing is under way, and nothing is there but the first receive ring.
  bool can_be_dormant() const;
  Dormant sleep() const;
  /// Instead of start() and connect(). `ring` is the one that it had.
  void wake(const Dormant& from, const Ring& ring);

  void set_mode(Mode mode);
  /// While nobody looks: gives back what only traffic needs. May have to be called again.
  void settle_down();
  Mode mode() const { return mode_; }
  /// The peer may have missed something: it said that it looks, and may have stopped since.
  bool unnotified() const { return outlet_.unnotified(); }
  /// Notifies it once more. To be done before this end stops looking.
  void notify();
  /// Says that this end would like its memory back.
  void wish_smaller(bool wish);

  const SendHalf& send() const { return send_; }
  const ReceiveHalf& receive() const { return receive_; }
  std::uint64_t bells() const { return outlet_.bells(); }
  bool failed() const { return outlet_.failed(); }
  std::string_view error() const;
  /// Something is under way that needs progress() soon.
  bool busy() const { return send_.busy() || receive_.busy() || status_due_; }
  std::uint64_t registered_bytes() const {
    return kControlBytes + outlet_.stage_bytes() + send_.registered_bytes() +
           receive_.registered_bytes();
  }

 private:
  /// Pauses of some 40 ns in which a message that answers is waited for.
  static constexpr std::uint32_t kPauses = 8;

  void connect_control(std::uint64_t control, RemoteKey key, const PeerShape& peer);
  bool scan();
  // Half of what the sender can use is worth a write of its own, and so is anything when it has
  // used all of it: it may wait, while a view here holds the rest. Less travels with the next
  // frame; and so does all while the channel grows, when a write more would hold up small messages,
  // if this end is one that answers what it gets.
  void note_progress() {
    update_status_due();
    const bool with_answer = converses_ && receive_.growing();
    if ((status_due_ && !with_answer) || send_.wants_status()) send_status();
  }
  void update_status_due() {
    const Room& room = outlet_.room();
    const std::uint32_t owed = room.consumed - room.told;
    const std::uint32_t window = receive_.window();
    const bool used_up = owed > 0 && receive_.scanned() - room.told + 1 >= window;
    status_due_ = mode_changed_ || used_up || owed >= (window + 1) / 2 || receive_.has_news() ||
                  (receive_.peer_closed() && owed > 0);
  }
  /// What was left to the next frame, and did not go with one.
  void send_owed_status() {
    update_status_due();
    if (status_due_) send_status();
  }
  void note_delivery() {
    const std::uint64_t frames = send_.figures().frames;
    converses_ = frames != frames_at_delivery_;
    frames_at_delivery_ = frames;
  }
  void send_status();
  void notify_if_missed();

  Outlet outlet_;
  SendHalf send_;
  ReceiveHalf receive_;
  std::byte* const control_;
  std::uint64_t peer_control_ = 0;
  RemoteKey peer_key_;
  Mode mode_ = Mode::kAsleep;
  std::uint32_t wishes_ = 0;
  std::uint64_t frames_at_delivery_ = 0;
  std::uint32_t end_confirmation_ = 0;  // the work that says so; 0: none yet
  bool status_due_ = false;             // the peer should be told something
  bool mode_changed_ = false;           // or this end's wishes
  bool converses_ = false;  // something was sent between the last two messages that came
};

}  // namespace weft::channel
