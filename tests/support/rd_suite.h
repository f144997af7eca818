// The fixture of the reliable datagram's suite: nodes that reach each other in one way, and
// datagram queue pairs that name their peers with each request. One thread, unless a test says
// otherwise.
#pragma once

#include <initializer_list>
#include <vector>

#include "support/path_suite.h"

namespace weft::test {

inline constexpr QKey kRdKey{0x1234};

/// The ways that carry the service.
inline std::vector<Way> datagram_ways() {
  std::vector<Way> ways;
  for (const Wire wire : {Wire::kDirect, Wire::kPipe, Wire::kUdp}) {
    ways.push_back({wire, false});
    ways.push_back({wire, true});
  }
  return ways;
}

class RdSuite : public PathSuite {
 protected:
  QueuePair open_rd(const Node& node, const QueuePairAttributes& attributes = {},
                    QueuePairOptions options = {}, QKey qkey = kRdKey) {
    options.service = Service::kReliableDatagram;
    QueuePair qp = node.create(options);
    must(qp.activate(qkey, attributes));
    return qp;
  }

  /// To that queue pair.
  static SendRequest to(const QueuePair& peer, SendRequest request, QKey qkey = kRdKey) {
    const Endpoint end = peer.endpoint();
    request.destination.gid = end.gid;
    request.destination_qpn = end.qpn;
    request.destination_qkey = qkey;
    return request;
  }

  void send(QueuePair& from, const QueuePair& peer, std::uint64_t wr_id, const Sge& sge) {
    post(from, to(peer, {.wr_id = wr_id}), {sge});
  }
};

}  // namespace weft::test
