#include "cli/sim_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "port/pcap_writer.h"
#include "usage/command_line.h"
#include "worlds/bench.h"
#include "worlds/world.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

const std::map<std::string, worlds::Weather> kWeathers{{"drawn", worlds::Weather::kDrawn},
                                                       {"calm", worlds::Weather::kCalm},
                                                       {"storm", worlds::Weather::kStorm}};

double since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

void print_table(const sim::Stats& stats) {
  for (const sim::StatsRow& row : sim::stats_table()) {
    const std::uint64_t value = stats.*row.value;
    if (value != 0) fmt::print("  {:<38}{:>16}\n", row.label, grouped(value));
  }
}

std::string replay_command(const SimOptions& options, std::uint64_t seed) {
  std::string command = fmt::format("weft sim --seed {}", seed);
  if (options.nodes) command += fmt::format(" --nodes {}", *options.nodes);
  for (const auto& [name, weather] : kWeathers) {
    if (weather == options.weather && weather != worlds::Weather::kDrawn) {
      command += " --weather " + name;
    }
  }
  return command + " --trace";
}

void print_failure(const SimOptions& options, const worlds::Failure& failure) {
  std::fflush(stdout);
  fmt::print(stderr, "VIOLATION in the world of seed {}, at {:.3f} us:\n  {}\nwhat led to it:\n",
             failure.seed, static_cast<double>(failure.when) / 1000.0, failure.reason);
  for (const std::string& line : failure.last_lines) fmt::print(stderr, "  {}\n", line);
  fmt::print(stderr, "replay it with:\n  {}\n", replay_command(options, failure.seed));
}

worlds::Outcome run_world(const SimOptions& options, std::uint64_t seed,
                          port::PcapWriter* capture = nullptr) {
  worlds::World world(worlds::draw_scenario(seed, options.nodes, options.weather));
  if (options.trace) {
    world.stage().trace.set_sink([](std::string_view line) { fmt::print("{}\n", line); });
  } else if (options.story) {
    const sim::Stats& so_far = world.stage().stats;
    world.stage().trace.set_sink(
        [&so_far](std::string_view line) {
          fmt::print("{:<64} so far {:>7} frames, {:>6} messages, {:>3} connections\n", line,
                     grouped(so_far.frames), grouped(so_far.messages + so_far.datagrams),
                     grouped(so_far.connections));
        },
        sim::Trace::Detail::kStory);
  }
  if (capture != nullptr) {
    world.network().set_tap([capture](Nanoseconds when, std::span<const std::byte> packet) {
      capture->write(when, {packet});
    });
  }
  return world.run();
}

void print_json(const sim::Stats& stats, std::uint64_t worlds, double seconds,
                std::optional<std::uint64_t> hash, const worlds::Failure* failure) {
  nlohmann::ordered_json json;
  json["worlds"] = worlds;
  json["seconds"] = seconds;
  if (hash) json["trace_hash"] = fmt::format("{:016x}", *hash);
  for (const sim::StatsRow& row : sim::stats_table())
    json[std::string(row.name)] = stats.*row.value;
  if (failure != nullptr) {
    json["failure"] = {{"seed", failure->seed},
                       {"reason", failure->reason},
                       {"virtual_ns", failure->when},
                       {"trace", failure->last_lines}};
  }
  fmt::print("{}\n", json.dump(2));
}

void show_progress(std::uint64_t done, std::uint64_t all, double seconds) {
  const double left = seconds / static_cast<double>(done) * static_cast<double>(all - done);
  fmt::print(stderr, "\r  {} of {} worlds, {:.0f} s left  ", done, all, left);
  std::fflush(stderr);
}

int run_bench_command(const SimOptions& options) {
  for (const auto checksums : {sim::Checksums::kOffload, sim::Checksums::kAlways}) {
    const worlds::BenchResult result = worlds::run_bench(Mtu::k4096, 2.0, checksums);
    const bool offload = checksums == sim::Checksums::kOffload;
    if (options.json) {
      nlohmann::ordered_json json;
      json["mtu"] = 4096;
      json["icrc"] = offload ? "offload" : "always";
      json["data_frames"] = result.data_frames;
      json["seconds"] = result.seconds;
      json["frames_per_second"] = result.frames_per_second();
      json["frames_per_processor_second"] = result.frames_per_processor_second();
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print(
          "MTU 4096, ICRC {:<8} {:>11} RC data frames a second, {:.2f} GB/s; {} in a second of "
          "processor time\n",
          offload ? "offload:" : "always:",
          grouped(static_cast<std::uint64_t>(result.frames_per_second())),
          result.frames_per_second() * 4096 / 1e9,
          grouped(static_cast<std::uint64_t>(result.frames_per_processor_second())));
    }
  }
  return 0;
}

