// Measures between two pinned processes of this host; rounds.py calls it again and again, in turn
// with the peers. Samples go to stdout as tab-separated lines, reasons for failures to stderr.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "contestants.h"
#include "usage/command_line.h"

namespace {

namespace b = weft::bench;

struct Contestant {
  std::string name;
  std::vector<void (*)(const b::Lane&)> parts;  ///< each in a pair of processes of its own
  double seconds;                               ///< bound for each pair
};

const std::vector<Contestant>& contestants() {
  static const std::vector<Contestant> all = {
      {"canary",
       {[](const b::Lane& lane) {
         const double ns = lane.canary_ns();
         if (lane.first()) std::printf("canary\t%.1f\n", ns);
       }},
       5},
      {"limits",
       {b::measure_line_limits, b::measure_ring_limit, b::measure_system_call_limit,
        b::measure_copy_limits},
       5},
      {"weft",
       {b::measure_write_latency, b::measure_send_latency, b::measure_send_rate,
        b::measure_streams},
       5},
      {"connections", {b::measure_connections}, 10},
  };
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures between two processes of this host, one on core 0, one on core 1.");
  std::vector<std::string> names;
  for (const Contestant& c : contestants()) names.push_back(c.name);
  std::vector<std::string> wanted;
  app.add_option("what", wanted, "what to measure")->required()->check(CLI::IsMember(names));
  if (const auto status = weft::usage::parse(app, argc, argv)) return *status;

  bool good = true;
  for (const std::string& name : wanted) {
    for (const Contestant& contestant : contestants()) {
      if (contestant.name != name) continue;
      for (const auto part : contestant.parts) {
        good = b::run_pair(contestant.seconds, part) && good;
      }
    }
  }
  return good ? 0 : 1;
}
