// What the program can measure: each function is called by both processes of a pair, with its own
// Lane, takes its samples and returns; it ends the process when something fails. One thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "lane.h"

namespace weft::bench {

inline constexpr std::size_t kSmallBytes = 8;
inline constexpr std::size_t kStreamBytes[] = {64 << 10, 1 << 20};

/// What the machine can do at best, without any library.
void measure_line_limits(const Lane& lane);
void measure_ring_limit(const Lane& lane);
void measure_system_call_limit(const Lane& lane);
void measure_copy_limits(const Lane& lane);

/// The same for memory that both have: a bare system call copies between the two, again and again.
using CrossMemoryCall = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                                    unsigned long);
void measure_cross_memory(const Lane& lane, const char* name, CrossMemoryCall call,
                          std::span<std::byte> memory);

/// weft, between two processes that open the default device.
void measure_write_latency(const Lane& lane);
void measure_send_latency(const Lane& lane);
void measure_send_rate(const Lane& lane);
void measure_streams(const Lane& lane);
void measure_connections(const Lane& lane);

}  // namespace weft::bench
