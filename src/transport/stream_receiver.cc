#include "transport/stream_receiver.h"

#include <utility>

namespace weft::transport {

StreamReceiver::Acknowledgement StreamReceiver::take_acknowledgement(std::uint8_t rnr_timer) {
  Acknowledgement out{std::exchange(owed_, Owed::kNone), expected_, {}};
  switch (out.kind) {
    case Owed::kNone:
      break;
    case Owed::kAck:
      out.psn = expected_ - 1;
      out.aeth = wire::Aeth::ack(msn_);
      acknowledged_ = expected_;
      break;
    case Owed::kSequenceNak:
      out.aeth = wire::Aeth::nak(msn_, wire::NakCode::kPsnSequence);
      break;
    case Owed::kReceiverNotReady:
      out.aeth = wire::Aeth::rnr_nak(msn_, rnr_timer);
      break;
    case Owed::kFatalNak:
      out.aeth = wire::Aeth::nak(msn_, fatal_code_);
      break;
  }
  return out;
}

}  // namespace weft::transport
