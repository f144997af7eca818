// A simulated world: nodes with production controllers, transports and memory code, a network with
// faults, programs that run over it, and the checks that never stop. One seed decides all of it:
// the same seed gives the same run, event by event. Made, run once, and thrown away; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/network.h"
#include "sim/stage.h"
#include "worlds/chaos.h"
#include "worlds/datagrams.h"
#include "worlds/link.h"
#include "worlds/node.h"
#include "worlds/reliable_datagrams.h"
#include "worlds/scenario.h"

namespace weft::worlds {

/// Why a run failed, for people.
struct Failure {
  std::uint64_t seed = 0;
  std::string reason;
  Nanoseconds when = 0;
  std::vector<std::string> last_lines;
};

struct Outcome {
  std::optional<Failure> failure;
  std::uint64_t trace_hash = 0;
  sim::Stats stats;
};

class World {
 public:
  explicit World(Scenario scenario);
  ~World();

  sim::Stage& stage() { return stage_; }
  sim::Network& network() { return network_; }
  Node& node(std::size_t i) { return *nodes_[i]; }

  /// To the end, or to the first violation.
  Outcome run();

  // The same in steps, for tests and measurements.
  void start_nodes();
  void start();
  /// All events of the next instant. False: there are none left, or something was violated.
  bool step();
  /// Judges how it ended.
  Outcome finish();

 private:
  void settle();
  void check_bounds();
  void check_end();
  bool all_closed() const;

  const Scenario scenario_;
  sim::Stage stage_;
  sim::Network network_;
  std::vector<Node*> ready_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Link>> links_;
  Datagrams datagrams_;
  ReliableDatagrams reliable_datagrams_;
  Chaos chaos_;
};

}  // namespace weft::worlds
