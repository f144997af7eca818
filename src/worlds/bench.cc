#include "worlds/bench.h"

#include <chrono>
#include <ctime>

#include "base/assert.h"
#include "worlds/world.h"

namespace weft::worlds {
namespace {

constexpr std::uint32_t kMessageBytes = 64 * 1024;
constexpr std::uint32_t kInFlight = 8;

Scenario two_nodes(sim::Checksums checksums) {
  Scenario scenario;
  scenario.seed = 1;
  scenario.checksums = checksums;
  for (std::uint8_t i = 1; i <= 2; ++i) {
    NodeSpec node;
    node.cards.push_back({verbs::NodeKind::kHost, {Gid::ipv4(10, 0, 0, i)}, 1});
    node.memory.frames = 256;
    scenario.nodes.push_back(std::move(node));
  }
  scenario.least_delay_ns = scenario.most_delay_ns = 1'000;
  return scenario;
}

/// A queue pair with a buffer; the one that writes posts anew as soon as a write has completed.
struct Side final : CompletionHandler {
  Side(Node& n, std::uint32_t bytes, Access access)
      : node(n),
        region(n.process(0)
                   .domains[0]
                   .register_range(
                       n.process(0)
                           .vmm.allocate(static_cast<std::uint32_t>(bytes / sim::kPageBytes))
                           .value(),
                       bytes, access)
                   .value()),
        qp(n.process(0)
               .domains[0]
               .create_queue_pair(n.completion_queue(0, 0), n.completion_queue(0, 0))
               .value()) {
    n.set_handler(0, qp.number(), this);
    n.process(0).vmm.set_write_observer(nullptr);
  }

  void on_completion(const Completion& completion) override {
    WEFT_ASSERT(completion.ok());
    ++completed;
    post();
  }
  void post() {
    const auto ok = qp.post_write(region.sge(), target);
    WEFT_ASSERT(ok.has_value());
  }

  Node& node;
  verbs::MemoryRegion region;
  verbs::QueuePair qp;
  RemoteAddress target;
  std::uint64_t completed = 0;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

BenchResult run_bench(Mtu mtu, double seconds, sim::Checksums checksums) {
  using Clock = std::chrono::steady_clock;
  World world(two_nodes(checksums));
  world.stage().trace.enable(false);
  world.start_nodes();
  Side writer(world.node(0), kMessageBytes, Access::kNone);
  Side owner(world.node(1), kMessageBytes, Access::kLocalWrite | Access::kRemoteWrite);
  writer.target = owner.region.remote();
  QueuePairAttributes attributes;
  attributes.path_mtu = mtu;
  const verbs::Endpoint ends[] = {writer.qp.endpoint(), owner.qp.endpoint()};
  WEFT_ASSERT(writer.qp.connect(ends[1], attributes));
  WEFT_ASSERT(owner.qp.connect(ends[0], attributes));
  for (std::uint32_t i = 0; i < kInFlight; ++i) writer.post();
  for (int i = 0; i < 1000; ++i) world.step();  // warm: pools and queues have their size

  BenchResult result;
  const std::uint64_t writes_before = writer.completed;
  const std::uint64_t frames_before = world.stage().stats.frames;
  const auto begun = Clock::now();
  const double processor_begun = processor_seconds();
  do {
    for (int i = 0; i < 1000; ++i) world.step();
    result.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  } while (result.seconds < seconds);
  result.processor_seconds = processor_seconds() - processor_begun;
  result.data_frames = (writer.completed - writes_before) * (kMessageBytes / bytes(mtu));
  result.all_frames = world.stage().stats.frames - frames_before;
  return result;
}

}  // namespace weft::worlds
