#include "verbs/management.h"

#include <array>
#include <atomic>

#include "network/frame.h"
#include "network/roce.h"
#include "path/directory.h"
#include "verbs/controller.h"
#include "wire/packet.h"

namespace weft::verbs {
namespace {

/// Known to everybody: it keeps nobody out.
constexpr QKey kManagementQKey{0x8001'0000};

// release and acquire: whoever finds it sees it made.
constinit std::atomic<ManagementSink*> the_sink{nullptr};

}  // namespace

void set_management_sink(ManagementSink& sink) { the_sink.store(&sink, std::memory_order_release); }
ManagementSink* management_sink() { return the_sink.load(std::memory_order_acquire); }

bool Controller::on_management(const wire::Packet& packet, const network::Flow& flow) {
  ManagementSink* const sink = management_sink();
  if (sink == nullptr) return false;
  if (packet.bth.opcode != wire::Opcode::kUdSendOnly) {
    counters_.add(obs::Counter::kWrongService);
  } else if (packet.bth.pkey != kDefaultPKey) {
    counters_.add(obs::Counter::kBadPartition);
  } else if (packet.deth.qkey != kManagementQKey) {
    counters_.add(obs::Counter::kBadQKey);
  } else if (packet.payload.size() != kManagementBytes) {
    counters_.add(obs::Counter::kMalformedFrames);
  } else {
    sink->on_datagram(*this,
                      {flow.source, flow.destination, packet.payload.first<kManagementBytes>()});
  }
  return true;
}

bool Controller::send_management(const Gid& source, const Gid& destination,
                                 std::span<const std::byte, kManagementBytes> bytes) {
  for (const PortSetup& port : ports_) {
    if (port.address != source || port.wire == nullptr || inherited()) continue;
    network::OutFrame frame;
    wire::Packet& headers = frame.headers;
    headers.bth.opcode = wire::Opcode::kUdSendOnly;
    headers.bth.dest_qp = path::kManagementQpn;
    headers.bth.psn = Psn(management_psn_.fetch_add(1, std::memory_order_relaxed));
    headers.deth.qkey = kManagementQKey;
    headers.deth.source_qp = path::kManagementQpn;
    frame.add_inline(bytes);
    frame.finish();
    network::Flow flow;
    flow.source = source;
    flow.destination = destination;
    flow.source_port = network::source_port_for(path::kManagementQpn, path::kManagementQpn);
    const std::array<port::Outgoing, 1> out{{{&frame, flow}}};
    const bool sent = port.wire->send(out).taken == out.size();
    if (sent) {
      counters_.add(obs::Counter::kFramesSent);
      counters_.add(obs::Counter::kBytesSent, bytes.size());
    }
    return sent;
  }
  return false;
}

}  // namespace weft::verbs
