#include "sim/stats.h"

#include <array>

namespace weft::sim {
namespace {

constexpr std::array kRows{
    StatsRow{&Stats::frames, "frames", "frames sent"},
    StatsRow{&Stats::lost, "lost", "  lost on the way"},
    StatsRow{&Stats::cut, "cut", "  lost to a partition"},
    StatsRow{&Stats::overflowed, "overflowed", "  lost to a full port"},
    StatsRow{&Stats::duplicated, "duplicated", "  duplicated"},
    StatsRow{&Stats::reordered, "reordered", "  held up, overtaken by others"},
    StatsRow{&Stats::corrupted, "corrupted", "  corrupted"},
    StatsRow{&Stats::bad_checksums, "bad_checksums", "  caught by the ICRC"},
    StatsRow{&Stats::nobody, "nobody", "  for a node that was down"},
    StatsRow{&Stats::retransmissions, "retransmissions", "times a sender went back"},
    StatsRow{&Stats::timeouts, "timeouts", "time-outs"},
    StatsRow{&Stats::receiver_not_ready, "receiver_not_ready", "receiver-not-ready answers"},
    StatsRow{&Stats::requests, "requests", "work requests posted"},
    StatsRow{&Stats::messages, "messages", "messages, exactly once and in order"},
    StatsRow{&Stats::datagrams, "datagrams", "messages of unreliable services"},
    StatsRow{&Stats::writes, "writes", "RDMA writes confirmed"},
    StatsRow{&Stats::reads, "reads", "RDMA reads compared"},
    StatsRow{&Stats::atomics, "atomics", "atomics accounted for"},
    StatsRow{&Stats::binds, "binds", "windows bound"},
    StatsRow{&Stats::bytes_verified, "bytes_verified", "bytes verified"},
    StatsRow{&Stats::refused, "refused", "forbidden attempts refused"},
    StatsRow{&Stats::connections, "connections", "connections made"},
    StatsRow{&Stats::breaks, "breaks", "connections broken"},
    StatsRow{&Stats::crashes, "crashes", "nodes crashed and restarted"},
    StatsRow{&Stats::partitions, "partitions", "partitions"},
    StatsRow{&Stats::slowdowns, "slowdowns", "times the network was slow"},
    StatsRow{&Stats::swapped_out, "swapped_out", "pages swapped out"},
    StatsRow{&Stats::swapped_in, "swapped_in", "pages faulted back in"},
    StatsRow{&Stats::events, "events", "events"},
    StatsRow{&Stats::virtual_ns, "virtual_ns", "virtual nanoseconds"},
};

}  // namespace

Stats& Stats::operator+=(const Stats& other) {
  for (const StatsRow& row : kRows) this->*row.value += other.*row.value;
  return *this;
}

std::span<const StatsRow> stats_table() { return kRows; }

}  // namespace weft::sim
