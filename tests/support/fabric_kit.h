// Small fabrics for tests: hosts around switches, with LIDs and routes, and a driver that asserts
// the invariants after every tick.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "fabric/fabric.h"

namespace weft::test {

using fabric::Fabric;
using fabric::LinkProfile;
using fabric::LinkSettings;
using fabric::NodeIndex;
using fabric::NodeKind;
using fabric::PortIndex;
using fabric::Shape;
using fabric::Tick;

/// Switches in a line or a ring, each with one host; host i has LID i + 1.
struct HostsAndSwitches {
  HostsAndSwitches(std::uint32_t switches, std::uint32_t hosts_each, bool ring,
                   const LinkSettings& settings, const LinkProfile& link = {}) {
    for (std::uint32_t i = 0; i < switches; ++i) {
      nodes.push_back(shape.add(NodeKind::kSwitch, hosts_each + 2));
    }
    for (std::uint32_t i = 0; i + (ring ? 0 : 1) < switches; ++i) {
      shape.connect(shape.port(nodes[i], 2), shape.port(nodes[(i + 1) % switches], 1), link);
    }
    for (std::uint32_t i = 0; i < switches; ++i) {
      for (std::uint32_t j = 0; j < hosts_each; ++j) {
        const NodeIndex host = shape.add(NodeKind::kEndpoint, 1);
        hosts.push_back(shape.port(host, 1));
        shape.connect(hosts.back(), shape.port(nodes[i], 3 + j), link);
      }
    }
    fabric = std::make_unique<Fabric>(shape, settings);
    for (std::uint32_t h = 0; h < hosts.size(); ++h) {
      fabric->forwarding().set_lids(hosts[h], lid(h), 0);
      for (std::uint32_t i = 0; i < switches; ++i) {
        const std::uint32_t home = h / hosts_each;
        std::uint32_t out = 3 + h % hosts_each;
        // In a ring always the same way round, which is what locks up.
        if (i != home) out = ring || home > i ? 2 : 1;
        fabric->forwarding().set_route(nodes[i], lid(h), shape.port(nodes[i], out));
      }
    }
  }

  static Lid lid(std::uint32_t host) { return Lid(static_cast<std::uint16_t>(host + 1)); }

  fabric::FrameIndex send(std::uint32_t from, std::uint32_t to, std::uint16_t flits,
                          std::uint8_t lane = 0) {
    fabric::Sending what;
    what.from = hosts[from];
    what.destination = lid(to);
    what.flits = flits;
    what.lane = lane;
    what.cookie = sent++;
    return fabric->send(what);
  }

  /// Ticks, with every invariant asserted after each. False: not idle in that time.
  bool run(Tick most) {
    for (Tick i = 0; i < most && !fabric->links().idle(); ++i) {
      fabric->step();
      EXPECT_EQ(fabric->links().contradiction(), "");
    }
    return fabric->links().idle();
  }
  /// All credits are home.
  bool all_credits_are_home() const {
    for (PortIndex port = 0; port < shape.ports.size(); ++port) {
      if (shape.ports[port].peer == fabric::kNone) continue;
      if (fabric->links().credits(port, 0) != shape.ports[port].link.depth) return false;
    }
    return true;
  }

  Shape shape;
  std::vector<NodeIndex> nodes;
  std::vector<PortIndex> hosts;
  std::unique_ptr<Fabric> fabric;
  std::uint64_t sent = 0;
};

}  // namespace weft::test
