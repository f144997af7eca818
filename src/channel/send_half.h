// The sending direction of a channel, without clock, socket or thread (figures 3 to 5): takes
// vectors into frames, posts frames as far as the receiver has room, asks for another phase when a
// vector needs it, and moves there when the receiver has agreed. Growing and shrinking are one
// procedure:
//
//            ask()                 granted                    room for kLast
//   kSteady -------> kAsked ----------------------> kLeaving ---------------> kSteady, new ring
//      ^               | refused, unreadable,           | strict: after the last completion
//      +---------------+ too often repeated             v
//        (goes on in pieces, asks again later)      the old ring drains, is unregistered, freed
//
// Belongs to an endpoint; one thread at a time.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "channel/acknowledgement.h"
#include "channel/layout.h"
#include "channel/outlet.h"
#include "channel/vector_scan.h"
#include "channel/wires.h"
#include "weft/channel_settings.h"

namespace weft::channel {

struct SendFigures {
  std::uint64_t messages = 0, bytes = 0, frames = 0, pieces = 0, loans = 0;
  std::uint32_t controls = 0, repeats = 0, grows = 0, shrinks = 0;
  std::uint32_t refusals = 0, postponements = 0, abandoned = 0, corrupt = 0;

  bool operator==(const SendFigures&) const = default;
};

class SendHalf {
 public:
  SendHalf(const Settings& settings, Wires& wires, Outlet& outlet, std::byte* control,
           std::uint32_t channel);
  SendHalf(const SendHalf&) = delete;
  SendHalf& operator=(const SendHalf&) = delete;

  /// Provisions the first ring (332). False: no memory.
  bool start();
  void connect(const RemoteRing& peer) {
    remote_ = peer;
    measure_rings();
  }
  /// Revokes and frees everything; no work is outstanding any more, or the queue pair is gone.
  void stop();

  /// Figure 3. Gives how many bytes were taken: 0 means "not yet".
  std::uint64_t take(std::span<const iovec> vector, std::uint64_t size_hint, Nanoseconds now);
  /// The same for one element that fits, when nothing out of the ordinary is under way; false:
  /// take() has to look closer.
  bool fast_take(const iovec& element) {
    const std::uint64_t length = element.iov_len;
    if (length - 1 >= fast_most_) return false;
    if (frame_open_ || in_flight() >= limit() || !outlet_.is_clear()) return fast_gather(element);
    const auto bytes = static_cast<std::uint32_t>(length);
    const std::uint32_t end = kHeadBytes + kRecordBytes + round_up_8(bytes);
    if (end + kTailBytes > frame_most_) return false;
    put_whole(frame_at_ + kHeadBytes, element.iov_base, bytes);
    history_ <<= 1;
    ++figures_.messages;
    figures_.bytes += length;
    const std::uint32_t frame_bytes = seal(frame_at_, end, kPlain);
    frame_work_ = outlet_.write(frame_at_, frame_bytes, remote_end_ - frame_bytes,
                                {local_.local_key, remote_.key});
    go_on();
    return true;
  }
  /// Rings are being changed, in steps, each of which is best done behind a message, while that
  /// travels.
  bool has_steps() const { return has_steps_; }
  void step_behind(Nanoseconds now) {
    if (frame_open_) look_around();
    step(now);
    update_fast_most();
  }
  /// The same for many messages: gives how many were taken.
  std::size_t take_batch(std::span<const iovec> messages);
  /// Bytes of the message that was begun and not yet given whole; the next vector must be these.
  std::uint64_t rest_bytes() const { return rest_; }

  // send_loan.cc: messages that the peer reads where they are.
  /// Lends a message in place: the memory must stay until loan_done(). 0: not yet.
  std::uint32_t lend(std::span<const std::byte> message);
  bool loan_done(std::uint32_t number) const;
  /// What take() has lent and not yet said to be taken; 0: nothing.
  std::uint32_t lent_by_take() const { return lent_number_; }
  /// The peer has closed a window.
  void on_returned(RemoteKey key);
  /// Asks the peer not to read it; loan_done() tells when it is certain either way.
  void recall(std::uint32_t number);
  /// Closes the key, whatever the peer does: a read that is under way ends the connection.
  void revoke(std::uint32_t number);
  /// Of a loan that is done: the peer did not read it. Forgotten when it was asked for.
  bool was_left(std::uint32_t number);
  /// For the status words.
  std::uint32_t recalled_offers() const;
  /// The connection is lost: nobody will read what was lent, and nobody shall. Closes the keys.
  void end_loans();

  /// Looks for answers, room and time-outs, and posts what waits.
  void progress(Nanoseconds now);
  /// The last record of this direction; false: no room yet.
  bool close();
  /// Everything has been posted and every slot has been given back.
  bool drained() const { return !frame_open_ && consumed_ == next_ && cold().loans.empty(); }
  bool has_open_frame() const { return frame_open_; }
  void note_consumed(std::uint32_t consumed) {
    const std::uint32_t ahead = consumed - consumed_;
    if (ahead == 0) return;
    if (static_cast<std::int32_t>(ahead) < 0) return;  // older news, by another way
    if (ahead > next_ - consumed_) [[unlikely]]
      return note_impossible();
    consumed_ = consumed;
  }

