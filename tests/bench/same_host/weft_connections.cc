// Many queue pairs between two processes: how fast they connect, and what each costs once a message
// has gone each way over it.
#include <array>
#include <cstdio>
#include <vector>

#include "contestants.h"
#include "weft_node.h"

namespace weft::bench {
namespace {

constexpr std::size_t kConnections = 10'000;
constexpr std::size_t kBatch = 500;  // endpoints that the two tell each other at once
constexpr std::size_t kSendsInFlight = 64;

/// Resident memory of this process, shared pages and all.
std::size_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  std::size_t total = 0, resident = 0;
  if (file == nullptr || std::fscanf(file, "%zu %zu", &total, &resident) != 2) {
    give_up("/proc/self/statm:", "cannot be read");
  }
  std::fclose(file);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void connect_batch(const Lane& lane, const Node& node, std::vector<verbs::QueuePair>& qps) {
  const std::size_t first = qps.size();
  std::array<verbs::Endpoint, kBatch> mine;
  for (verbs::Endpoint& endpoint : mine) {
    qps.push_back(
        must(node.pd.create_queue_pair(node.send_cq, node.receive_cq), "create a queue pair:"));
    endpoint = qps.back().endpoint();
  }
  const auto theirs = lane.swap(mine);
  for (std::size_t i = 0; i < kBatch; ++i) must(qps[first + i].connect(theirs[i]), "connect:");
}

void send_on_each(const Node& node, std::vector<verbs::QueuePair>& qps, const Memory& memory) {
  std::size_t in_flight = 0;
  for (std::size_t i = 0; i < kConnections; ++i) {
    if (in_flight == kSendsInFlight) {
      take_completion(node.send_cq);
      --in_flight;
    }
    must(qps[i].post_send(memory.region().sge(8 * i, kSmallBytes), i), "post:");
    ++in_flight;
  }
  for (; in_flight > 0; --in_flight) take_completion(node.send_cq);
}

void receive_on_each(const Node& node) {
  for (std::size_t i = 0; i < kConnections; ++i) take_completion(node.receive_cq);
}

}  // namespace

void measure_connections(const Lane& lane) {
  const Node node;
  const Memory out(node, Place::kHeap, 8 * kConnections);
  const Memory in(node, Place::kHeap, 8 * kConnections);
  std::vector<verbs::QueuePair> qps;
  qps.reserve(kConnections);
  const std::size_t before_bytes = resident_bytes();

  lane.sample("weft/connects", 0, "/s", [&] {
    const auto start = Clock::now();
    while (qps.size() < kConnections) connect_batch(lane, node, qps);
    lane.meet();
    return static_cast<double>(kConnections) / seconds_since(start);
  });

  for (std::size_t i = 0; i < kConnections; ++i) {
    must(qps[i].post_receive(in.region().sge(8 * i, kSmallBytes), i), "post a receive:");
  }
  lane.meet();
  for (const bool mine : {lane.first(), !lane.first()}) {
    mine ? send_on_each(node, qps, out) : receive_on_each(node);
    lane.meet();
  }
  lane.sample("weft/bytes_per_queue_pair", 0, "B", [&] {
    const std::size_t grown = resident_bytes() - before_bytes;
    const double worse = static_cast<double>(std::max(grown, lane.swap(grown)));
    return worse / static_cast<double>(kConnections);
  });
  lane.meet();
}

}  // namespace weft::bench
