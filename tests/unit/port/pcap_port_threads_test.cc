// A recording port under several threads: no record is torn, none is missing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "port/pcap_port.h"
#include "support/capture_reader.h"
#include "support/pipe_port.h"
#include "udp_fixture.h"

namespace weft::port {
namespace {

constexpr std::uint32_t kSenders = 3, kPerThread = 100;

TEST(PcapPortThreads, several_send_and_one_receives) {
  weft::test::PipeHub hub;
  const Gid here = Gid::ipv4(10, 0, 0, 1);
  const std::string path = testing::TempDir() + "weft_pcap_threads_" + std::to_string(getpid());
  {
    PcapPort port(hub.make_port(here), PcapWriter::open(path).value());
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < kSenders; ++t) {
      threads.emplace_back([&port, here, t] {
        test::Bytes payload = test::random_bytes(500, t);
        const std::span<std::byte> piece(payload);
        for (std::uint32_t i = 0; i < kPerThread; ++i) {
          network::OutFrame frame;
          test::make_send(frame, i, {&piece, 1});
          Outgoing out{&frame, test::flow_to(here)};
          out.flow.source = here;
          EXPECT_EQ(port.send({&out, 1}).taken, 1u);
        }
      });
    }
    test::Collector got;
    const auto deadline = test::steady_clock::now() + test::kPatience;
    while (got.all() < kSenders * kPerThread && test::steady_clock::now() < deadline) {
      port.receive(got, 64);
    }
    for (auto& thread : threads) thread.join();
  }
  const auto frames = weft::test::read_capture(path);
  EXPECT_EQ(frames.size(), 2u * kSenders * kPerThread);
  for (const auto& frame : frames) EXPECT_TRUE(wire::check_datagram(frame).has_value());
  std::remove(path.c_str());
}

}  // namespace
}  // namespace weft::port
