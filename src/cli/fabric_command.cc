#include "cli/fabric_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fabric/generators.h"
#include "fabric/installation.h"
#include "fabric/picture.h"
#include "fabric/study.h"
#include "fabric/topology_reader.h"
#include "fabric/topology_writer.h"
#include "usage/command_line.h"

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;
using fabric::Installation;

constexpr int kFailed = 1;
constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;

const std::vector<std::pair<std::string, fabric::Traffic>> kTraffic{
    {"uniform", fabric::Traffic::kUniform},
    {"permutation", fabric::Traffic::kPermutation},
    {"incast", fabric::Traffic::kIncast},
    {"all-to-all", fabric::Traffic::kAllToAll},
    {"recorded", fabric::Traffic::kRecorded}};

std::vector<std::string> traffic_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : kTraffic) names.push_back(name);
  return names;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  if (path != "-" && !file) return fail(Errc::kNotFound, path + ": cannot be read");
  std::istream& in = path == "-" ? std::cin : file;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad() || text.size() > kMostFileBytes)
    return fail(Errc::kSystem, path + ": cannot be read");
  return text;
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fmt::print(stderr, "weft fabric: {} could not be written\n", path);
  return static_cast<bool>(file);
}

int refuse_fabric(const std::string& message) {
  fmt::print(stderr, "weft fabric: {}\n", message);
  return usage::kWrongUsage;
}

/// The topology and its settings, and how the files were wrong.
struct Files {
  fabric::Topology topology;
  fabric::Settings settings;
};

Result<Files> read_files(const FabricOptions& options) {
  auto text = read_file(options.file);
  if (!text) return tl::unexpected(text.error());
  auto topology = fabric::read_topology(*text);
  if (!topology) return fail(Errc::kInvalidArgument, topology.error().in(options.file));
  Files files{std::move(*topology), {}};
  std::string beside = options.settings;
  if (beside.empty() && options.file != "-") {
    beside = options.file + ".weft";
    if (access(beside.c_str(), R_OK) != 0) beside.clear();
  }
  if (!beside.empty()) {
    auto lines = read_file(beside);
    if (!lines) return tl::unexpected(lines.error());
    auto settings = fabric::read_settings(*lines, files.topology);
    if (!settings) return fail(Errc::kInvalidArgument, settings.error().in(beside));
    files.settings = *settings;
  }
  if (options.lanes) files.settings.links.lanes = static_cast<std::uint8_t>(*options.lanes);
  files.settings.links.seed = options.seed;
  return files;
}

Result<std::unique_ptr<Installation>> install(const FabricOptions& options, const Files& files) {
  const fabric::Routing routing =
      options.routing == "dimension" ? fabric::Routing::kDimension : fabric::Routing::kUpDown;
  return Installation::create(files.topology, files.settings,
                              {routing, static_cast<std::uint8_t>(options.lmc)});
}

/// "0.3" or "0.1:0.9:0.2".
std::optional<std::vector<double>> loads_in(const std::vector<std::string>& words) {
  std::vector<double> loads;
  for (const std::string& word : words) {
    std::array<double, 3> parts{0, 0, 0};
    std::size_t count = 0;
    const char* at = word.c_str();
    while (count < parts.size()) {
      char* end = nullptr;
      parts[count++] = std::strtod(at, &end);
      if (end == at) return std::nullopt;
      at = end;
      if (*at != ':') break;
      ++at;
    }
    if (*at != 0 || count == 2) return std::nullopt;
    if (count == 1) parts = {parts[0], parts[0], 1};
    if (!(parts[0] > 0) || parts[1] > 1 || !(parts[2] >= 0.001)) return std::nullopt;
    for (int i = 0; parts[0] + i * parts[2] <= parts[1] + 1e-9; ++i) {
      loads.push_back(parts[0] + i * parts[2]);
    }
  }
  return loads;
}

struct Run {
  double load = 0, seconds = 0;
  fabric::StudyResult result;
};

nlohmann::ordered_json json_of(const Run& run) {
  const fabric::StudyResult& result = run.result;
  nlohmann::ordered_json json;
  json["load"] = run.load;
  json["offered"] = result.offered;
  json["accepted"] = result.accepted;
  json["frames"] = result.frames;
  json["latency"] = {{"mean", result.mean_latency},
                     {"least", result.least_latency},
                     {"median", result.median_latency},
                     {"p99", result.p99_latency},
                     {"most", result.most_latency}};
  json["mean_hops"] = result.mean_hops;
  json["ticks"] = result.ticks;
  json["drained"] = result.drained;
  json["flit_hops"] = result.links.flit_hops;
  json["control_flits"] = result.links.control_flits;
  json["damaged"] = result.links.damaged;
  json["sent_again"] = result.links.sent_again;
  nlohmann::ordered_json drops;
  for (std::size_t i = 0; i < result.drops.size(); ++i) {
    drops[fabric::to_string(static_cast<fabric::Drop>(i))] = result.drops[i];
  }
  json["dropped"] = drops;
  if (!result.deadlock.empty()) json["deadlock"] = result.deadlock;
  json["seconds"] = run.seconds;
  json["flit_hops_per_second"] = static_cast<double>(result.links.flit_hops) / run.seconds;
  return json;
}