  /// The peer has consumed frames, or read loans, since take() left something or since the last
  /// call.
  bool take_note_of_room() {
    const std::uint32_t given_back = consumed_ + peer_pulled_;
    return std::exchange(room_seen_, given_back) != given_back;
  }

  std::uint32_t channel() const { return channel_; }
  std::uint32_t phase() const { return local_.phase; }
  std::uint32_t slots() const { return local_.slots; }
  bool moving() const { return state_ != State::kSteady; }
  /// The ring would go if it were certain that nothing reads from it.
  bool keeps_ring_in_vain() const {
    return settings_.lean && local_.exists() && !outlet_.done(frame_work_);
  }
  bool busy() const {
    return moving() || frame_open_ || cold().old.exists() || !cold().loans.empty();
  }
  /// Nothing is to be expected for a while: gives back what only growth and loans need.
  void rest();
  std::uint32_t sequence() const { return sequence_; }
  std::uint64_t registered_bytes() const;
  const SendFigures& figures() const { return figures_; }
  std::string_view error() const { return error_; }
  /// When progress() has to be called even if nothing happens.
  Nanoseconds next_deadline() const;
  bool idle_shrink_due(Nanoseconds now) const;
  bool wants_status() const { return status_wanted_; }
  void status_told() { status_wanted_ = false; }

  // dormant.cc
  bool can_be_dormant() const;
  void sleep(Dormant& to, DormantRest& rest) const;
  void wake(const Dormant& from, const DormantRest& rest);

 private:
  enum class State : std::uint8_t { kSteady, kAsked, kLeaving };
  struct Loan {
    Region region;
    std::uint32_t number;
    bool begins;   ///< its message; not a further piece
    bool returns;  ///< the peer closes the window
    bool recalled = false;
    std::uint32_t closing = 0;  ///< work that closes the window; 0: none was posted
    bool revoked = false;  ///< the key is closed; the peer has still to hear that it was recalled
  };

  std::uint32_t in_flight() const {
    // What was posted before the current ring takes no room in it.
    const bool before = static_cast<std::int32_t>(consumed_ - base_) < 0;
    return next_ - (before ? base_ : consumed_);
  }
  /// Frames under way; the last slot is kept for small messages to gather in, except from the
  /// protocol, which so gets on even when a view holds a slot.
  std::uint32_t limit() const { return limit_; }
  std::uint32_t frame_bytes_most() const { return frame_most_; }
  std::uint32_t room() const { return frame_most_ - used_ - kTailBytes; }
  std::byte* append(Kind kind, std::uint32_t length) {
    std::byte* at = frame_at_ + used_;
    store(at, record_word(kind, length));
    if (kind != Kind::kWhole) plain_ = 0;
    urgent_ = urgent_ || (kind >= Kind::kMove && kind != Kind::kOffer);
    used_ += kRecordBytes + round_up_8(length);
    return at + kRecordBytes;
  }
  static void put_whole(std::byte* at, const void* from, std::uint32_t length) {
    store(at, record_word(Kind::kWhole, length));
    if (length == 8) {
      store(at + kRecordBytes, load<std::uint64_t>(static_cast<const std::byte*>(from)));
    } else {
      std::memcpy(at + kRecordBytes, from, length);
    }
  }
  /// A whole message that fits the open frame.
  void append_whole(const void* from, std::uint32_t length) {
    put_whole(frame_at_ + used_, from, length);
    used_ += kRecordBytes + round_up_8(length);
  }
  /// Head and tail around what ends at `end`; gives the bytes of all.
  std::uint32_t seal(std::byte* frame, std::uint32_t end, std::uint32_t plain) {
    Room& room = outlet_.room();
    const std::uint32_t tag = tag_of(next_), length = end + kTailBytes;
    store(frame, word_of(tag, room.consumed));
    store(frame + end, word_of(length | plain, tag));
    room.told = room.consumed;
    return length;
  }
  /// To the next slots of both rings.
  void go_on() {
    frame_at_ += local_.slot_bytes;
    if (++local_index_ == local_.slots) local_index_ = 0, frame_at_ = local_.memory;
    remote_end_ += remote_.slot_bytes;
    if (++remote_index_ == remote_.slots) {
      remote_index_ = 0;
      remote_end_ = remote_.address + remote_.slot_bytes;
    }
    ++next_;
    ++figures_.frames;
  }
  void note_impossible();
  void measure_rings();
  void update_fast_most();
  // send_half.cc: frames
  bool provision_again();
  bool open_frame() {
    if (frame_open_) return true;
    if (in_flight() > limit() || (!local_.exists() && !provision_again())) return false;
    frame_open_ = true;
    used_ = kHeadBytes;
    plain_ = kPlain;
    return true;
  }
  std::uint64_t take_any(std::span<const iovec> vector, std::uint64_t size_hint, Nanoseconds now);
  bool make_room(std::uint32_t record_bytes);
  bool post_frame(bool signaled = false) {
    if (!frame_open_) return true;
    if (in_flight() >= limit() + (urgent_ ? 1 : 0) || !outlet_.has_room()) return false;
    post_open_frame(signaled);
    return true;
  }
  void post_open_frame(bool signaled);
  bool fast_gather(const iovec& element);
  void read_status();
  std::uint64_t take_pieces(std::span<const iovec> vector, std::uint64_t bytes,
                            std::uint64_t total);
  std::uint64_t take_lent(std::span<const iovec> vector, std::uint64_t total);
  bool is_lent(const iovec& element) const {
    return element.iov_base == cold().lent_memory && element.iov_len == cold().lent_bytes;
  }
  bool open_loan(std::span<const std::byte> message, std::uint64_t total);
  void settle_loans();
  bool is_over(Loan& loan);
  void end_loan(Loan& loan, bool left);
  bool fail(std::string_view why);
  void look_around();
  void step(Nanoseconds now);
  // send_move.cc: phases
  bool wants_move(std::uint64_t wanted_bytes, Nanoseconds now);
  bool ask(std::uint32_t phase, Nanoseconds now);
  void check_answer(Nanoseconds now);
  void on_answer(const Acknowledgement& answer, Nanoseconds now);
  bool acceptable(const Acknowledgement& answer) const;
  void repeat(Nanoseconds now);
  void give_up(Nanoseconds now, Nanoseconds pause_ns);
  ProvisionOrder order() const;
  bool provision_next();
  void drop_fresh();
  void introduce();
  void switch_rings();
  void leave(Nanoseconds now);
  void retire_old();
  std::uint64_t threshold() const;
  AcknowledgementSlot answer_slot() const;

