// The oracle: one random program of verbs calls runs over every path, with and without fast paths,
// and must see the same each time: completions, memory, states, refusals, counters. What each path
// promises is in docs/semantics.md. A program that sees something else is shrunk to the
// steps that matter, and printed. WEFT_ORACLE_FIRST and WEFT_ORACLE_SEEDS choose the programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/fast_paths.h"
#include "support/program_run.h"

namespace weft::test {
namespace {

constexpr unsigned kBursts = 30;
constexpr int kMostShrinks = 400;
constexpr std::chrono::seconds kShrinkingPatience{2};

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// How a program runs: over which path, and whether fast paths may be taken.
struct OracleWay {
  Wire wire = Wire::kDirect;
  bool fast = false;
};

class WithFastPaths {
 public:
  explicit WithFastPaths(bool on) : before_(base::fast_paths.on()) { base::fast_paths.set(on); }
  ~WithFastPaths() { base::fast_paths.set(before_); }
  WithFastPaths(const WithFastPaths&) = delete;
  WithFastPaths& operator=(const WithFastPaths&) = delete;

 private:
  const bool before_;
};

std::vector<Sight> sights(const Program& program, const OracleWay& way,
                          const std::vector<Sight>* expected = nullptr,
                          std::chrono::nanoseconds patience = kPatience) {
  const WithFastPaths setting(way.fast);
  return ProgramRun(way.wire, patience).run(program, expected);
}

void add_missing(std::string& text, const char* where, const Sight& lines, const Sight& others) {
  for (const std::string& line : lines) {
    if (std::ranges::find(others, line) == others.end())
      text += fmt::format("  only {}: {}\n", where, line);
  }
}

/// The first sight that differs from that of the direct path without fast paths, in words; empty:
/// none does.
std::string difference(const Program& program, const OracleWay& way,
                       std::chrono::nanoseconds patience = kPatience) {
  const std::vector<Sight> expected = sights(program, {Wire::kDirect, false});
  const std::vector<Sight> seen = sights(program, way, &expected, patience);
  if (seen == expected) return {};
  const Sight &wanted = expected[seen.size() - 1], &got = seen.back();
  std::string text;
  add_missing(text, "on the direct path", wanted, got);
  add_missing(text, "here", got, wanted);
  return text.empty() ? "  the same in another order\n" : text;
}

/// Leaves out steps while the program is still seen differently. Where it waits stays: without,
/// what it sees would depend on timing.
Program shrink(Program program, const OracleWay& way) {
  int tries = 0;
  for (std::size_t part = program.size() / 2; part > 0; part /= 2) {
    for (std::size_t at = 0; at < program.size() && tries < kMostShrinks; at += part) {
      Program less;
      for (std::size_t i = 0; i < program.size(); ++i) {
        const bool left_out = i >= at && i < at + part && program[i].act != Act::kSync;
        if (!left_out) less.push_back(program[i]);
      }
      if (less.size() == program.size()) continue;
      ++tries;
      if (!difference(less, way, kShrinkingPatience).empty()) program = std::move(less);
    }
  }
  const auto idle =
      std::unique(program.begin(), program.end(), [](const auto& one, const auto& next) {
        return one.act == Act::kSync && next.act == Act::kSync && one.lane == next.lane;
      });
  program.erase(idle, program.end());
  return program;
}

std::vector<OracleWay> oracle_ways() {
  std::vector<OracleWay> ways{{Wire::kDirect, true}};  // without, it is what the others are held to
  for (const Wire wire : {Wire::kNeighbour, Wire::kPipe, Wire::kUdp}) {
    for (const bool fast : {false, true}) ways.push_back({wire, fast});
  }
  return ways;
}

class PathOracle : public testing::TestWithParam<OracleWay> {};
INSTANTIATE_TEST_SUITE_P(Over, PathOracle, testing::ValuesIn(oracle_ways()), [](const auto& way) {
  return way_name({{way.param.wire, false}, way.index}) + (way.param.fast ? "_fast" : "_slow");
});

TEST_P(PathOracle, random_programs_see_the_same_on_every_path) {
  const std::uint64_t begin = number_in("WEFT_ORACLE_FIRST", 1);
  const std::uint64_t end = begin + number_in("WEFT_ORACLE_SEEDS", 10);
  for (std::uint64_t seed = begin; seed < end; ++seed) {
    // Between processes of one host reliable datagrams take a port.
    const std::uint32_t lanes = GetParam().wire == Wire::kNeighbour ? kLanes - 1 : kLanes;
    const Program program = ProgramGenerator(seed, lanes).make(kBursts);
    const std::string seen = difference(program, GetParam());
    if (seen.empty()) continue;
    const Program small = shrink(program, GetParam());
    FAIL() << "seed " << seed << " of " << program.size() << " steps:\n"
           << seen << "shrunk to " << small.size() << " steps:\n"
           << text_of(small) << difference(small, GetParam(), kShrinkingPatience);
  }
}

}  // namespace
}  // namespace weft::test
