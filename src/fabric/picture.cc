#include "fabric/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string_view>

namespace weft::fabric {
namespace {

struct Point {
  double x = 0, y = 0;
};

constexpr double kStep = 80;
constexpr double kMargin = 60;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      out += c;
    }
  }
  return out;
}

/// Green when idle, over yellow, to red when it is busy all the time.
std::string colour_of(double load) {
  const double share = std::clamp(load, 0.0, 1.0);
  return fmt::format("hsl({:.0f},85%,42%)", 120 * (1 - share));
}

/// How far each switch is from hosts; hosts and routers at the bottom.
std::vector<std::uint32_t> levels_of(const Topology& topology) {
  std::vector<std::uint32_t> level(topology.nodes.size(), kNone);
  std::vector<std::uint32_t> open;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind != NodeKind::kEndpoint) continue;
    level[node] = 0;
    open.push_back(node);
  }
  for (std::size_t i = 0; i < open.size(); ++i) {
    for (const TopologyPort& port : topology.nodes[open[i]].ports) {
      if (port.node == kNone || level[port.node] != kNone) continue;
      level[port.node] = level[open[i]] + 1;
      open.push_back(port.node);
    }
  }
  for (std::uint32_t& each : level) each = each == kNone ? 1 : each;
  return level;
}

void place_in_levels(const Topology& topology, std::vector<Point>& at) {
  const std::vector<std::uint32_t> level = levels_of(topology);
  const std::uint32_t top = *std::ranges::max_element(level);
  std::vector<std::uint32_t> filled(top + 1), in_level(top + 1);
  for (const std::uint32_t each : level) ++in_level[each];
  const double width = kStep * *std::ranges::max_element(in_level);
  // Hosts in the order of the switches that they are at.
  std::vector<std::uint32_t> order(topology.nodes.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto home = [&topology](std::uint32_t node) {
    if (topology.nodes[node].kind != NodeKind::kEndpoint) return node;
    for (const TopologyPort& port : topology.nodes[node].ports) {
      if (port.node != kNone) return port.node;
    }
    return node;
  };
  std::ranges::stable_sort(order, {}, home);
  for (const std::uint32_t node : order) {
    const std::uint32_t here = level[node];
    at[node] = {width * (filled[here]++ + 0.5) / in_level[here], (top - here) * 1.6 * kStep};
  }
}

void place_in_grid(const Topology& topology, std::vector<Point>& at) {
  const auto& dimensions = topology.dimensions;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    const auto& place = topology.coordinates[node];
    if (place.empty()) continue;
    if (dimensions.size() == 1 && topology.wraps) {
      const double angle = 2 * std::numbers::pi * place[0] / dimensions[0];
      const double radius = std::max(1.5, dimensions[0] * 2 / std::numbers::pi / 2) * kStep;
      at[node] = {radius * std::sin(angle), -radius * std::cos(angle)};
      continue;
    }
    double x = place[0] * 2 * kStep;
    double y = place.size() > 1 ? place[1] * 2 * kStep : 0;
    if (place.size() > 2) x += place[2] * (dimensions[0] * 2 + 1) * kStep;
    if (place.size() > 3) y += place[3] * (dimensions[1] * 2 + 1) * kStep;
    at[node] = {x, y};
  }
  // What is at a switch stands around it.
  std::vector<std::uint32_t> around(topology.nodes.size());
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (!topology.coordinates[node].empty()) continue;
    for (const TopologyPort& port : topology.nodes[node].ports) {
      if (port.node == kNone) continue;
      const double angle = std::numbers::pi * (0.25 + 0.5 * around[port.node]++);
      at[node] = {at[port.node].x + 0.6 * kStep * std::cos(angle),
                  at[port.node].y + 0.6 * kStep * std::sin(angle)};
      break;
    }
  }
}

void draw_half(std::string& svg, Point a, Point b, const std::string& colour) {
  fmt::format_to(std::back_inserter(svg),
                 "<line x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\" stroke=\"{}\"/>\n",
                 a.x, a.y, b.x, b.y, colour);
}

void draw_node(std::string& svg, const TopologyNode& node, Point at) {
  const auto out = std::back_inserter(svg);
  const bool host = node.kind == NodeKind::kEndpoint;
  const char* fill = node.kind == NodeKind::kRouter ? "#7a4fb5" : host ? "#ffffff" : "#2b5c9e";
  const double half = host ? 9 : 14;
  fmt::format_to(out,
                 "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"{}\" "
                 "fill=\"{}\" stroke=\"#333\"/>\n",
                 at.x - half, at.y - half, 2 * half, 2 * half, host ? 9 : 3, fill);
  const std::string& name = node.description.empty() ? node.name : node.description;
  fmt::format_to(out, "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", at.x, at.y + half + 11,
                 escaped(name));
}

