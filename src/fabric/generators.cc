#include "fabric/generators.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "fabric/topology_reader.h"

namespace weft::fabric {
namespace {

constexpr std::uint64_t kSwitchGuids = 0x0200'0000'0000'0000;
constexpr std::uint64_t kHostGuids = 0x0300'0000'0000'0000;

void add_host(Topology& topology, std::uint32_t at, std::uint32_t port) {
  const auto number = topology.nodes.size();
  const std::uint32_t host = topology.add(NodeKind::kEndpoint, fmt::format("H{}", number), 1);
  topology.nodes[host].guid = kHostGuids + number * 2;
  topology.nodes[host].port(1).guid = kHostGuids + number * 2 + 1;
  topology.connect(host, 1, at, port);
}

std::uint32_t add_switch(Topology& topology, std::string name, std::uint32_t ports) {
  const std::uint32_t node = topology.add(NodeKind::kSwitch, std::move(name), ports);
  topology.nodes[node].guid = kSwitchGuids + node;
  return node;
}

tl::unexpected<Error> refuse(std::string message) {
  return fail(Errc::kInvalidArgument, std::move(message));
}

Result<Topology> make_grid(const std::vector<std::uint32_t>& dimensions, std::uint32_t hosts,
                           bool wraps) {
  if (dimensions.empty() || dimensions.size() > 4) return refuse("one to four dimensions");
  std::uint64_t count = 1;
  for (const std::uint32_t length : dimensions) {
    if (length < (wraps ? 3u : 2u)) return refuse("a dimension is too short");
    count *= length;
    if (count * (hosts + 1) > kMostNodes) return refuse("too many nodes");
  }
  const auto grid_ports = static_cast<std::uint32_t>(dimensions.size() * 2);
  if (grid_ports + std::uint64_t{hosts} > kMostPorts) return refuse("too many hosts at a switch");
  Topology topology;
  topology.dimensions = dimensions;
  topology.wraps = wraps;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::vector<std::uint32_t> place;
    std::string name = "S";
    for (std::uint32_t left = i; const std::uint32_t length : dimensions) {
      place.push_back(left % length);
      left /= length;
      name += fmt::format("{}{}", name.size() > 1 ? "-" : "", place.back());
    }
    add_switch(topology, name, grid_ports + hosts);
    topology.coordinates.push_back(std::move(place));
  }
  std::uint32_t stride = 1;
  for (std::uint32_t d = 0; d < dimensions.size(); ++d) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t at = topology.coordinates[i][d];
      const bool last = at + 1 == dimensions[d];
      if (last && !wraps) continue;
      const std::uint32_t next = last ? i - at * stride : i + stride;
      topology.connect(i, 2 * d + 1, next, 2 * d + 2);
    }
    stride *= dimensions[d];
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t host = 0; host < hosts; ++host) {
      add_host(topology, i, grid_ports + 1 + host);
    }
  }
  topology.coordinates.resize(topology.nodes.size());
  return topology;
}

/// "4x4" or "6".
std::vector<std::uint32_t> numbers_in(std::string_view word) {
  std::vector<std::uint32_t> numbers;
  const char* at = word.data();
  const char* const end = word.data() + word.size();
  while (at != end) {
    std::uint32_t value = 0;
    const auto [stopped, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || value > kMostNodes) return {};
    numbers.push_back(value);
    at = stopped;
    if (at != end && (*at++ != 'x' || at == end)) return {};
  }
  return numbers;
}

}  // namespace

Result<Topology> make_ring(std::uint32_t switches, std::uint32_t hosts) {
  return make_grid({switches}, hosts, true);
}
Result<Topology> make_mesh(const std::vector<std::uint32_t>& dimensions, std::uint32_t hosts) {
  return make_grid(dimensions, hosts, false);
}
Result<Topology> make_torus(const std::vector<std::uint32_t>& dimensions, std::uint32_t hosts) {
  return make_grid(dimensions, hosts, true);
}

