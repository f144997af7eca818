#include "mad/gsi.h"

#include <array>

#include "network/frame.h"
#include "network/roce.h"
#include "obs/log.h"
#include "path/directory.h"

namespace weft::mad {
namespace {

/// Known to everybody: it keeps nobody out.
constexpr QKey kGsiQKey{0x8001'0000};

}  // namespace

bool Gsi::receive(const wire::Packet& packet, const network::Flow& flow, Nanoseconds now) {
  if (agents_ == nullptr || agents_->empty()) return false;
  if (packet.bth.opcode != wire::Opcode::kUdSendOnly) {
    counters_.add(obs::Counter::kWrongService);
  } else if (packet.bth.pkey != kDefaultPKey) {
    counters_.add(obs::Counter::kBadPartition);
  } else if (packet.deth.qkey != kGsiQKey) {
    counters_.add(obs::Counter::kBadQKey);
  } else if (packet.payload.size() != kBytes) {
    counters_.add(obs::Counter::kMalformedFrames);
  } else {
    const auto header = Header::parse(packet.payload);
    Agent* const agent =
        header ? agents_->find(header->management_class, flow.destination) : nullptr;
    if (agent == nullptr) {
      obs::log().debug("a management datagram that nobody here handles");
    } else {
      agent->on_datagram(*this,
                         {flow.source, flow.destination, now, packet.payload.first<kBytes>()});
    }
  }
  return true;
}

bool Gsi::send(const Gid& source, const Gid& destination,
               std::span<const std::byte, kBytes> bytes) {
  if (generation_ != host::fork_generation()) return false;
  for (const Outlet& port : ports_) {
    if (port.address != source) continue;
    network::OutFrame frame;
    wire::Packet& headers = frame.headers;
    headers.bth.opcode = wire::Opcode::kUdSendOnly;
    headers.bth.dest_qp = path::kGsiQpn;
    headers.bth.psn = Psn(psn_.fetch_add(1, std::memory_order_relaxed));
    headers.deth.qkey = kGsiQKey;
    headers.deth.source_qp = path::kGsiQpn;
    frame.add_inline(bytes);
    frame.finish();
    network::Flow flow;
    flow.source = source;
    flow.destination = destination;
    flow.source_port = network::source_port_for(path::kGsiQpn, path::kGsiQpn);
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

}  // namespace weft::mad
