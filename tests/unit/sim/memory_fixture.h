// A small simulated node with processes, for the tests of the memory model.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "memory/copy.h"
#include "sim/process_memory.h"
#include "unit/memory/pages.h"

namespace weft::sim::test {

/// Controller settings: every combination of segment and page tables.
struct Tables {
  SegmentTables segments;
  PageTables pages;
};
inline constexpr Tables kAllTables[] = {{SegmentTables::kCopied, PageTables::kSystem},
                                        {SegmentTables::kCopied, PageTables::kPrivate},
                                        {SegmentTables::kShared, PageTables::kSystem},
                                        {SegmentTables::kShared, PageTables::kPrivate}};

inline NodeMemory::Settings settings(Tables tables, std::uint32_t frames = 64) {
  NodeMemory::Settings s;
  s.frames = frames;
  s.segment_tables = tables.segments;
  s.page_tables = tables.pages;
  return s;
}

inline std::vector<std::byte> bytes(std::size_t n, int seed) {
  std::vector<std::byte> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 13 + i / 251 + seed);
  return out;
}

inline std::vector<std::byte> read(ProcessMemory& process, std::uint64_t ea, std::size_t n) {
  std::vector<std::byte> out(n);
  EXPECT_EQ(process.read(ea, out), memory::Fault::kNone);
  return out;
}

inline ControllerTables::QueuePairNote queue_pair(std::uint32_t number) {
  return {Qpn(number), 128, 1};
}

class SimMemory : public testing::TestWithParam<Tables> {
 protected:
  NodeMemory node{settings(GetParam())};
  ProcessMemory process{node};
};

}  // namespace weft::sim::test
