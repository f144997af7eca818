// The fixture of the path suite, which runs the same test bodies over every way in which a queue
// pair can reach its peer, each between two devices and between two queue pairs of one device. A
// test has two nodes, `a` and `b`; what does not come within kPatience fails it. One thread, unless
// a test says otherwise.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/path_network.h"
#include "support/verbs_kit.h"

namespace weft::test {

inline constexpr CompletionStatus kDone = CompletionStatus::kSuccess;
inline constexpr CompletionStatus kRefused = CompletionStatus::kRemoteAccessError;

class PathSuite : public testing::TestWithParam<Way> {
 protected:
  explicit PathSuite(const DeviceShape& shape = {})
      : network(GetParam().wire),
        a(open(shape)),
        b(GetParam().one_controller ? a.device : open(shape)) {}

  bool framed() const { return GetParam().wire == Wire::kPipe || GetParam().wire == Wire::kUdp; }

  Device open(const DeviceShape& shape = {}) {
    devices_.push_back(network.open(shape));
    return devices_.back();
  }

  Link connect(const QueuePairOptions& options = {}, const QueuePairAttributes& attributes = {}) {
    return connect(a, b, options, attributes);
  }
  static Link connect(const Node& one, const Node& other, const QueuePairOptions& options = {},
                      const QueuePairAttributes& attributes = {}) {
    Link link{one.create(options), other.create(options)};
    reconnect(link, attributes);
    return link;
  }
  /// Both queue pairs are in RESET.
  static void reconnect(Link& link, const QueuePairAttributes& attributes = {}) {
    const Endpoint end_a = link.a.endpoint(), end_b = link.b.endpoint();
    must(link.a.connect(end_b, attributes));
    must(link.b.connect(end_a, attributes));
  }

  /// Makes progress on every device: none may depend on its own program's polling alone.
  void pump() const {
    for (const Device& device : devices_) device.controller()->poll();
  }
  /// Long enough for anything that is under way without a time-out.
  void pump_a_while() const {
    for (int i = 0; i < 300; ++i) pump();
  }

  template <class Ready>
  bool wait_until(Ready ready) const {
    const auto deadline = Steady::now() + patience;
    for (int spins = 0; !ready(); ++spins) {
      pump();
      if (spins % 256 != 255) continue;
      if (Steady::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  Completion next(const CompletionQueue& cq) const {
    Completion completion;
    const bool came = wait_until([&] { return cq.poll(std::span(&completion, 1)) == 1; });
    if (!came) throw std::runtime_error("a completion did not come");
    return completion;
  }

  testing::AssertionResult is_quiet(const CompletionQueue& cq) const {
    pump_a_while();
    const auto extra = cq.poll();
    if (!extra) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "unexpected completion " << extra->wr_id << ": "
                                       << to_string(extra->op) << ", " << to_string(extra->status);
  }

  AsyncEvent next_event(const Node& node) const {
    std::optional<AsyncEvent> event;
    if (!wait_until([&] { return (event = node.device.next_event()).has_value(); })) {
      throw std::runtime_error("an event did not come");
    }
    return *event;
  }

  Network network;
  std::chrono::seconds patience = kPatience;

 private:
  std::vector<Device> devices_;

 protected:
  Node a, b;
};

}  // namespace weft::test
