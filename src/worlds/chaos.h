// The catastrophes of a world: nodes crash and come back, the network falls apart and heals, memory
// becomes scarce; and the moment from which on all is well. Owned by the world; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worlds/datagrams.h"
#include "worlds/link.h"
#include "worlds/node.h"
#include "worlds/reliable_datagrams.h"
#include "worlds/scenario.h"

namespace weft::worlds {

class Chaos final : public sim::Actor {
 public:
  Chaos(sim::Stage& stage, sim::Network& network, const Scenario& scenario,
        std::vector<std::unique_ptr<Node>>& nodes, std::vector<std::unique_ptr<Link>>& links,
        Datagrams& datagrams, ReliableDatagrams& reliable_datagrams);

  void start();
  void on_event(std::uint64_t token) override;

 private:
  enum class Kind : std::uint8_t {
    kCrash,
    kRestart,
    kPartition,
    kReunite,
    kSlow,
    kFast,
    kPressure,
    kHeal,
  };
  void plan(Nanoseconds when, Kind kind, std::uint64_t subject = 0);
  void crash();
  void restart(std::uint32_t node);
  void press();

  sim::Stage& stage_;
  sim::Network& network_;
  const Scenario& scenario_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  std::vector<std::unique_ptr<Link>>& links_;
  Datagrams& datagrams_;
  ReliableDatagrams& reliable_datagrams_;
};

}  // namespace weft::worlds
