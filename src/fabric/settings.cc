#include "fabric/settings.h"

#include <charconv>

namespace weft::fabric {
namespace {

constexpr std::uint32_t kMostTicks = 1'000'000;

class SettingsReader {
 public:
  explicit SettingsReader(Topology& topology) : topology_(topology) {}
  Parsed<Settings> read(std::string_view text);

 private:
  using Step = Parsed<bool>;  // the value says nothing

  Step read_line(LineScanner& line);
  Step read_profile(LineScanner& line, LinkProfile& profile);
  Step read_grid(LineScanner& line);
  Step read_place(LineScanner& line);
  Step read_link(LineScanner& line);
  Step read_node(LineScanner& line);
  Step read_tick(LineScanner& line);
  Parsed<std::uint32_t> read_name(LineScanner& line);
  Parsed<double> read_real(LineScanner& line, std::string_view what, double most);

  Topology& topology_;
  Settings settings_;
};

Parsed<std::uint32_t> SettingsReader::read_name(LineScanner& line) {
  line.skip_blanks();
  const std::size_t begun = line.at();
  const auto name = line.quoted("a node's name");
  if (!name) return tl::unexpected(name.error());
  const auto node = topology_.find(*name);
  if (!node) return line.refuse(begun, fmt::format("there is no node \"{}\"", *name));
  return *node;
}

/// Digits, a point and an exponent, as people write it; from_chars of doubles came late.
Parsed<double> SettingsReader::read_real(LineScanner& line, std::string_view what, double most) {
  line.skip_blanks();
  const std::size_t begun = line.at();
  const std::string word(line.word());
  char* stopped = nullptr;
  const double value = std::strtod(word.c_str(), &stopped);
  if (word.empty() || *stopped != 0 || !(value >= 0) || value > most) {
    return line.refuse(begun, fmt::format("expected {} from 0 to {}", what, most));
  }
  return value;
}

SettingsReader::Step SettingsReader::read_profile(LineScanner& line, LinkProfile& profile) {
  while (!line.at_end()) {
    const std::size_t begun = line.at();
    const std::string_view word = line.word();
    if (word == "errors") {
      const auto rate = read_real(line, "a chance", 1);
      if (!rate) return tl::unexpected(rate.error());
      profile.error_rate = *rate;
      continue;
    }
    const bool latency = word == "latency", slower = word == "slower", depth = word == "depth";
    if (!latency && !slower && !depth) {
      return line.refuse(begun, "expected latency, slower, depth or errors");
    }
    const std::uint64_t most = latency ? kMostTicks : 32'768;
    const auto value = line.number(word, 1, most);
    if (!value) return tl::unexpected(value.error());
    if (latency) profile.latency = static_cast<std::uint32_t>(*value);
    if (slower) profile.ticks_per_flit = static_cast<std::uint16_t>(*value);
    if (depth) profile.depth = static_cast<std::uint16_t>(*value);
  }
  return true;
}

SettingsReader::Step SettingsReader::read_grid(LineScanner& line) {
  line.skip_blanks();
  const std::size_t begun = line.at();
  const std::string_view kind = line.word();
  if (kind != "mesh" && kind != "torus") return line.refuse(begun, "expected mesh or torus");
  topology_.wraps = kind == "torus";
  topology_.dimensions.clear();
  topology_.coordinates.assign(topology_.nodes.size(), {});
  do {
    const auto length = line.number("a length", 2, kMostTicks);
    if (!length) return tl::unexpected(length.error());
    topology_.dimensions.push_back(static_cast<std::uint32_t>(*length));
    if (topology_.dimensions.size() > 4)
      return line.refuse(begun, "expected up to four dimensions");
  } while (line.accept("x"));
  return true;
}

SettingsReader::Step SettingsReader::read_place(LineScanner& line) {
  if (topology_.dimensions.empty()) return line.refuse(0, "expected 'grid' before 'place'");
  const auto node = read_name(line);
  if (!node) return tl::unexpected(node.error());
  auto& place = topology_.coordinates[*node];
  place.clear();
  for (const std::uint32_t length : topology_.dimensions) {
    const auto at = line.number("a coordinate", 0, length - 1);
    if (!at) return tl::unexpected(at.error());
    place.push_back(static_cast<std::uint32_t>(*at));
  }
  return true;
}

SettingsReader::Step SettingsReader::read_link(LineScanner& line) {
  const auto node = read_name(line);
  if (!node) return tl::unexpected(node.error());
  if (!line.accept("[")) return line.expected("'['");
  line.skip_blanks();
  const std::size_t begun = line.at();
  const auto port = line.number("a port", 1, topology_.nodes[*node].ports.size());
  if (!port) return tl::unexpected(port.error());
  if (!line.accept("]")) return line.expected("']'");
  const auto number = static_cast<std::uint32_t>(*port);
  if (topology_.nodes[*node].port(number).node == kNone) {
    return line.refuse(begun, "this port has no cable");
  }
  LinkProfile profile = settings_.link;
  Step step = read_profile(line, profile);
  if (step) settings_.cables.push_back({{*node, number}, profile});
  return step;
}

SettingsReader::Step SettingsReader::read_node(LineScanner& line) {
  const auto node = read_name(line);
  if (!node) return tl::unexpected(node.error());
  if (!line.accept("pipeline")) return line.expected("pipeline");
  const auto ticks = line.number("ticks", 0, kMostTicks);
  if (!ticks) return tl::unexpected(ticks.error());
  settings_.pipelines.emplace_back(*node, static_cast<std::uint32_t>(*ticks));
  return true;
}

SettingsReader::Step SettingsReader::read_tick(LineScanner& line) {
  line.skip_blanks();
  const std::size_t begun = line.at();
  const std::string word(line.word());
  char* stopped = nullptr;
  settings_.tick_ns = std::strtod(word.c_str(), &stopped);
  if (std::string_view(stopped) != "ns" || !(settings_.tick_ns > 0) || settings_.tick_ns > 1e9) {
    return line.refuse(begun, "expected a time like 5.12ns");
  }
  return true;
}

SettingsReader::Step SettingsReader::read_line(LineScanner& line) {
  if (line.at_end()) return true;
  const std::size_t begun = line.at();
  const std::string_view word = line.word();
  Step step = true;
  if (word == "lanes") {
    const auto lanes = line.number("a number of lanes", 1, kMaxLanes);
    if (!lanes) return tl::unexpected(lanes.error());
    settings_.links.lanes = static_cast<std::uint8_t>(*lanes);
  } else if (word == "pipeline") {
    const auto ticks = line.number("ticks", 0, kMostTicks);
    if (!ticks) return tl::unexpected(ticks.error());
    settings_.pipeline = static_cast<std::uint32_t>(*ticks);
  } else if (word == "turnaround") {
    const auto ticks = line.number("ticks", 0, kMostTicks);
    if (!ticks) return tl::unexpected(ticks.error());
    settings_.links.turnaround = static_cast<std::uint32_t>(*ticks);
  } else if (word == "whole-frames") {
    settings_.links.whole_frames = line.accept("on");
    if (!settings_.links.whole_frames && !line.accept("off")) return line.expected("on or off");
  } else if (word == "control") {
    settings_.links.control_takes_turns = !line.accept("free");
    if (settings_.links.control_takes_turns && !line.accept("turns")) {
      return line.expected("turns or free");
    }
  } else if (word == "tick") {
    step = read_tick(line);
  } else if (word == "grid") {
    step = read_grid(line);
  } else if (word == "place") {
    step = read_place(line);
  } else if (word == "default") {
    step = read_profile(line, settings_.link);
  } else if (word == "link") {
    step = read_link(line);
  } else if (word == "node") {
    step = read_node(line);
  } else {
    return line.refuse(begun,
                       "expected lanes, pipeline, turnaround, whole-frames, control, tick, grid, "
                       "place, default, link "
                       "or node");
  }
  if (step && !line.at_end()) return line.expected("the line's end");
  return step;
}

Parsed<Settings> SettingsReader::read(std::string_view text) {
  std::uint32_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    LineScanner line(text.substr(0, end), ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
    const Step step = read_line(line);
    if (!step) return tl::unexpected(step.error());
  }
  for (std::uint32_t node = 0; node < topology_.coordinates.size(); ++node) {
    if (topology_.nodes[node].kind != NodeKind::kSwitch || !topology_.coordinates[node].empty()) {
      continue;
    }
    return tl::unexpected(TextError{
        number + 1, 1, fmt::format("expected a place for \"{}\"", topology_.nodes[node].name)});
  }
  return settings_;
}

}  // namespace

Parsed<Settings> read_settings(std::string_view text, Topology& topology) {
  return SettingsReader(topology).read(text);
}

std::string write_places(const Topology& topology) {
  if (topology.dimensions.empty()) return {};
  std::string text = topology.wraps ? "grid torus " : "grid mesh ";
  for (std::size_t d = 0; d < topology.dimensions.size(); ++d) {
    text += fmt::format("{}{}", d == 0 ? "" : "x", topology.dimensions[d]);
  }
  text += '\n';
  for (std::uint32_t node = 0; node < topology.coordinates.size(); ++node) {
    if (topology.coordinates[node].empty()) continue;
    text += fmt::format("place \"{}\"", topology.nodes[node].name);
    for (const std::uint32_t at : topology.coordinates[node]) text += fmt::format(" {}", at);
    text += '\n';
  }
  return text;
}

}  // namespace weft::fabric