void print_run(const Run& run, double tick_ns) {
  const fabric::StudyResult& result = run.result;
  fmt::print("{:>8.3f} {:>9.4f} {:>9.4f} {:>9} {:>10.1f} {:>8} {:>8} {:>10.1f}{}\n", run.load,
             result.offered, result.accepted, result.frames, result.mean_latency,
             result.least_latency, result.p99_latency, result.mean_latency * tick_ns,
             !result.deadlock.empty() ? "  LOCKED UP"
             : result.drained         ? ""
                                      : "  saturated");
}

int run_sim(const FabricOptions& options) {
  auto files = read_files(options);
  if (!files) return refuse_fabric(files.error().message);
  const auto loads =
      loads_in(options.loads.empty() ? std::vector<std::string>{"0.1:0.9:0.1"} : options.loads);
  if (!loads)
    return refuse_fabric("--load: expected a share of the link like 0.3, or FIRST:LAST:STEP");
  fabric::StudyOptions study;
  for (const auto& [name, traffic] : kTraffic) {
    if (name == options.traffic) study.traffic = traffic;
  }
  if ((study.traffic == fabric::Traffic::kRecorded) == options.recorded.empty()) {
    return refuse_fabric("--traffic recorded and --recorded FILE belong together");
  }
  study.frame_flits = static_cast<std::uint16_t>(options.frame_flits);
  study.seed = options.seed;
  study.warm_up = options.warm_up;
  study.measured = options.ticks;
  const bool once = study.traffic == fabric::Traffic::kRecorded;
  const bool show = isatty(STDERR_FILENO) != 0;
  std::vector<Run> runs;
  std::unique_ptr<Installation> made;
  std::size_t memory = 0;
  double building = 0;
  const std::size_t count = once ? 1 : loads->size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto begun = Clock::now();
    auto installed = install(options, *files);  // each load has a fabric of its own
    if (!installed) return refuse_fabric(installed.error().message);
    made = std::move(*installed);
    if (made->endpoints().size() < 2) return refuse_fabric("traffic needs two hosts or more");
    if (once) {
      auto text = read_file(options.recorded);
      if (!text) return refuse_fabric(text.error().message);
      auto recorded = fabric::read_traffic(*text, *made);
      if (!recorded) return refuse_fabric(recorded.error().in(options.recorded));
      study.recorded = std::move(*recorded);
    }
    const auto ready = Clock::now();
    building += std::chrono::duration<double>(ready - begun).count();
    study.load = (*loads)[i];
    Run run;
    run.load = study.load;
    run.result = fabric::Study(*made, study).run([&](double share) {
      if (!show) return;
      fmt::print(stderr, "\r  load {:.3f} ({} of {}): {:.0f} %  ", study.load, i + 1, count,
                 share * 100);
      std::fflush(stderr);
    });
    run.seconds = std::max(1e-9, std::chrono::duration<double>(Clock::now() - ready).count());
    memory = std::max(memory, made->fabric().bytes());
    runs.push_back(std::move(run));
  }
  if (show) fmt::print(stderr, "\r{:60}\r", "");
  bool locked = false;
  for (const Run& run : runs) locked = locked || !run.result.deadlock.empty();
  if (options.json) {
    nlohmann::ordered_json json;
    json["endpoints"] = made->endpoints().size();
    json["subnets"] = made->subnets();
    json["traffic"] = options.traffic;
    json["frame_flits"] = options.frame_flits;
    json["tick_ns"] = made->tick_ns();
    json["memory_bytes"] = memory;
    json["build_seconds"] = building;
    for (const Run& run : runs) json["runs"].push_back(json_of(run));
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{} hosts in {} subnet{}, {} traffic, frames of {} flits\n",
               made->endpoints().size(), made->subnets(), made->subnets() == 1 ? "" : "s",
               options.traffic, options.frame_flits);
    fmt::print("{:>8} {:>9} {:>9} {:>9} {:>10} {:>8} {:>8} {:>10}\n", "load", "offered", "accepted",
               "frames", "latency", "least", "p99", "mean ns");
    for (const Run& run : runs) print_run(run, made->tick_ns());
    for (const Run& run : runs) {
      if (run.result.deadlock.empty()) continue;
      fmt::print("at load {:.3f} it locked up:\n{}", run.load, run.result.deadlock);
      break;
    }
  }
  if (!options.curves.empty()) {
    std::vector<fabric::CurvePoint> points;
    for (const Run& run : runs) {
      points.push_back({run.result.offered, run.result.accepted, run.result.mean_latency,
                        static_cast<double>(run.result.p99_latency)});
    }
    if (!write_file(
            options.curves,
            fabric::draw_curves(points, options.file + ", " + options.traffic + " traffic"))) {
      return kFailed;
    }
  }
  if (!options.picture.empty()) {
    const fabric::Fabric& net = made->fabric();
    const auto load_of = [&net](std::uint32_t node, std::uint32_t port) {
      const fabric::PortIndex index = net.shape().port(node, port);
      return static_cast<double>(net.links().sent_by(index) *
                                 net.shape().ports[index].link.ticks_per_flit) /
             static_cast<double>(std::max<fabric::Tick>(net.now(), 1));
    };
    if (!write_file(options.picture, fabric::draw_topology(made->topology(), load_of))) {
      return kFailed;
    }
  }
  return locked ? kFailed : 0;
}

