#include <algorithm>
#include <atomic>
#include <thread>

#include "udp_fixture.h"

namespace weft::port {
namespace {

TEST(UdpPortThreads, send_through_sockets_that_open_on_first_use) {
  constexpr std::uint32_t kThreads = 6, kFrames = 200;
  const auto near = test::open_port();
  const auto far = test::open_port();
  ASSERT_TRUE(near != nullptr && far != nullptr);
  // Few enough in flight that the receiving socket's buffer holds them all.
  std::atomic<std::uint32_t> sent{0}, received{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      network::OutFrame frame;
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        while (sent.load() - received.load() > 32) std::this_thread::yield();
        sent.fetch_add(1);
        test::make_send(frame, t * kFrames + i);
        const Outgoing out{&frame, test::flow_to(far->address(), static_cast<std::uint16_t>(t))};
        EXPECT_EQ(near->send({&out, 1}).taken, 1u);
      }
    });
  }
  test::Collector collector;
  const auto deadline = test::steady_clock::now() + test::kPatience;
  while (collector.all() < kThreads * kFrames && test::steady_clock::now() < deadline) {
    far->receive(collector, 64);
    received.store(static_cast<std::uint32_t>(collector.all()));
  }
  received.store(kThreads * kFrames);
  for (auto& thread : threads) thread.join();

  ASSERT_EQ(collector.frames.size(), kThreads * kFrames);
  std::vector<bool> seen(kThreads * kFrames);
  for (const auto& frame : collector.frames) seen[test::psn_of(frame)] = true;
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), kThreads * kFrames);
}

}  // namespace
}  // namespace weft::port
