// `weft fabric`: studies of a fabric in virtual time, and what belongs to them: topologies made,
// checked, translated and drawn. Stateless; the process has one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "usage/command.h"

namespace weft::cli {

struct FabricOptions {
  std::string file;      ///< of the topology
  std::string settings;  ///< empty: what is beside the topology, if there is one
  std::string output;
  std::vector<std::string> words;  ///< of `make`

  std::string traffic = "uniform";
  std::string recorded;
  std::string routing = "up-down";
  std::vector<std::string> loads;
  std::uint32_t frame_flits = 4;
  std::optional<std::uint32_t> lanes;
  std::uint32_t lmc = 0;
  std::uint64_t seed = 1;
  std::uint64_t warm_up = 2'000;
  std::uint64_t ticks = 10'000;
  std::string curves, picture;
  bool json = false;
};

struct FabricCommands {
  /// Adds the commands; what the user gives is in `options` after parsing.
  void add(usage::Command& program);
  bool parsed() const;
  /// The process's exit status.
  int run() const;

  FabricOptions options;
  usage::Command *fabric = nullptr, *sim = nullptr, *make = nullptr, *check = nullptr,
                 *draw = nullptr;
};

}  // namespace weft::cli