int run_check(const FabricOptions& options) {
  auto files = read_files(options);
  if (!files) return refuse_fabric(files.error().message);
  bool good = true;
  for (const std::string& complaint : fabric::complaints_about(files->topology)) {
    fmt::print("{}: {}\n", options.file, complaint);
    good = false;
  }
  auto made = install(options, *files);
  if (!made) {
    fmt::print("{}: {}\n", options.file, made.error().message);
    return kFailed;
  }
  const fabric::Topology& topology = (*made)->topology();
  fmt::print("{} hosts, {} switches, {} routers, {} subnet{}; {} lane{} wanted\n",
             topology.count(fabric::NodeKind::kEndpoint), topology.count(fabric::NodeKind::kSwitch),
             topology.count(fabric::NodeKind::kRouter), (*made)->subnets(),
             (*made)->subnets() == 1 ? "" : "s", (*made)->lanes_wanted(),
             (*made)->lanes_wanted() == 1 ? "" : "s");
  if (const std::string where = (*made)->unreachable(); !where.empty()) {
    fmt::print("not everybody is reached: {}\n", where);
    good = false;
  }
  if (const auto cycle = (*made)->find_cycle(); !cycle.empty()) {
    fmt::print("it can lock up:\n{}", (*made)->describe(cycle));
    good = false;
  } else {
    fmt::print("it cannot lock up: no cycle of links and lanes\n");
  }
  return good ? 0 : kFailed;
}

int run_make(const FabricOptions& options) {
  std::string words;
  for (const std::string& word : options.words) words += word + ' ';
  const auto topology = fabric::generate(words);
  if (!topology) return refuse_fabric(topology.error().message);
  const std::string text = fabric::write_topology(*topology);
  if (options.output.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  if (!write_file(options.output, text)) return kFailed;
  const std::string places = fabric::write_places(*topology);
  return places.empty() || write_file(options.output + ".weft", places) ? 0 : kFailed;
}

int run_draw(const FabricOptions& options) {
  auto files = read_files(options);
  if (!files) return refuse_fabric(files.error().message);
  const std::string svg = fabric::draw_topology(files->topology);
  if (options.output.empty()) {
    fmt::print("{}", svg);
    return 0;
  }
  return write_file(options.output, svg) ? 0 : kFailed;
}

const std::vector<usage::Meaning> kStatuses{
    {"0", "done"},
    {"1", "it locks up, something is wrong with the topology, or a file could not be written"},
    {"2", "the command line or a file is wrong, and nothing was done"}};

}  // namespace