std::string head(double x, double y, double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{:.0f} {:.0f} {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"9\" text-anchor=\"middle\" stroke-width=\"2\">\n"
      "<style>text{{stroke:none}}</style>\n"
      "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#fff\"/>\n",
      x, y, width, height, x, y, width, height);
}

/// 1, 2 or 5 times a power of ten, at least a fifth of the range.
double step_for(double range) {
  const double power = std::pow(10, std::floor(std::log10(std::max(range, 1e-9) / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

struct Panel {
  double top, most_x, most_y;
  static constexpr double kLeft = 60, kWidth = 460, kHeight = 200;

  Point at(double x, double y) const {
    return {kLeft + kWidth * x / most_x, top + kHeight * (1 - std::min(y / most_y, 1.0))};
  }
};

void draw_axes(std::string& svg, const Panel& panel, const char* y_name) {
  const auto out = std::back_inserter(svg);
  for (double y = 0; y <= panel.most_y * 1.0001; y += step_for(panel.most_y)) {
    draw_half(svg, panel.at(0, y), panel.at(panel.most_x, y), "#ddd");
    const Point at = panel.at(0, y);
    fmt::format_to(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{:g}</text>\n",
                   at.x - 5, at.y + 3, y);
  }
  for (double x = 0; x <= panel.most_x * 1.0001; x += step_for(panel.most_x)) {
    const Point at = panel.at(x, 0);
    fmt::format_to(out, "<text x=\"{:.0f}\" y=\"{:.0f}\">{:g}</text>\n", at.x, at.y + 12, x);
  }
  fmt::format_to(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"start\">{}</text>\n",
                 Panel::kLeft, panel.top - 6, y_name);
}

void draw_line(std::string& svg, const Panel& panel, const std::vector<CurvePoint>& points,
               double CurvePoint::*value, const char* colour) {
  svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" points=\"", colour);
  for (const CurvePoint& point : points) {
    const Point at = panel.at(point.offered, point.*value);
    svg += fmt::format("{:.1f},{:.1f} ", at.x, at.y);
  }
  svg += "\"/>\n";
}

}  // namespace

std::string draw_topology(const Topology& topology, const LoadOf& load_of) {
  std::vector<Point> at(topology.nodes.size());
  if (topology.dimensions.empty()) {
    place_in_levels(topology, at);
  } else {
    place_in_grid(topology, at);
  }
  Point least = at[0], most = at[0];
  for (const Point& point : at) {
    least = {std::min(least.x, point.x), std::min(least.y, point.y)};
    most = {std::max(most.x, point.x), std::max(most.y, point.y)};
  }
  std::string svg = head(least.x - kMargin, least.y - kMargin, most.x - least.x + 2 * kMargin,
                         most.y - least.y + 2 * kMargin);
  for (std::uint32_t node = 0; node < at.size(); ++node) {
    for (std::uint32_t port = 1; port <= topology.nodes[node].ports.size(); ++port) {
      const std::uint32_t there = topology.nodes[node].port(port).node;
      if (there == kNone) continue;
      // Each end draws the half next to it.
      const Point middle{(at[node].x + at[there].x) / 2, (at[node].y + at[there].y) / 2};
      draw_half(svg, at[node], middle, load_of ? colour_of(load_of(node, port)) : "#999");
    }
  }
  for (std::uint32_t node = 0; node < at.size(); ++node)
    draw_node(svg, topology.nodes[node], at[node]);
  return svg + "</svg>\n";
}

std::string draw_curves(const std::vector<CurvePoint>& points, const std::string& title) {
  Panel latency{60, 0, 0}, accepted{330, 0, 0};
  double least = 0;
  for (const CurvePoint& point : points) {
    latency.most_x = std::max(latency.most_x, point.offered);
    accepted.most_y = std::max(accepted.most_y, point.offered);
    if (point.mean_latency > 0 && (least == 0 || point.mean_latency < least)) {
      least = point.mean_latency;
    }
  }
  latency.most_x = std::max(latency.most_x, 1e-6);
  accepted.most_x = latency.most_x;
  accepted.most_y = std::max(accepted.most_y, 1e-6);
  // Beyond saturation latencies say nothing: the curve leaves the picture there.
  latency.most_y = std::max(least * 6, 1.0);
  std::string svg = head(0, 0, 560, 570);
  svg += fmt::format("<text x=\"280\" y=\"24\" font-size=\"13\">{}</text>\n", escaped(title));
  draw_axes(svg, latency, "latency in ticks, mean (blue) and 99 % (grey)");
  draw_line(svg, latency, points, &CurvePoint::p99_latency, "#aaa");
  draw_line(svg, latency, points, &CurvePoint::mean_latency, "#2b5c9e");
  draw_axes(svg, accepted, "accepted flits for each endpoint and tick");
  draw_line(svg, accepted, points, &CurvePoint::accepted, "#b5482b");
  svg += "<text x=\"290\" y=\"560\">offered flits for each endpoint and tick</text>\n</svg>\n";
  return svg;
}

}  // namespace weft::fabric