  const Settings& settings_;
  Wires& wires_;
  Outlet& outlet_;
  std::byte* const control_;
  const std::uint32_t channel_;

  /// What a connection that neither grows nor lends has no use for: most have none of it.
  struct ColdState {
    Ring fresh, old;         // fresh: provisioned for the next phase; old: being drained
    std::vector<Ring> kept;  // of phases that were left, if the user wants them kept
    RemoteRing granted;
    std::vector<Loan> loans;            // oldest first; few
    std::vector<std::uint32_t> left;    // loans that ended unread, until somebody asks
    const void* lent_memory = nullptr;  // what take() lent, to be recognised when it comes again
    std::uint64_t lent_bytes = 0;
    std::uint32_t old_last_work = 0;
  };
  static const ColdState kNoColdState;
  ColdState& make_cold() {
    if (cold_ == nullptr) cold_ = std::make_unique<ColdState>();
    return *cold_;
  }
  const ColdState& cold() const { return cold_ == nullptr ? kNoColdState : *cold_; }

  Ring local_;
  RemoteRing remote_;
  std::unique_ptr<ColdState> cold_;
  std::uint32_t next_ = 0;                            // sequence of the frame that is posted next
  std::uint32_t base_ = 0;                            // of the first frame in the current ring
  std::uint32_t local_index_ = 0, remote_index_ = 0;  // of the slot for the next frame
  std::uint32_t consumed_ = 0;
  std::uint32_t room_seen_ = 0;               // see take_note_of_room()
  std::uint32_t limit_ = 0, frame_most_ = 0;  // of the two rings together
  std::byte* frame_at_ = nullptr;             // the slot for the next frame, or the open one
  std::uint64_t remote_end_ = 0;              // where the peer's slot for it ends
  std::uint32_t used_ = 0;                    // bytes of the open frame, head included
  std::uint32_t plain_ = 0;                   // kPlain: it has only whole messages
  std::uint64_t fast_most_ = 0;  // what fast_take() may take; 0: something is under way
  std::uint64_t rest_ = 0;

  State state_ = State::kSteady;
  std::uint32_t target_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint32_t tries_ = 0;
  std::uint32_t frame_work_ = 0;  // the work of the newest frame
  Nanoseconds answer_deadline_ = kNever;
  Nanoseconds no_growth_until_ = 0;
  Nanoseconds last_large_ns_ = 0;
  std::uint64_t history_ = 0;  // one bit for each of the last 64 messages: oversized?

  std::uint32_t offers_ = 0, peer_pulled_ = 0, peer_left_ = 0;
  std::uint32_t lent_number_ = 0;  // of what take() lent; 0: nothing

  bool frame_open_ = false, last_in_frame_ = false, status_wanted_ = false, closed_ = false;
  bool urgent_ = false;  // the open frame has something for the protocol
  bool loans_ended_ = false;
  bool torn_ = false;       // the head flag of the answer was seen, and not its tail
  bool has_steps_ = false;  // moving, or an old ring is left to go
  SendFigures figures_;
  std::string_view error_;
};

}  // namespace weft::channel
