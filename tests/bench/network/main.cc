// Measures between two pinned processes over UDP, on loopback or between two network namespaces;
// network_rounds.py calls it again and again, in turn with the peers. Samples go to stdout as
// tab-separated lines, reasons for failures to stderr.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "places.h"
#include "usage/command_line.h"

int main(int argc, char** argv) {
  namespace b = weft::bench;
  const std::map<std::string, void (*)(const b::Lane&)> parts = {
      {"canary",
       [](const b::Lane& lane) {
         const double ns = lane.canary_ns();
         if (lane.first()) std::printf("canary\t%.1f\n", ns);
       }},
      {"raw_latency", b::measure_raw_latency},
      {"raw_frame_latency", b::measure_raw_frame_latency},
      {"raw_stream", b::measure_raw_stream},
      {"weft_latency", b::measure_framed_latency},
      {"weft_stream", b::measure_framed_stream},
      {"weft_sends", b::measure_framed_sends},
      {"weft_rate", b::measure_framed_rate},
      {"weft_share", b::measure_framed_share},
      {"plain_packets", b::measure_plain_packets},
      {"weft_packets", b::measure_weft_packets},
  };
  CLI::App app("Measures between two processes over UDP, one on core 0, one on core 1.");
  std::vector<std::string> names, wanted;
  for (const auto& [name, part] : parts) names.push_back(name);
  app.add_option("what", wanted, "what to measure")->required()->check(CLI::IsMember(names));
  b::Places& places = b::places();
  app.add_option("--first", places.first.address, "address of the first process");
  app.add_option("--second", places.second.address, "address of the second process");
  app.add_option("--first-netns", places.first.network_namespace, "where the first one lives");
  app.add_option("--second-netns", places.second.network_namespace, "where the second one lives");
  app.add_option("--stream-bytes", places.stream_bytes, "size of a message of a stream");
  app.add_option("--faults", places.faults, "what weft's frames suffer, such as loss=1%");
  bool veth = false;
  app.add_flag("--veth", veth, "in two namespaces made for it, which a veth pair joins");
  if (const auto status = weft::usage::parse(app, argc, argv)) return *status;
  if (veth && !b::use_veth()) {
    std::fprintf(stderr, "no network namespaces here: %s\n", std::strerror(errno));
    return 1;
  }

  bool good = true;
  for (const std::string& name : wanted) good = b::run_pair(10, parts.at(name)) && good;
  return good ? 0 : 1;
}
