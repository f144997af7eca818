// What happened in a simulated world, in numbers: one table that the command's report and its JSON
// read. A plain value; numbers of several worlds add up.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace weft::sim {

struct Stats {
  // The network.
  std::uint64_t frames = 0, lost = 0, cut = 0, duplicated = 0, reordered = 0, corrupted = 0,
                overflowed = 0, nobody = 0, bad_checksums = 0, retransmissions = 0, timeouts = 0;
  // The program.
  std::uint64_t requests = 0, messages = 0, datagrams = 0, writes = 0, reads = 0, atomics = 0,
                binds = 0, bytes_verified = 0, refused = 0, receiver_not_ready = 0;
  // Life and death.
  std::uint64_t connections = 0, breaks = 0, crashes = 0, partitions = 0, slowdowns = 0,
                swapped_out = 0, swapped_in = 0, events = 0, virtual_ns = 0;

  Stats& operator+=(const Stats& other);
};

struct StatsRow {
  std::uint64_t Stats::*value;
  std::string_view name;   ///< in JSON
  std::string_view label;  ///< for people
};
std::span<const StatsRow> stats_table();

}  // namespace weft::sim