int run_one(const SimOptions& options, std::uint64_t seed) {
  std::unique_ptr<port::PcapWriter> capture;
  if (!options.pcap.empty()) {
    auto opened = port::PcapWriter::open(options.pcap);
    if (!opened) {
      fmt::print(stderr, "weft sim: --pcap: {}\n", opened.error().message);
      return usage::kWrongUsage;
    }
    capture = std::move(*opened);
  }
  const auto begun = Clock::now();
  const worlds::Outcome outcome = run_world(options, seed, capture.get());
  const worlds::Failure* failure = outcome.failure ? &*outcome.failure : nullptr;
  if (options.json) {
    print_json(outcome.stats, 1, since(begun), outcome.trace_hash, failure);
  } else if (!options.quiet) {
    const auto scenario = worlds::draw_scenario(seed, options.nodes, options.weather);
    fmt::print("the world of seed {}: {} nodes, {} links, {} datagram queue pairs, ICRC {}\n", seed,
               scenario.nodes.size(), scenario.links.size(), scenario.datagrams.members.size(),
               scenario.checksums == sim::Checksums::kAlways ? "on every frame" : "offloaded");
    print_table(outcome.stats);
    fmt::print("  {:<38}{:>16x}\n", "trace hash", outcome.trace_hash);
  }
  if (failure == nullptr) return 0;
  print_failure(options, *failure);
  return 1;
}

int run_many(const SimOptions& options) {
  const auto begun = Clock::now();
  const bool show = !options.json && isatty(STDERR_FILENO) != 0;
  sim::Stats total;
  auto shown = begun;
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const worlds::Outcome outcome = run_world(options, options.first_seed + i);
    total += outcome.stats;
    if (outcome.failure) {
      if (options.json) print_json(total, i + 1, since(begun), {}, &*outcome.failure);
      print_failure(options, *outcome.failure);
      return 1;
    }
    if (show && since(shown) > 0.2) {
      shown = Clock::now();
      show_progress(i + 1, options.seeds, since(begun));
    }
  }
  if (show) fmt::print(stderr, "\r{:60}\r", "");
  if (options.json) {
    print_json(total, options.seeds, since(begun), {}, nullptr);
  } else {
    fmt::print("{} worlds, seeds {} to {}, in {:.1f} s: every check held\n", grouped(options.seeds),
               options.first_seed, options.first_seed + options.seeds - 1, since(begun));
    if (!options.quiet) print_table(total);
  }
  return 0;
}

}  // namespace

usage::Command& add_sim_command(usage::Command& program, SimOptions& options) {
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  usage::Command& sim = program.add_command(
      "sim", "runs simulated worlds: nodes, faults and checks, all decided by one seed");
  sim.about = {
      "A world has nodes with memory, programs and a network between them, in virtual "
      "time. The same seed gives the same world again, to the last byte. When a check is "
      "violated, the command that replays the world is printed."};
  auto* one = usage::whole_number(sim.add_option("--seed", options.seed, "the world of this seed"),
                                  0, kAny);
  auto* many = usage::whole_number(
      sim.add_option("--seeds", options.seeds, "so many worlds in a row (1)"), 1, kAny);
  many->excludes(one);
  usage::whole_number(sim.add_option("--first-seed", options.first_seed, "where to begin (1)"), 0,
                      kAny)
      ->excludes(one);
  usage::whole_number(
      sim.add_option("--nodes", options.nodes, "so many nodes, 2 to 32, not what the seed says"), 2,
      32);
  std::vector<std::string> weathers;
  for (const auto& [name, weather] : kWeathers) weathers.push_back(name);
  auto* weather = usage::one_of(
      sim.add_option("--weather",
                     "drawn: as the seed says; calm: no faults; storm: all of them, and more "
                     "traffic"),
      weathers);
  weather->each([&options](const std::string& name) { options.weather = kWeathers.at(name); });
  sim.add_flag("--trace", options.trace, "a line for each event");
  sim.add_flag("--story", options.story, "only crashes, partitions and other turns of fate");
  sim.add_flag("--quiet", options.quiet, "only the result");
  sim.add_flag("--json", options.json, "the result as JSON");
  usage::writable_file(
      sim.add_option("--pcap", options.pcap, "write all frames of one world here, for Wireshark"))
      ->excludes(many);
  sim.add_flag("--bench", options.bench, "measure how fast frames move");
  sim.examples = {{"weft sim --seed 7", "one world, and what happened in it"},
                  {"weft sim --seed 7 --trace", "the same, with a line for each event"},
                  {"weft sim --seeds 1000", "a thousand worlds, seeds 1 to 1000"},
                  {"weft sim --seed 7 --pcap world.pcap", "all frames, for Wireshark"},
                  {"weft sim --weather storm --story", "every fault at once, told briefly"},
                  {"weft sim --bench", "how fast it moves frames"}};
  sim.statuses = {{"0", "every check held"},
                  {"1", "a check was violated, or standard output could not be written"},
                  {"2", "the command line is wrong, and nothing was simulated"}};
  return sim;
}

int run_sim_command(const usage::Command& sim, const SimOptions& options) {
  return usage::with_output(sim, [&options] {
    if (options.bench) return run_bench_command(options);
    if (options.seed) return run_one(options, *options.seed);
    return options.seeds == 1 ? run_one(options, options.first_seed) : run_many(options);
  });
}

}  // namespace weft::cli
