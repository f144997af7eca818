#include "worlds/scenario.h"

#include <algorithm>
#include <array>

#include "base/random.h"

namespace weft::worlds {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::uint32_t between(std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(low + random_.below(high - low + 1));
  }
  bool one_in(std::uint64_t n) { return random_.below(n) == 0; }
  template <class T, std::size_t N>
  T of(const std::array<T, N>& choices) {
    return choices[random_.below(N)];
  }
  /// About as often small as large.
  std::uint32_t log_between(std::uint32_t low, std::uint32_t high) {
    std::uint32_t top = low;
    while (top < high && !one_in(4)) top *= 2;
    return between(low, std::clamp(top * 2, low, high));
  }

 private:
  base::SeededRandom random_;
};

constexpr std::array kMtus{Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096};

sim::Faults draw_faults(Draw& draw) {
  sim::Faults faults;
  // Each kind by itself in some worlds, so that its effects are not lost among the others'.
  if (draw.one_in(2)) faults.loss_ppm = draw.log_between(2'000, 100'000);
  if (draw.one_in(2)) faults.duplicate_ppm = draw.log_between(2'000, 100'000);
  if (draw.one_in(2)) faults.jitter_ppm = draw.log_between(2'000, 300'000);
  if (draw.one_in(2)) faults.corrupt_ppm = draw.log_between(2'000, 60'000);
  if (draw.one_in(8)) faults.inbox_frames = draw.between(8, 64);
  faults.jitter_ns = draw.between(1'000, 60'000);
  return faults;
}

Gid draw_address(Draw& draw, std::uint32_t node, std::uint32_t card, std::uint32_t port,
                 bool ipv4) {
  const auto host = static_cast<std::uint8_t>(card * 16 + port + 1);
  if (ipv4) return Gid::ipv4(10, 0, static_cast<std::uint8_t>(node + 1), host);
  Gid gid;
  gid.raw[0] = 0xFD;
  gid.raw[7] = static_cast<std::uint8_t>(draw.between(1, 255));
  gid.raw[14] = static_cast<std::uint8_t>(node + 1);
  gid.raw[15] = host;
  return gid;
}

