#include "worlds/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::worlds {
namespace {

constexpr std::uint64_t kMaxEvents = 20'000'000;
constexpr Nanoseconds kMaxTimeAfterHealing = 60'000'000'000;

std::vector<std::unique_ptr<Node>> make_nodes(sim::Stage& stage, sim::Network& network,
                                              const Scenario& scenario, std::vector<Node*>& ready) {
  std::vector<std::unique_ptr<Node>> nodes;
  for (const NodeSpec& spec : scenario.nodes) {
    const auto number = static_cast<std::uint32_t>(nodes.size());
    nodes.push_back(std::make_unique<Node>(stage, network, number, spec, ready));
  }
  return nodes;
}

}  // namespace

World::World(Scenario scenario)
    : scenario_(std::move(scenario)),
      stage_(scenario_.seed),
      network_(stage_, scenario_.checksums),
      nodes_(make_nodes(stage_, network_, scenario_, ready_)),
      datagrams_(stage_, scenario_.datagrams, nodes_),
      reliable_datagrams_(stage_, scenario_.reliable_datagrams, nodes_, scenario_.healed_at),
      chaos_(stage_, network_, scenario_, nodes_, links_, datagrams_, reliable_datagrams_) {
  network_.set_faults(scenario_.faults);
  network_.set_delay(scenario_.least_delay_ns, scenario_.most_delay_ns);
  for (const LinkSpec& spec : scenario_.links) {
    links_.push_back(std::make_unique<Link>(stage_, static_cast<std::uint32_t>(links_.size()), spec,
                                            *nodes_[spec.ends[0].node], *nodes_[spec.ends[1].node],
                                            scenario_.healed_at));
  }
}

World::~World() {
  links_.clear();
  datagrams_.abandon();
  reliable_datagrams_.abandon();
}

void World::start_nodes() {
  for (const auto& node : nodes_) node->start();
}

void World::settle() {
  while (!ready_.empty()) {
    // In order of waking; those woken meanwhile come next.
    std::vector<Node*> now = std::exchange(ready_, {});
    for (Node* node : now) node->progress();
    if (ready_.empty()) {
      now.clear();
      ready_ = std::move(now);  // keeps its memory
    }
    if (!stage_.judge.content()) return;
  }
}

bool World::step() {
  if (stage_.events.empty() || !stage_.judge.content()) return false;
  const Nanoseconds now = stage_.events.next_time();
  stage_.clock.advance_to(now);
  while (stage_.events.next_time() == now) {
    const sim::EventQueue::Event event = stage_.events.pop();
    ++stage_.stats.events;
    event.actor->on_event(event.token);
  }
  settle();
  check_bounds();
  return true;
}

bool World::all_closed() const {
  return datagrams_.closed() && reliable_datagrams_.closed() &&
         std::ranges::all_of(links_, [](const auto& link) { return link->closed(); });
}

void World::check_bounds() {
  const bool too_long = stage_.now() > scenario_.healed_at + kMaxTimeAfterHealing;
  if (!too_long && stage_.stats.events < kMaxEvents) return;
  std::string who = "all links are closed";
  for (const auto& link : links_) {
    if (!link->closed()) who = link->describe();
  }
  stage_.judge.violated(
      fmt::format("the world does not come to an end ({} events): {}", stage_.stats.events, who));
}

void World::check_end() {
  if (!all_closed()) stage_.judge.violated("nothing is left to happen, but not all is done");
  if (network_.pool().in_use() != 0) {
    stage_.judge.violated(fmt::format("{} frames have leaked", network_.pool().in_use()));
  }
  for (const auto& node : nodes_) node->check_end();
}

void World::start() {
  start_nodes();
  for (const auto& link : links_) link->start();
  datagrams_.start();
  reliable_datagrams_.start();
  chaos_.start();
  settle();
}

Outcome World::finish() {
  if (stage_.judge.content()) check_end();
  Outcome outcome;
  if (const auto& violation = stage_.judge.violation()) {
    outcome.failure =
        Failure{scenario_.seed, violation->reason, violation->when, stage_.trace.last_lines()};
  } else {
    for (const auto& node : nodes_) node->crash();
  }
  outcome.trace_hash = stage_.trace.hash();
  outcome.stats = stage_.stats;
  outcome.stats.virtual_ns = stage_.now();
  return outcome;
}

Outcome World::run() {
  start();
  while (step()) continue;
  return finish();
}

}  // namespace weft::worlds
