// What it takes that every process of a node has talked to every process of all others, by reliable
// connections and by reliable datagrams: queue pairs, contexts, bytes and time, on one of N
// simulated nodes with M processes each. Prints one line of JSON for each measurement. Connections
// are counted and not made where they are too many for one machine that simulates all nodes: the
// line then has no bytes and no time.
#include <fmt/format.h>
#include <malloc.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "worlds/world.h"

namespace {

using namespace weft;
using worlds::Node;
using worlds::World;

constexpr std::uint64_t kMostConnections = 80'000;
constexpr std::uint32_t kMostQueuePairs = 1u << 18;
constexpr QKey kKey{3};

void must(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::abort();
}

std::size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

struct Counter final : worlds::CompletionHandler {
  void on_completion(const Completion& completion) override {
    if (!completion.ok()) {
      std::fprintf(stderr, "%s\n", std::string(to_string(completion.status)).c_str());
      std::abort();
    }
    ++count;
  }
  std::uint64_t count = 0;
};

worlds::Scenario nodes_only(std::uint32_t nodes) {
  worlds::Scenario scenario;
  scenario.checksums = sim::Checksums::kOffload;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    worlds::NodeSpec node;
    node.path = verbs::PathPolicy::kFramed;
    node.memory.frames = 16;
    node.cards.push_back(
        {verbs::NodeKind::kHost,
         {Gid::ipv4(10, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i))},
         1,
         false,
         kMostQueuePairs});
    scenario.nodes.push_back(std::move(node));
  }
  return scenario;
}

class Measurement {
 public:
  Measurement(std::uint32_t nodes, std::uint32_t processes)
      : nodes_(nodes), processes_(processes), world_(nodes_only(nodes)) {
    world_.start_nodes();
  }

  verbs::QueuePair make(std::uint32_t node, Service service) {
    Node& on = world_.node(node);
    verbs::QueuePairOptions options;
    options.service = service;
    options.limits = {.max_send_wr = 1024,
                      .max_recv_wr = 1024,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_bytes = 0};
    auto qp = on.process(0)
                  .domains[0]
                  .create_queue_pair(on.completion_queue(0, 0), on.completion_queue(0, 0), options)
                  .value();
    on.set_handler(0, qp.number(), &counter_);
    if (service == Service::kReliableDatagram) must(qp.activate(kKey));
    return qp;
  }
  /// An empty message.
  void talk(verbs::QueuePair& from, verbs::QueuePair& to) {
    SendRequest request;
    const verbs::Endpoint end = to.endpoint();
    request.destination.gid = end.gid;
    request.destination_qpn = end.qpn;
    request.destination_qkey = kKey;
    must(from.post_send(request));
    wanted_ += 2;
  }
  void settle() {
    world_.node(0).stir();
    while (counter_.count < wanted_) {
      if (!world_.step()) std::abort();
    }
  }

  void datagrams() {
    const std::size_t before = heap_bytes();
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::vector<verbs::QueuePair>> all(nodes_);
    for (std::uint32_t node = 0; node < nodes_; ++node) {
      for (std::uint32_t i = 0; i < processes_; ++i) {
        verbs::QueuePair& qp = all[node].emplace_back(make(node, Service::kReliableDatagram));
        for (std::uint32_t k = 0; k < processes_; ++k) must(qp.post_receive(ReceiveRequest{}));
      }
    }
    const double each = static_cast<double>(heap_bytes() - before) / (nodes_ * processes_);
    const std::size_t with_queue_pairs = heap_bytes();
    for (std::uint32_t node = 1; node < nodes_; ++node) {
      for (verbs::QueuePair& from : all[0]) {
        for (verbs::QueuePair& to : all[node]) talk(from, to);
        settle();
      }
    }
    const auto time = std::chrono::steady_clock::now() - begin;
    verbs::Controller& card = world_.node(0).controller(0);
    const std::uint32_t contexts = card.contexts()->size().in_use;
    const double context =
        static_cast<double>(heap_bytes() - with_queue_pairs) / (2.0 * (nodes_ - 1));
    report("RD", card.live_queue_pairs(), contexts, each * processes_ + context * contexts, time);
  }

  void connections() {
    const std::uint64_t count = std::uint64_t{processes_} * processes_ * (nodes_ - 1);
    if (count > kMostConnections) {
      std::printf(
          "{\"service\": \"RC\", \"nodes\": %u, \"processes\": %u, \"queue_pairs\": %lu, "
          "\"contexts\": 0}\n",
          nodes_, processes_, count);
      return;
    }
    const std::size_t before = heap_bytes();
    const auto begin = std::chrono::steady_clock::now();
    std::vector<verbs::QueuePair> near, far;
    for (std::uint32_t node = 1; node < nodes_; ++node) {
      for (std::uint32_t i = 0; i < processes_ * processes_; ++i) {
        verbs::QueuePair& a = near.emplace_back(make(0, Service::kReliableConnection));
        verbs::QueuePair& b = far.emplace_back(make(node, Service::kReliableConnection));
        must(a.connect(b.endpoint()));
        must(b.connect(a.endpoint()));
        must(b.post_receive(ReceiveRequest{}));
        talk(a, b);
      }
      settle();
    }
    const auto time = std::chrono::steady_clock::now() - begin;
    const double bytes = static_cast<double>(heap_bytes() - before) / 2;
    report("RC", world_.node(0).controller(0).live_queue_pairs(), 0, bytes, time);
  }

  /// What a process takes once, whatever it does.
  void warm_up() {
    verbs::QueuePair from = make(0, Service::kReliableDatagram);
    verbs::QueuePair to = make(1, Service::kReliableDatagram);
    must(to.post_receive(ReceiveRequest{}));
    talk(from, to);
    settle();
  }

 private:
  void report(const char* service, std::uint32_t queue_pairs, std::uint32_t contexts, double bytes,
              std::chrono::steady_clock::duration time) const {
    std::printf(
        "%s\n",
        fmt::format(R"({{"service": "{}", "nodes": {}, "processes": {}, "queue_pairs": {}, )"
                    R"("contexts": {}, "bytes": {:.0f}, "milliseconds": {:.1f}}})",
                    service, nodes_, processes_, queue_pairs, contexts, bytes,
                    std::chrono::duration<double, std::milli>(time).count())
            .c_str());
    std::fflush(stdout);
  }

  const std::uint32_t nodes_, processes_;
  Counter counter_;
  World world_;
  std::uint64_t wanted_ = 0;
};

}  // namespace

int main() {
  Measurement(2, 1).warm_up();
  for (const std::uint32_t processes : {1u, 4u, 16u}) {
    for (const std::uint32_t nodes : {2u, 10u, 100u, 300u, 1000u}) {
      Measurement(nodes, processes).datagrams();
      Measurement(nodes, processes).connections();
    }
  }
}
