// A port that records: every frame that its user sends, and every frame that its user gets, goes to
// a capture file as a whole IP packet with its ICRC. As the outermost wrapper it shows what the
// controller saw, after all faults; what a check code turned away is not in the file. One write for
// each call of send() and of receive(), so a killed process lacks at most the frames of the call
// that it died in. Payload that cannot be read any more is left out with its frame.
//
// The file may be shared with other ports. Threads as port.h says.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "port/pcap_writer.h"
#include "port/port_wrapper.h"

namespace weft::port {

class PcapPort final : public PortWrapper {
 public:
  /// Time since 1970, so that the files of several processes can be merged.
  using WallClock = std::function<Nanoseconds()>;
  static Nanoseconds system_time();

  PcapPort(std::unique_ptr<Port> inner, std::shared_ptr<PcapWriter> file,
           WallClock clock = system_time);

  SendOutcome send(std::span<const Outgoing> frames) override;
  std::size_t receive(Receiver& receiver, std::size_t max) override;

 private:
  class Tap;

  bool record(const Outgoing& out, Nanoseconds when);
  void record(const Incoming& in, Nanoseconds when);
  void flush();

  const std::shared_ptr<PcapWriter> file_;
  const WallClock clock_;
  std::atomic<bool> complained_{false};
};

}  // namespace weft::port