NodeSpec draw_node(Draw& draw, std::uint32_t number, bool ipv4, bool may_be_adapter) {
  NodeSpec node;
  const bool adapter = may_be_adapter && draw.one_in(5);
  node.processes = adapter ? 1 : draw.between(1, 3);
  node.path = draw.one_in(2) ? verbs::PathPolicy::kFramed : verbs::PathPolicy::kAutomatic;
  const std::uint32_t cards = adapter || draw.one_in(2) ? 1 : 2;
  for (std::uint32_t card = 0; card < cards; ++card) {
    CardSpec spec;
    spec.kind = adapter ? verbs::NodeKind::kIoAdapter : verbs::NodeKind::kHost;
    spec.completion_queues = draw.between(1, 3);
    const std::uint32_t ports = draw.between(1, 2);
    for (std::uint32_t port = 0; port < ports; ++port) {
      spec.ports.push_back(draw_address(draw, number, card, port, ipv4));
    }
    node.cards.push_back(std::move(spec));
  }
  node.memory.frames = draw.of(std::array{256u, 512u, 1024u});
  node.memory.segment_tables =
      draw.one_in(2) ? sim::SegmentTables::kShared : sim::SegmentTables::kCopied;
  node.memory.page_tables = draw.one_in(2) ? sim::PageTables::kPrivate : sim::PageTables::kSystem;
  if (draw.one_in(3)) node.poll_delay_ns = draw.between(100, 40'000);
  return node;
}

EndSpec draw_end(Draw& draw, const std::vector<NodeSpec>& nodes) {
  EndSpec end;
  end.node = draw.between(0, nodes.size() - 1);
  const NodeSpec& node = nodes[end.node];
  end.card = draw.between(0, node.cards.size() - 1);
  end.process = draw.between(0, node.processes - 1);
  end.port = static_cast<std::uint8_t>(draw.between(1, node.cards[end.card].ports.size()));
  end.send_queue = draw.between(0, 2);
  end.receive_queue = draw.between(0, 2);
  end.shared_receive = draw.one_in(4);
  return end;
}

/// The pause between bursts that spreads the requests over about the time in which things go wrong;
/// a few programs are in a hurry.
Nanoseconds draw_pause(Draw& draw, std::uint32_t requests, Nanoseconds healed_at) {
  if (draw.one_in(5)) return draw.log_between(500, 20'000);
  constexpr std::uint64_t kRequestsPerBurst = 4;
  const Nanoseconds mean = healed_at * kRequestsPerBurst / requests;
  return 2 * mean * draw.between(30, 130) / 100 + 1;
}

LinkSpec draw_link(Draw& draw, const std::vector<NodeSpec>& nodes, std::uint32_t slot_bytes,
                   Nanoseconds healed_at) {
  LinkSpec link;
  link.service = draw.one_in(5) ? Service::kUnreliableConnection : Service::kReliableConnection;
  link.ends = {draw_end(draw, nodes), draw_end(draw, nodes)};
  QueuePairAttributes& a = link.attributes;
  a.path_mtu = draw.of(kMtus);
  a.timeout = static_cast<std::uint8_t>(draw.between(6, 9));
  a.retry_count = static_cast<std::uint8_t>(draw.between(5, 7));
  a.rnr_retry = static_cast<std::uint8_t>(draw.one_in(4) ? draw.between(2, 6) : 7);
  a.min_rnr_timer = static_cast<std::uint8_t>(draw.between(1, 8));
  a.max_rd_atomic = static_cast<std::uint8_t>(draw.between(1, 8));
  a.max_dest_rd_atomic = static_cast<std::uint8_t>(draw.between(a.max_rd_atomic, 16));
  a.ack_policy = draw.one_in(2) ? AckPolicy::kEachFrame : AckPolicy::kCoalesced;
  link.limits.max_send_wr = draw.between(8, 64);
  link.limits.max_recv_wr = 32;
  link.limits.max_send_sge = draw.between(1, 6);
  link.limits.max_recv_sge = draw.between(1, 4);
  link.limits.max_inline_bytes = draw.one_in(2) ? 0 : draw.between(16, 512);
  link.slot_bytes = slot_bytes;
  link.requests = draw.between(60, 240);
  link.pause_ns = draw_pause(draw, link.requests, healed_at);
  link.mischief = draw.one_in(2) ? 0 : draw.between(15, 60);
  link.upheaval = draw.one_in(2) ? 0 : draw.between(15, 60);
  link.receive_buffers = draw.between(2, 12);
  link.lazy_receiver = draw.one_in(4);
  link.psn_near_wrap = draw.one_in(3);
  link.reuse_queue_pairs = draw.one_in(2);
  link.shelf_addressing =
      draw.of(std::array{Access::kNone, Access::kZeroBased, Access::kOpaqueAddress});
  return link;
}

/// An I/O adapter has few queue pairs: no more ends than those.
bool fits_adapters(const Scenario& scenario, const LinkSpec& link) {
  for (const EndSpec& end : link.ends) {
    if (scenario.nodes[end.node].cards[end.card].kind == verbs::NodeKind::kHost) continue;
    std::size_t used = 0;
    for (const LinkSpec& other : scenario.links) {
      for (const EndSpec& there : other.ends) used += there.node == end.node ? 1 : 0;
    }
    if (used > 4) return false;
  }
  return true;
}

void make_storm(Scenario& scenario) {
  scenario.faults.loss_ppm = 20'000;
  scenario.faults.duplicate_ppm = 15'000;
  scenario.faults.corrupt_ppm = 10'000;
  scenario.faults.jitter_ppm = 60'000;
  scenario.faults.jitter_ns = 40'000;
  scenario.healed_at = 20'000'000;
  scenario.crashes = 3;
  scenario.partitions = 2;
  scenario.slowdowns = 2;
  scenario.pressure_every_ns = 50'000;
  for (LinkSpec& link : scenario.links) {
    link.requests *= 12;
    link.pause_ns = 2 * scenario.healed_at * 4 / link.requests;
    link.mischief = 200;
    link.upheaval = 200;
  }
  scenario.datagrams.requests *= 4;
}

void make_calm(Scenario& scenario) {
  scenario.faults = {};
  scenario.crashes = scenario.partitions = scenario.slowdowns = 0;
  for (LinkSpec& link : scenario.links) link.mischief = link.upheaval = 0;
}

}  // namespace

Scenario draw_scenario(std::uint64_t seed, std::optional<std::uint32_t> nodes, Weather weather) {
  Draw draw(seed * 2 + 1);
  Scenario s;
  s.seed = seed;
  s.checksums = seed % 2 == 0 ? sim::Checksums::kAlways : sim::Checksums::kOffload;
  s.faults = draw_faults(draw);
  s.least_delay_ns = draw.between(200, 2'000);
  s.most_delay_ns = s.least_delay_ns + draw.between(0, 15'000);
  s.healed_at = draw.between(1'000'000, 8'000'000);
  const bool ipv4 = draw.one_in(2);
  const std::uint32_t count = nodes.value_or(draw.between(2, 5));
  for (std::uint32_t i = 0; i < count; ++i) s.nodes.push_back(draw_node(draw, i, ipv4, i > 0));
  const std::uint32_t slot_bytes = draw.one_in(20) ? 300'000 : draw.log_between(256, 20'000);
  const std::uint32_t links =
      slot_bytes > 100'000 ? 1 : std::max(draw.between(2, 6), nodes.value_or(0));
  for (std::uint32_t i = 0; i < links; ++i) {
    LinkSpec link = draw_link(draw, s.nodes, slot_bytes, s.healed_at);
    if (fits_adapters(s, link)) s.links.push_back(link);
  }
  if (draw.one_in(2)) {
    s.datagrams.mtu = draw.of(kMtus);
    s.datagrams.requests = draw.between(20, 120);
    s.datagrams.pause_ns = draw_pause(draw, s.datagrams.requests * 4, s.healed_at);
    for (std::uint32_t i = draw.between(2, 4); i > 0; --i) {
      EndSpec member = draw_end(draw, s.nodes);
      if (s.nodes[member.node].cards[member.card].kind == verbs::NodeKind::kHost) {
        s.datagrams.members.push_back(member);
      }
    }
  }
  if (draw.one_in(3)) s.crashes = draw.between(1, 3);
  if (draw.one_in(3)) s.partitions = draw.between(1, 3);
  if (draw.one_in(4)) s.slowdowns = draw.between(1, 3);
  if (draw.one_in(2)) s.pressure_every_ns = draw.between(2'000, 200'000);
  if (weather == Weather::kCalm) make_calm(s);
  if (weather == Weather::kStorm) make_storm(s);
  return s;
}

Scenario draw_reliable_datagrams(std::uint64_t seed, Weather weather) {
  Scenario s = draw_scenario(seed, {}, weather);
  Draw draw(~seed);
  if (s.links.size() > 1) s.links.resize(1);
  ReliableDatagramSpec& rd = s.reliable_datagrams;
  for (std::uint32_t i = draw.between(2, 8); i > 0; --i) {
    EndSpec member = draw_end(draw, s.nodes);
    member.shared_receive = false;
    if (s.nodes[member.node].cards[member.card].kind == verbs::NodeKind::kHost) {
      rd.members.push_back(member);
    }
  }
  for (NodeSpec& node : s.nodes) {
    node.contexts.windowed = !draw.one_in(3);
    node.contexts.idle_ns = draw.log_between(300'000, 20'000'000);
  }
  QueuePairAttributes& a = rd.attributes;
  a.path_mtu = draw.of(kMtus);
  a.timeout = static_cast<std::uint8_t>(draw.between(7, 9));
  a.retry_count = static_cast<std::uint8_t>(draw.between(5, 7));
  a.rnr_retry = static_cast<std::uint8_t>(draw.one_in(4) ? draw.between(2, 6) : 7);
  a.min_rnr_timer = static_cast<std::uint8_t>(draw.between(1, 8));
  a.max_rd_atomic = static_cast<std::uint8_t>(draw.between(1, 8));
  a.max_dest_rd_atomic = static_cast<std::uint8_t>(draw.between(1, 16));
  rd.slot_bytes = draw.log_between(256, 12'000);
  rd.requests = draw.between(100, 400);
  rd.receive_buffers = draw.between(1, 8);
  rd.pause_ns = draw_pause(draw, rd.requests, s.healed_at);
  if (weather != Weather::kCalm) {
    rd.mischief = draw.one_in(2) ? 0 : draw.between(8, 40);
    rd.upheaval = draw.one_in(2) ? 0 : draw.between(10, 40);
  }
  return s;
}

}  // namespace weft::worlds
