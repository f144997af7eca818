// Two ports on a simulated network, and a receiver that keeps what it gets. One thread.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "sim/network.h"
#include "sim/sim_port.h"

namespace weft::sim {

struct Inbound final : port::Receiver {
  void on_frame(const port::Incoming& frame) override {
    flows.push_back(frame.flow);
    packets.emplace_back(frame.packet.begin(), frame.packet.end());
  }
  void on_bad_checksum() override { ++bad_checksums; }
  void on_malformed() override { ++malformed; }

  std::vector<network::Flow> flows;
  std::vector<std::vector<std::byte>> packets;
  int bad_checksums = 0, malformed = 0;
};

class SimNetwork : public testing::TestWithParam<Checksums> {
 protected:
  static constexpr Gid kA = Gid::ipv4(10, 0, 0, 1), kB = Gid::ipv4(10, 0, 0, 2);

  SimNetwork() : SimNetwork(GetParam()) {}
  explicit SimNetwork(Checksums checksums) : network(stage, checksums) {
    a_number = network.add_endpoint(kA, 0, "a");
    b_number = network.add_endpoint(kB, 1, "b");
    a = make_port(a_number, kA);
    b = make_port(b_number, kB);
  }

  std::unique_ptr<SimPort> make_port(std::uint32_t endpoint, const Gid& address) {
    return std::make_unique<SimPort>(stage, network, endpoint, address, Mtu::k4096,
                                     [this] { ++wakes; });
  }

  /// A send frame from a to b that carries its number and `payload` bytes of it.
  void send(std::uint32_t number, std::size_t payload = 100, const Gid& to = kB) {
    std::vector<std::byte> bytes(payload, static_cast<std::byte>(number));
    network::OutFrame frame;
    frame.headers.bth.opcode = wire::Opcode::kRcSendOnly;
    frame.headers.bth.dest_qp = Qpn(0x1234);
    frame.headers.bth.psn = Psn(number);
    frame.add_piece(nullptr, {bytes.data(), bytes.size() / 2, 0});
    frame.add_piece(nullptr, {bytes.data() + bytes.size() / 2, bytes.size() - bytes.size() / 2, 0});
    frame.finish();
    port::Outgoing out{&frame, {}};
    out.flow.source = kA;
    out.flow.destination = to;
    const port::SendOutcome outcome = a->send({&out, 1});
    EXPECT_EQ(outcome.status, port::SendStatus::kTaken);
    EXPECT_EQ(outcome.taken, 1u);
  }

  void run() {
    while (!stage.events.empty()) {
      stage.clock.advance_to(stage.events.next_time());
      const EventQueue::Event event = stage.events.pop();
      event.actor->on_event(event.token);
    }
  }
  void run_and_receive() {
    run();
    b->receive(inbound, 1000);
  }
  std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> all;
    for (const auto& packet : inbound.packets) {
      all.push_back(wire::Bth::parse(packet).value().psn.value());
    }
    return all;
  }

  Stage stage{1};
  Network network;
  std::uint32_t a_number = 0, b_number = 0;
  std::unique_ptr<SimPort> a, b;
  Inbound inbound;
  int wakes = 0;
};

}  // namespace weft::sim