Result<Topology> make_fat_tree(std::uint32_t k, std::uint32_t pods) {
  if (k < 2 || k % 2 != 0 || k > 128)
    return refuse("a fat tree's switches have 2 to 128 ports, even");
  if (pods == 0) pods = k;
  if (pods > k) return refuse("a fat tree has no more pods than its switches have ports");
  const std::uint32_t half = k / 2;
  Topology topology;
  std::vector<std::uint32_t> cores;
  for (std::uint32_t i = 0; i < half * half; ++i) {
    cores.push_back(add_switch(topology, fmt::format("core{}", i), k));
  }
  for (std::uint32_t pod = 0; pod < pods; ++pod) {
    std::vector<std::uint32_t> upper, lower;
    for (std::uint32_t i = 0; i < half; ++i) {
      upper.push_back(add_switch(topology, fmt::format("pod{}-upper{}", pod, i), k));
      for (std::uint32_t j = 0; j < half; ++j) {
        topology.connect(upper[i], half + 1 + j, cores[i * half + j], pod + 1);
      }
    }
    for (std::uint32_t i = 0; i < half; ++i) {
      lower.push_back(add_switch(topology, fmt::format("pod{}-leaf{}", pod, i), k));
      for (std::uint32_t j = 0; j < half; ++j) {
        topology.connect(lower[i], half + 1 + j, upper[j], i + 1);
      }
    }
    for (const std::uint32_t leaf : lower) {
      for (std::uint32_t host = 0; host < half; ++host) add_host(topology, leaf, host + 1);
    }
  }
  return topology;
}

Result<Topology> make_dragonfly(std::uint32_t a, std::uint32_t p, std::uint32_t h) {
  if (a < 1 || h < 1 || std::uint64_t{a} + p + h > kMostPorts) {
    return refuse("a dragonfly has 1 switch or more in a group, 1 cable or more out of each");
  }
  const std::uint64_t groups = std::uint64_t{a} * h + 1;
  if (groups * a * (p + 1) > kMostNodes) return refuse("too many nodes");
  Topology topology;
  const auto at = [a](std::uint64_t group, std::uint32_t i) {
    return static_cast<std::uint32_t>(group * a + i);
  };
  for (std::uint32_t group = 0; group < groups; ++group) {
    for (std::uint32_t i = 0; i < a; ++i) {
      add_switch(topology, fmt::format("g{}-{}", group, i), a - 1 + p + h);
    }
    for (std::uint32_t i = 0; i < a; ++i) {
      for (std::uint32_t j = i + 1; j < a; ++j)
        topology.connect(at(group, i), j, at(group, j), i + 1);
    }
  }
  // Cable c of a group goes to the group c + 1 further on, where it is cable a * h - 1 - c.
  for (std::uint32_t group = 0; group < groups; ++group) {
    for (std::uint32_t cable = 0; cable < a * h; ++cable) {
      const auto other = static_cast<std::uint32_t>((group + cable + 1) % groups);
      if (other < group) continue;
      const std::uint32_t back = a * h - 1 - cable;
      topology.connect(at(group, cable / h), a + p + cable % h, at(other, back / h),
                       a + p + back % h);
    }
  }
  for (std::uint32_t i = 0; i < groups * a; ++i) {
    for (std::uint32_t host = 0; host < p; ++host) add_host(topology, i, a + host);
  }
  return topology;
}

Result<Topology> generate(std::string_view words) {
  std::vector<std::string_view> parts;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (end > 0) parts.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  std::vector<std::vector<std::uint32_t>> numbers;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    numbers.push_back(numbers_in(parts[i]));
    if (numbers.back().empty()) return refuse(fmt::format("'{}' is no number", parts[i]));
  }
  const std::string_view kind = parts.empty() ? std::string_view{} : parts[0];
  const auto number = [&numbers](std::size_t i, std::uint32_t otherwise) {
    return i < numbers.size() ? numbers[i][0] : otherwise;
  };
  if (!numbers.empty()) {
    if (kind == "ring") return make_ring(number(0, 0), number(1, 1));
    if (kind == "mesh") return make_mesh(numbers[0], number(1, 1));
    if (kind == "torus") return make_torus(numbers[0], number(1, 1));
    if (kind == "fat-tree") return make_fat_tree(number(0, 0), number(1, 0));
    if (kind == "dragonfly" && numbers.size() == 3) {
      return make_dragonfly(number(0, 0), number(1, 0), number(2, 0));
    }
  }
  return refuse(
      "expected 'ring SWITCHES HOSTS', 'mesh 4x4 HOSTS', 'torus 4x4 HOSTS', 'fat-tree PORTS PODS' "
      "or "
      "'dragonfly SWITCHES HOSTS CABLES'");
}

}  // namespace weft::fabric
