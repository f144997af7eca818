// Management datagrams over the sockets of two devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "mad/gsi.h"
#include "network/address.h"
#include "verbs/controller.h"
#include "verbs/process.h"
#include "weft/verbs.h"

namespace weft::verbs {
namespace {

struct Remembered {
  Gid source, destination;
  std::vector<std::byte> bytes;
};

class RememberingAgent final : public mad::Agent {
 public:
  static RememberingAgent& the() {
    static auto& agent = *new RememberingAgent;
    process_agents().set(mad::Class::kPerformance, agent);
    return agent;
  }
  void on_datagram(mad::Gsi&, const mad::Datagram& datagram) override {
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

TEST(Management, datagrams_reach_the_agent_of_the_other_device) {
  auto& agent = RememberingAgent::the();
  const Device here = on_loopback_network(), there = on_loopback_network();
  mad::Bytes bytes{};
  base::system_random().fill(bytes);
  mad::Header header;
  header.management_class = mad::Class::kPerformance;
  header.emit(std::span(bytes).first<mad::Header::kSize>());
  std::vector<Remembered> got;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  // A datagram may be lost.
  while (got.empty() && std::chrono::steady_clock::now() < until) {
    EXPECT_TRUE(here.controller()->gsi().send(here.address(), there.address(), bytes));
    for (int i = 0; i < 1000 && got.empty(); ++i) {
      there.controller()->poll();
      got = agent.take();
    }
  }
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(got.front().source, here.address());
  EXPECT_EQ(got.front().destination, there.address());
  EXPECT_TRUE(std::ranges::equal(got.front().bytes, bytes));
}

}  // namespace
}  // namespace weft::verbs
