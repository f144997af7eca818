// A wire in memory, for tests: ports of one hub pass real frames to each other, headers written as
// on the network and payload copied, nothing else. A test may decide the fate of each frame. The
// hub and its ports may go in any order. Threads as port.h says; set the hook before traffic.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "port/port.h"
#include "wire/packet.h"

namespace weft::test {

/// A frame on its way: BTH to pad, as a port hands it up.
struct PipeFrame {
  network::Flow flow;
  std::vector<std::byte> packet;

  wire::Packet headers() const { return wire::parse_packet(packet).value(); }
};

enum class Fate : std::uint8_t { kDeliver, kDrop, kDuplicate };

class PipeHub {
 public:
  using Hook = std::function<Fate(const PipeFrame&)>;

  std::unique_ptr<port::Port> make_port(const Gid& address);
  /// A frame that nobody sent arrives at its flow's destination.
  void inject(PipeFrame frame) {
    const std::lock_guard guard(wires_->mutex);
    wires_->arriving.at(frame.flow.destination).push_back(std::move(frame));
  }
  /// Asked for every frame, one at a time.
  void set_hook(Hook hook) {
    const std::lock_guard guard(wires_->mutex);
    wires_->hook = std::move(hook);
  }
  /// Called by the thread that sends, when frames were built and nothing of them has been copied.
  /// For one thread that sends at a time.
  using BeforeSend = std::function<void(std::span<const port::Outgoing>)>;
  void set_before_send(BeforeSend before_send) { wires_->before_send = std::move(before_send); }

 private:
  struct Wires {
    std::mutex mutex;
    std::map<Gid, std::deque<PipeFrame>> arriving;
    Hook hook;
    BeforeSend before_send;
  };
  class PipePort;

  std::shared_ptr<Wires> wires_ = std::make_shared<Wires>();
};

class PipeHub::PipePort final : public port::Port {
 public:
  PipePort(std::shared_ptr<Wires> wires, const Gid& address)
      : wires_(std::move(wires)), address_(address) {
    const std::lock_guard guard(wires_->mutex);
    wires_->arriving[address_];
  }
  ~PipePort() override {
    const std::lock_guard guard(wires_->mutex);
    wires_->arriving.erase(address_);
  }

  Gid address() const override { return address_; }
  Mtu max_mtu() const override { return Mtu::k4096; }

  port::SendOutcome send(std::span<const port::Outgoing> frames) override {
    if (wires_->before_send) wires_->before_send(frames);
    std::size_t taken = 0;
    for (const port::Outgoing& out : frames) {
      PipeFrame frame{out.flow, {}};
      if (!serialise(*out.frame, frame.packet)) return {port::SendStatus::kFaulted, taken};
      pass_on(std::move(frame));
      ++taken;
    }
    return {port::SendStatus::kTaken, taken};
  }

  std::size_t receive(port::Receiver& receiver, std::size_t max) override {
    for (std::size_t n = 0; n < max; ++n) {
      PipeFrame frame;
      {
        const std::lock_guard guard(wires_->mutex);
        std::deque<PipeFrame>& mine = wires_->arriving[address_];
        if (mine.empty()) return n;
        frame = std::move(mine.front());
        mine.pop_front();
      }
      receiver.on_frame({frame.flow, frame.packet});  // it may send: no lock is held
    }
    return max;
  }

 private:
  static bool serialise(const network::OutFrame& from, std::vector<std::byte>& to) {
    to.resize(from.packet_bytes());
    return network::emit_packet(from, to);
  }

  void pass_on(PipeFrame frame) {
    const std::lock_guard guard(wires_->mutex);
    const auto to = wires_->arriving.find(frame.flow.destination);
    if (to == wires_->arriving.end()) return;
    const Fate fate = wires_->hook ? wires_->hook(frame) : Fate::kDeliver;
    if (fate == Fate::kDrop) return;
    if (fate == Fate::kDuplicate) to->second.push_back(frame);
    to->second.push_back(std::move(frame));
  }

  const std::shared_ptr<Wires> wires_;
  const Gid address_;
};

inline std::unique_ptr<port::Port> PipeHub::make_port(const Gid& address) {
  return std::make_unique<PipePort>(wires_, address);
}

}  // namespace weft::test