void FabricCommands::add(usage::Command& program) {
  fabric = &program.add_command("fabric", "simulates links, switches and routers, flit by flit");
  fabric->require_subcommand(1);
  fabric->about = {
      "A fabric has links with virtual lanes, credits and retry, switches and routers. It is "
      "described by a file in the net format of ibsim, or as ibnetdiscover prints it."};
  fabric->examples = {{"weft fabric make -o ring.topo ring 6 1", "six switches in a circle"},
                      {"weft fabric sim ring.topo", "how much traffic it carries"}};
  fabric->statuses = kStatuses;
  const auto add_file = [this](usage::Command& command) {
    command.operands = "FILE";
    command.add_option("file", options.file, "the topology; -: standard input")->required();
    command.add_option("--settings", options.settings,
                       "lanes, latencies and errors (FILE.weft, if it is there)");
    command.statuses = kStatuses;
  };
  const auto add_routing = [this](usage::Command& command) {
    usage::one_of(command.add_option("--routing", options.routing,
                                     "up-down, or dimension for rings, meshes and tori (up-down)"),
                  {"up-down", "dimension"});
    usage::whole_number(command.add_option("--lanes", options.lanes, "virtual lanes of each link"),
                        1, fabric::kMaxLanes);
    usage::whole_number(
        command.add_option("--lmc", options.lmc, "each port has 2 to this power LIDs (0)"), 0, 7);
  };

  sim = &fabric->add_command("sim", "offers traffic, and says what arrives and how late");
  sim->about = {
      "Each host offers frames at the given load, the share of a link's rate. Time is counted in "
      "ticks: what a flit of 64 bytes takes. The same seed gives the same result."};
  add_file(*sim);
  add_routing(*sim);
  usage::one_of(sim->add_option("--traffic", options.traffic,
                                "uniform, permutation, incast, all-to-all or recorded (uniform)"),
                traffic_names());
  sim->add_option("--recorded", options.recorded,
                  "lines of TICK \"FROM\" \"TO\" FLITS, for recorded traffic");
  sim->add_option("--load", options.loads, "0.3, or FIRST:LAST:STEP (0.1:0.9:0.1)");
  usage::whole_number(sim->add_option("--frame", options.frame_flits, "flits of a frame (4)"), 1,
                      32'767);
  usage::whole_number(
      sim->add_option("--warm-up", options.warm_up, "ticks before anything is measured (2000)"), 0,
      1'000'000'000);
  usage::whole_number(sim->add_option("--ticks", options.ticks, "ticks that are measured (10000)"),
                      1, 1'000'000'000);
  usage::whole_number(sim->add_option("--seed", options.seed, "decides the traffic and the errors"),
                      0, ~std::uint64_t{0});
  sim->add_flag("--json", options.json, "the result as JSON");
  usage::writable_file(sim->add_option("--curves", options.curves,
                                       "draw latency and throughput over load here, as SVG"));
  usage::writable_file(sim->add_option(
      "--picture", options.picture, "draw the topology with the last load's traffic here, as SVG"));
  sim->examples = {
      {"weft fabric sim ring.topo", "nine loads, from 0.1 to 0.9"},
      {"weft fabric sim ring.topo --routing dimension --lanes 2 --curves ring.svg",
       "with lanes that keep the ring from locking up"},
      {"weft fabric sim tree.topo --traffic incast --load 0.5 --json", "all to one host"}};

  check = &fabric->add_command("check", "looks for mistakes in a topology, and for deadlocks");
  check->about = {
      "Tells GUIDs that are there twice, parts that are not connected, hosts that no route "
      "reaches, "
      "and cycles of links and lanes by which the fabric can lock up."};
  add_file(*check);
  add_routing(*check);
  check->examples = {{"weft fabric check ring.topo --routing dimension --lanes 1",
                      "shows the cycle by which a ring locks up"}};

  make = &fabric->add_command("make", "writes a regular topology, as ibnetdiscover prints one");
  make->operands = "KIND NUMBER...";
  make->about = {
      "KIND and its numbers: 'ring SWITCHES HOSTS', 'mesh 4x4 HOSTS', 'torus 4x4x4 HOSTS' (hosts "
      "at "
      "each switch), 'fat-tree PORTS PODS' (of each switch; of three levels), 'dragonfly SWITCHES "
      "HOSTS CABLES' (switches of a group, hosts and outward cables of each)."};
  make->add_option("kind", options.words, "what to make, and how large")->required();
  usage::writable_file(
      make->add_option("-o,--output", options.output,
                       "write it here, and the places of a grid's switches to OUTPUT.weft"));
  make->examples = {{"weft fabric make fat-tree 8", "128 hosts, to standard output"},
                    {"weft fabric make -o torus.topo torus 4x4 1", "and torus.topo.weft"}};
  make->statuses = kStatuses;

  draw = &fabric->add_command("draw", "draws a topology, as SVG");
  add_file(*draw);
  usage::writable_file(draw->add_option("-o,--output", options.output, "write it here"));
  draw->examples = {{"weft fabric draw ring.topo -o ring.svg", "a picture of the ring"}};
}

bool FabricCommands::parsed() const { return fabric->parsed(); }

int FabricCommands::run() const {
  if (sim->parsed()) return usage::with_output(*sim, [this] { return run_sim(options); });
  if (check->parsed()) return usage::with_output(*check, [this] { return run_check(options); });
  if (make->parsed()) return usage::with_output(*make, [this] { return run_make(options); });
  return usage::with_output(*draw, [this] { return run_draw(options); });
}

}  // namespace weft::cli
