#include "verbs/management.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "network/address.h"
#include "verbs/controller.h"
#include "weft/verbs.h"

namespace weft::verbs {
namespace {

struct Remembered {
  Gid source, destination;
  std::vector<std::byte> bytes;
};

class RememberingSink final : public ManagementSink {
 public:
  static RememberingSink& the() {
    static auto& sink = *new RememberingSink;
    set_management_sink(sink);
    return sink;
  }
  void on_datagram(Controller&, const ManagementDatagram& datagram) override {
    const std::lock_guard guard(mutex_);
    all_.push_back(
        {datagram.source, datagram.destination, {datagram.bytes.begin(), datagram.bytes.end()}});
  }
  std::vector<Remembered> take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(all_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Remembered> all_;
};

Device on_loopback_network() {
  for (;;) {
    const auto draw = base::system_random().draw<std::array<std::uint8_t, 3>>();
    DeviceOptions options;
    options.ports.push_back(
        {.address = network::to_string(Gid::ipv4(127, static_cast<std::uint8_t>(draw[0] | 2),
                                                 draw[1], static_cast<std::uint8_t>(draw[2] | 2))),
         .on_network = true});
    if (auto device = Device::open(options)) return std::move(*device);
  }
}

TEST(Management, datagrams_reach_the_sink_of_the_other_device) {
  auto& sink = RememberingSink::the();
  const Device here = on_loopback_network(), there = on_loopback_network();
  std::array<std::byte, kManagementBytes> bytes{};
  base::system_random().fill(bytes);
  std::vector<Remembered> got;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  // A datagram may be lost.
  while (got.empty() && std::chrono::steady_clock::now() < until) {
    EXPECT_TRUE(here.controller()->send_management(here.address(), there.address(), bytes));
    for (int i = 0; i < 1000 && got.empty(); ++i) {
      there.controller()->poll();
      got = sink.take();
    }
  }
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(got.front().source, here.address());
  EXPECT_EQ(got.front().destination, there.address());
  EXPECT_TRUE(std::ranges::equal(got.front().bytes, bytes));
}

TEST(Management, leaves_only_from_an_address_that_is_on_the_network) {
  const Device network = on_loopback_network(), alone = Device::open({}).value();
  const std::array<std::byte, kManagementBytes> bytes{};
  EXPECT_FALSE(alone.controller()->send_management(alone.address(), network.address(), bytes));
  EXPECT_FALSE(network.controller()->send_management(alone.address(), network.address(), bytes));
}

TEST(Management, frames_that_are_no_such_datagrams_are_counted_and_dropped) {
  auto& sink = RememberingSink::the();
  sink.take();
  const Device device = on_loopback_network();
  Controller& controller = *device.controller();
  const std::array<std::byte, kManagementBytes> bytes{};
  wire::Packet good;
  good.bth.opcode = wire::Opcode::kUdSendOnly;
  good.deth.qkey = QKey(0x8001'0000);
  good.payload = bytes;
  wire::Packet other_service = good, other_partition = good, other_key = good, too_short = good;
  other_service.bth.opcode = wire::Opcode::kRcSendOnly;
  other_partition.bth.pkey = PKey(0x1234);
  other_key.deth.qkey = QKey(1);
  too_short.payload = std::span(bytes).first(100);
  const std::pair<const wire::Packet*, obs::Counter> cases[] = {
      {&other_service, obs::Counter::kWrongService},
      {&other_partition, obs::Counter::kBadPartition},
      {&other_key, obs::Counter::kBadQKey},
      {&too_short, obs::Counter::kMalformedFrames}};
  for (const auto& [packet, counter] : cases) {
    const auto before = controller.counters().get(counter);
    EXPECT_TRUE(controller.on_management(*packet, {}));
    EXPECT_EQ(controller.counters().get(counter), before + 1);
  }
  EXPECT_TRUE(sink.take().empty());
  EXPECT_TRUE(controller.on_management(good, {}));
  EXPECT_EQ(sink.take().size(), 1u);
}

}  // namespace
}  // namespace weft::verbs
