// The receiving half of a reliable stream: which frame number comes next, what a frame with another
// one means, how many messages are complete, which acknowledgement is owed and whether it may wait.
// It knows nothing of what the frames carry: its owner shows it the number of each frame, executes
// what is expected, tells how that went, and sends the acknowledgements. Sans-IO. A plain value of
// its owner, under the owner's lock.
//
//   what is owed:
//             accepted, or a copy
//      kNone --------------------> kAck         each is sent once, and then nothing is owed;
//        |  gap                                 kAck takes the place of both NAKs, since the frame
//        +-----> kSequenceNak                   that they ask for has come;
//        |  no receive buffer                   kFatalNak stays: nothing is accepted any more
//        +-----> kReceiverNotReady
//        +-----> kFatalNak
#pragma once

#include <cstdint>

#include "weft/types.h"
#include "wire/aeth.h"

namespace weft::transport {

class StreamReceiver {
 public:
  enum class Arrival : std::uint8_t {
    kExpected,  ///< to be executed: accept(), defer() or refuse() follows
    kCopy,      ///< of a frame that was accepted before
    kEarly,     ///< frames before it are missing
    kTooLate,   ///< something was refused: nothing behind it counts
  };
  enum class Owed : std::uint8_t { kNone, kAck, kSequenceNak, kReceiverNotReady, kFatalNak };
  struct Acknowledgement {
    Owed kind = Owed::kNone;
    Psn psn;
    wire::Aeth aeth;
  };

  void start(Psn first, std::uint32_t msn = 0) {
    *this = {};
    expected_ = acknowledged_ = first;
    msn_ = msn;
  }

  Psn expected() const { return expected_; }
  /// Messages that are complete, modulo 2^24.
  std::uint32_t msn() const { return msn_; }
  bool owes() const { return owed_ != Owed::kNone; }
  /// What is owed refuses nothing, so it may wait for company (AckDelay).
  bool owes_ack() const { return owed_ == Owed::kAck; }

  /// A frame with this number has come.
  Arrival on_frame(Psn psn) {
    const std::int32_t ahead = psn.compare(expected_);
    if (ahead < 0) return Arrival::kCopy;
    if (owed_ == Owed::kFatalNak) return Arrival::kTooLate;
    if (ahead == 0) return Arrival::kExpected;
    if (!nak_given_) owe_nak(Owed::kSequenceNak);
    return Arrival::kEarly;
  }
  /// The same for who only takes what is expected.
  bool expects(Psn psn) const { return psn == expected_ && owed_ != Owed::kFatalNak; }

  /// The expected frame was taken; `asks`: at once, or with a later one, it is acknowledged.
  void accept(bool completes_message, bool asks) {
    ++expected_;
    nak_given_ = false;
    if (completes_message) complete_message();
    // A NAK that did not go out yet is overtaken by the frame that it would have asked for.
    if (asks || owes()) owed_ = Owed::kAck;
  }
  /// The same for a request that data answers, with so many frames: they acknowledge it, and all
  /// before it.
  void accept_for_data(std::uint32_t frames) {
    expected_ += frames;
    nak_given_ = false;
    complete_message();
    owed_ = Owed::kNone;
  }
  /// The expected frame cannot be taken now: there is no receive buffer.
  void defer() { owe_nak(Owed::kReceiverNotReady); }
  /// The expected frame ends the stream.
  void refuse(wire::NakCode code) {
    owed_ = Owed::kFatalNak;
    fatal_code_ = code;
  }
  /// The same for an earlier one, whose answer cannot be given.
  void refuse_at(Psn psn, wire::NakCode code) {
    expected_ = psn;
    refuse(code);
  }
  /// The sender begins anew behind this frame, which is not before the expected one.
  void resync(Psn psn) {
    expected_ = psn + 1;
    nak_given_ = false;
    owed_ = Owed::kAck;
  }
  /// A copy came, and may mean that the acknowledgement was lost.
  void acknowledge_again() {
    if (!owes()) owed_ = Owed::kAck;
  }
  /// Something was accepted that nobody has been told of.
  bool has_unacknowledged() const { return owes() || acknowledged_ != expected_; }
  /// The stream is about to end: what was accepted and not acknowledged, since nobody asked, is
  /// now.
  void acknowledge_all() {
    if (!owes() && acknowledged_ != expected_) owed_ = Owed::kAck;
  }

  /// What is owed, which is taken as sent. `rnr_timer`: how long a sender waits for a buffer.
  Acknowledgement take_acknowledgement(std::uint8_t rnr_timer);

 private:
  void owe_nak(Owed kind) {
    owed_ = kind;
    nak_given_ = true;
  }
  void complete_message() { msn_ = (msn_ + 1) & kMask24; }

  Owed owed_ = Owed::kNone;
  wire::NakCode fatal_code_ = wire::NakCode::kInvalidRequest;
  bool nak_given_ = false;  ///< for the expected frame: those ahead of it are dropped in silence
  Psn expected_;
  Psn acknowledged_;  ///< behind the last frame that an acknowledgement has told of
  std::uint32_t msn_ = 0;
};

}  // namespace weft::transport
