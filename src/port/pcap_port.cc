#include "port/pcap_port.h"

#include <array>
#include <ctime>
#include <utility>

#include "memory/guard.h"
#include "network/address.h"
#include "network/roce.h"
#include "obs/log.h"
#include "port/port_control.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace weft::port {
namespace {

constexpr std::size_t kMaxPad = 3;
using NetworkHeaders = std::array<std::byte, network::kMaxNetworkHeaderBytes>;
using CheckCode = std::array<std::byte, wire::kIcrcSize>;
/// BTH to pad.
using PacketBytes = std::array<std::byte, wire::kMaxHeaderBytes + bytes(Mtu::k4096) + kMaxPad>;

CheckCode icrc_of(const network::Flow& flow, std::span<const std::byte> packet) {
  CheckCode out;
  wire::Icrc icrc = network::start_icrc(flow, packet.size() + out.size());
  icrc.add_first(packet).store(out);
  return out;
}

/// Returns the packet's bytes; none when payload could not be read.
std::span<const std::byte> serialise(const network::OutFrame& frame, PacketBytes& out) {
  if (!network::emit_packet(frame, out)) return {};
  return std::span(out).first(frame.packet_bytes());
}

}  // namespace

/// Records what goes up.
class PcapPort::Tap final : public Receiver {
 public:
  Tap(PcapPort& port, Receiver& above) : port_(port), above_(above) {}

  void on_frame(const Incoming& frame) override {
    port_.record(frame, port_.clock_());
    recorded = true;
    above_.on_frame(frame);
  }
  void on_bad_checksum() override { above_.on_bad_checksum(); }
  void on_malformed() override { above_.on_malformed(); }

  bool recorded = false;

 private:
  PcapPort& port_;
  Receiver& above_;
};

Nanoseconds PcapPort::system_time() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<Nanoseconds>(t.tv_sec) * 1'000'000'000 + static_cast<Nanoseconds>(t.tv_nsec);
}

PcapPort::PcapPort(std::unique_ptr<Port> inner, std::shared_ptr<PcapWriter> file, WallClock clock)
    : PortWrapper(std::move(inner)), file_(std::move(file)), clock_(std::move(clock)) {
  memory::install_guard();
  if (control() != nullptr) control()->report_all_headers();  // a file shows what really came
}

// Recorded before they leave, so that no answer stands before its request. What a busy port does
// not take counts as lost on the way, so it is not wrong that it is in the file.
SendOutcome PcapPort::send(std::span<const Outgoing> frames) {
  const Nanoseconds now = clock_();
  for (const Outgoing& out : frames) {
    if (!record(out, now)) break;
  }
  flush();
  return inner().send(frames);
}

std::size_t PcapPort::receive(Receiver& receiver, std::size_t max) {
  Tap tap(*this, receiver);
  const std::size_t handed_up = inner().receive(tap, max);
  if (tap.recorded) flush();
  return handed_up;
}

/// False: this frame and those after it do not leave.
bool PcapPort::record(const Outgoing& out, Nanoseconds when) {
  const network::Flow flow = control() ? control()->flow_on_wire(out.flow) : out.flow;
  if (flow.source.is_ipv4() != flow.destination.is_ipv4()) return true;  // no such packet
  PacketBytes bytes;
  const auto packet = serialise(*out.frame, bytes);
  if (packet.empty()) return false;
  record(Incoming{flow, packet}, when);
  return true;
}

void PcapPort::record(const Incoming& in, Nanoseconds when) {
  NetworkHeaders headers;
  const std::size_t size =
      network::emit_headers(in.flow, in.packet.size() + wire::kIcrcSize, headers);
  file_->write(when, {std::span(headers).first(size), in.packet, icrc_of(in.flow, in.packet)});
}

void PcapPort::flush() {
  if (file_->flush() || complained_.exchange(true, std::memory_order_relaxed)) return;
  obs::log().error("address {}: the capture file takes no more bytes, the capture ends here",
                   network::to_string(address()));
}

}  // namespace weft::port
