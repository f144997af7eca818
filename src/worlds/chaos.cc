#include "worlds/chaos.h"

namespace weft::worlds {
namespace {

constexpr Nanoseconds kSlowest = 300'000;

}  // namespace

Chaos::Chaos(sim::Stage& stage, sim::Network& network, const Scenario& scenario,
             std::vector<std::unique_ptr<Node>>& nodes, std::vector<std::unique_ptr<Link>>& links,
             Datagrams& datagrams, ReliableDatagrams& reliable_datagrams)
    : stage_(stage),
      network_(network),
      scenario_(scenario),
      nodes_(nodes),
      links_(links),
      datagrams_(datagrams),
      reliable_datagrams_(reliable_datagrams) {}

void Chaos::plan(Nanoseconds when, Kind kind, std::uint64_t subject) {
  stage_.events.at(when, *this, subject << 8 | static_cast<std::uint64_t>(kind));
}

void Chaos::start() {
  const Nanoseconds end = stage_.now() + scenario_.healed_at;
  const auto some_time = [&] { return stage_.now() + stage_.random.below(scenario_.healed_at); };
  for (std::uint32_t i = 0; i < scenario_.crashes; ++i) plan(some_time(), Kind::kCrash);
  for (std::uint32_t i = 0; i < scenario_.partitions; ++i) plan(some_time(), Kind::kPartition);
  for (std::uint32_t i = 0; i < scenario_.slowdowns; ++i) plan(some_time(), Kind::kSlow);
  if (scenario_.pressure_every_ns != 0) plan(some_time(), Kind::kPressure);
  plan(end, Kind::kHeal);
}

void Chaos::on_event(std::uint64_t token) {
  switch (static_cast<Kind>(token & 0xFF)) {
    case Kind::kCrash:
      return crash();
    case Kind::kRestart:
      return restart(static_cast<std::uint32_t>(token >> 8));
    case Kind::kPartition: {
      const std::uint64_t cut_off = stage_.between(1, (1u << nodes_.size()) - 2);
      ++stage_.stats.partitions;
      network_.partition(cut_off);
      stage_.trace.add(sim::What::kPartitioned, 0, cut_off);
      return plan(stage_.now() + stage_.between(50'000, 2'000'000), Kind::kReunite);
    }
    case Kind::kReunite:
      network_.partition(0);
      return stage_.trace.add(sim::What::kHealed, 0, 0);
    case Kind::kSlow:
      // Longer than the shortest time-out: senders go back although nothing was lost.
      ++stage_.stats.slowdowns;
      network_.set_delay(scenario_.least_delay_ns, kSlowest);
      stage_.trace.add(sim::What::kSlowed, 0, kSlowest);
      return plan(stage_.now() + stage_.between(50'000, 1'000'000), Kind::kFast);
    case Kind::kFast:
      network_.set_delay(scenario_.least_delay_ns, scenario_.most_delay_ns);
      return stage_.trace.add(sim::What::kSlowed, 0, scenario_.most_delay_ns);
    case Kind::kPressure:
      return press();
    case Kind::kHeal:
      network_.set_faults({});
      network_.partition(0);
      network_.set_delay(scenario_.least_delay_ns, scenario_.most_delay_ns);
      return stage_.trace.add(sim::What::kHealed, 0, 1);
  }
}

void Chaos::crash() {
  Node& node = *nodes_[stage_.random.below(nodes_.size())];
  if (!node.up()) return;
  ++stage_.stats.crashes;
  stage_.trace.add(sim::What::kCrashed, node.number());
  for (const auto& link : links_) link->on_crash(node);
  datagrams_.on_crash(node);
  reliable_datagrams_.on_crash(node);
  node.crash();
  plan(stage_.now() + stage_.between(100'000, 3'000'000), Kind::kRestart, node.number());
}

void Chaos::restart(std::uint32_t node) {
  stage_.trace.add(sim::What::kRestarted, node);
  nodes_[node]->start();
}

void Chaos::press() {
  Node& node = *nodes_[stage_.random.below(nodes_.size())];
  if (node.up()) {
    const std::uint32_t n = static_cast<std::uint32_t>(stage_.between(1, 64));
    stage_.trace.add(sim::What::kEvicted, node.number(), node.memory().evict(n));
  }
  const Nanoseconds next = stage_.now() + stage_.random.below(scenario_.pressure_every_ns) + 1;
  if (next < scenario_.healed_at) plan(next, Kind::kPressure);
}

}  // namespace weft::worlds
