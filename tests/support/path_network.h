// The ways in which a queue pair can reach its peer, and devices that use one of them, for tests:
// `direct` inside the process, `neighbour` (as between processes of one host, although both are in
// this one), `pipe` (frames through memory) and `udp` (frames through the kernel's loopback). A
// network outlives nothing: devices may live on without it. One thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "network/address.h"
#include "port/udp_port.h"
#include "support/pipe_port.h"
#include "support/verbs_kit.h"
#include "verbs/controller.h"
#include "verbs/helper.h"
#include "verbs/process.h"

namespace weft::test {

// ---- the ways ---------------------------------------------------------------------------------

enum class Wire : std::uint8_t { kDirect, kPipe, kUdp, kNeighbour };

struct Way {
  Wire wire = Wire::kDirect;
  bool one_controller = false;
};

inline std::vector<Way> two_devices() {
  return {
      {Wire::kDirect, false}, {Wire::kPipe, false}, {Wire::kUdp, false}, {Wire::kNeighbour, false}};
}
inline std::vector<Way> all_ways() {
  std::vector<Way> ways = two_devices();
  for (const Wire wire : {Wire::kDirect, Wire::kPipe, Wire::kUdp}) ways.push_back({wire, true});
  return ways;
}
inline std::string way_name(const testing::TestParamInfo<Way>& info) {
  static constexpr const char* kNames[] = {"direct", "pipe", "udp", "neighbour"};
  const std::string name = kNames[static_cast<int>(info.param.wire)];
  return info.param.one_controller ? name + "_one_controller" : name;
}

// ---- devices ----------------------------------------------------------------------------------

struct DeviceShape {
  NodeKind kind = NodeKind::kHost;
  int ports = 1;
  /// Without the helper thread nothing moves unless the test polls. A pipe never has it.
  bool helper = true;
};

/// Opens devices that reach each other in one way.
class Network {
 public:
  explicit Network(Wire wire) : wire_(wire) {}

  PipeHub& pipe() { return hub_; }

  Device open(const DeviceShape& shape = {}) {
    if (wire_ == Wire::kNeighbour) return open_neighbour(shape);
    if (wire_ == Wire::kPipe || !shape.helper) return open_without_helper(shape);
    verbs::DeviceOptions options;
    options.kind = shape.kind;
    options.path = policy();
    for (;;) {
      options.ports.assign(static_cast<std::size_t>(shape.ports), {});
      if (wire_ == Wire::kUdp) {
        for (auto& port : options.ports) port = {network::to_string(loopback_address()), true};
      }
      auto device = Device::open(options);
      if (!device && device.error().code == Errc::kBusy) continue;  // another test's address
      return must(std::move(device));
    }
  }

 private:
  verbs::PathPolicy policy() const {
    return wire_ == Wire::kDirect || wire_ == Wire::kNeighbour ? verbs::PathPolicy::kAutomatic
                                                               : verbs::PathPolicy::kFramed;
  }

  /// In a directory of its own, a device finds the others only as other processes would. It cannot
  /// do without the helper, which answers those who call.
  Device open_neighbour(const DeviceShape& shape) {
    verbs::ControllerSetup setup;
    setup.kind = shape.kind;
    setup.path = policy();
    for (int i = 0; i < shape.ports; ++i) setup.ports.push_back(make_port());
    verbs::Environment environment = verbs::process_environment();
    // Never destroyed: a directory outlives every controller.
    static std::deque<path::Directory>& directories = *new std::deque<path::Directory>;
    environment.directory = &directories.emplace_back();
    auto controller = must(verbs::Controller::create(environment, std::move(setup)));
    path::Engine& engine = controller->engine();
    controller->set_on_close([&engine] { verbs::Helper::process().detach(engine); });
    verbs::Helper::process().attach(engine);
    return Device(std::move(controller));
  }

  Device open_without_helper(const DeviceShape& shape) {
    verbs::ControllerSetup setup;
    setup.kind = shape.kind;
    setup.path = policy();
    for (int i = 0; i < shape.ports; ++i) setup.ports.push_back(make_port());
    return Device(must(verbs::Controller::create(verbs::process_environment(), std::move(setup))));
  }

  verbs::PortSetup make_port() {
    while (wire_ == Wire::kUdp) {
      const Gid address = loopback_address();
      auto port = port::UdpPort::open(address);
      if (!port && port.error().code == Errc::kBusy) continue;
      return {address, must(std::move(port))};
    }
    Gid address = base::system_random().draw<Gid>();
    address.raw[0] = 0xFD;
    return {address, wire_ == Wire::kPipe ? hub_.make_port(address) : nullptr};
  }

  /// Tests run side by side in several processes, and RoCE has one UDP port per address.
  static Gid loopback_address() {
    const auto draw = base::system_random().draw<std::uint32_t>();
    return Gid::ipv4(127, static_cast<std::uint8_t>(1 + draw % 250),
                     static_cast<std::uint8_t>(draw >> 8), static_cast<std::uint8_t>(draw >> 16));
  }

  const Wire wire_;
  PipeHub hub_;
};

}  // namespace weft::test
