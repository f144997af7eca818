// `weft sim`: runs simulated worlds, one by seed or many in a row, and reports; a failing one is
// replayed by the command that it prints. Stateless; the process has one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "usage/command.h"
#include "worlds/scenario.h"

namespace weft::cli {

struct SimOptions {
  std::optional<std::uint64_t> seed;  ///< one world
  std::uint64_t seeds = 1;            ///< or so many
  std::uint64_t first_seed = 1;
  std::optional<std::uint32_t> nodes;
  worlds::Weather weather = worlds::Weather::kDrawn;
  bool trace = false;
  bool story = false;
  bool quiet = false;
  bool json = false;
  bool bench = false;
  std::string pcap;
};

/// Adds the command; what the user gives is in `options` after parsing.
usage::Command& add_sim_command(usage::Command& program, SimOptions& options);

/// The process's exit status: 1 when a check was violated.
int run_sim_command(const usage::Command& sim, const SimOptions& options);

}  // namespace weft::cli
