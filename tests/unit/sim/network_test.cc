// The simulated network and its ports: what is sent arrives, and each fault does what it says.
#include "sim/network.h"

#include "unit/sim/sim_fixture.h"
#include "wire/datagram.h"
#include "wire/packet.h"

namespace weft::sim {
namespace {

INSTANTIATE_TEST_SUITE_P(With, SimNetwork, testing::Values(Checksums::kAlways, Checksums::kOffload),
                         [](const auto& with) {
                           return with.param == Checksums::kAlways ? "every_icrc" : "offload";
                         });

TEST_P(SimNetwork, carries_a_frame_whole_and_after_a_delay) {
  network.set_delay(700, 700);
  const Nanoseconds begun = stage.now();
  send(7, 101);
  EXPECT_EQ(b->receive(inbound, 10), 0u) << "it arrived before its time";
  run_and_receive();
  ASSERT_EQ(inbound.packets.size(), 1u);
  EXPECT_EQ(stage.now(), begun + 700);
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(inbound.flows[0].source, kA);
  EXPECT_EQ(inbound.flows[0].destination, kB);
  const auto packet = wire::parse_packet(inbound.packets[0]);
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->bth.psn, Psn(7));
  EXPECT_EQ(std::vector(packet->payload.begin(), packet->payload.end()),
            std::vector(101, std::byte{7}));
}

TEST_P(SimNetwork, shows_real_packets_to_a_tap) {
  std::vector<std::byte> seen;
  network.set_tap([&](Nanoseconds, std::span<const std::byte> packet) {
    seen.assign(packet.begin(), packet.end());
  });
  send(1, 4096);
  EXPECT_TRUE(wire::check_datagram(seen).has_value()) << "no packet that a stranger would take";
  run_and_receive();
  EXPECT_EQ(inbound.packets.size(), 1u);
}

TEST_P(SimNetwork, finds_corruption_by_the_icrc) {
  Faults faults;
  faults.corrupt_ppm = 1'000'000;
  network.set_faults(faults);
  constexpr int kFrames = 500;
  for (std::uint32_t i = 0; i < kFrames; ++i) send(i, 200);
  run_and_receive();
  EXPECT_EQ(stage.stats.corrupted, static_cast<std::uint64_t>(kFrames));
  EXPECT_GT(inbound.bad_checksums, kFrames / 2);
  EXPECT_GT(inbound.malformed, 0) << "flips in length fields are found before the ICRC";
  // What gets through had its flips where routers may change bits: the payload is never touched.
  EXPECT_EQ(inbound.bad_checksums + inbound.malformed + static_cast<int>(inbound.packets.size()),
            kFrames);
  for (std::size_t i = 0; i < inbound.packets.size(); ++i) {
    const auto packet = wire::parse_packet(inbound.packets[i]).value();
    const auto number = static_cast<std::byte>(packet.bth.psn.value());
    EXPECT_EQ(std::vector(packet.payload.begin(), packet.payload.end()), std::vector(200, number));
  }
}

TEST_P(SimNetwork, loses_about_as_many_frames_as_it_should) {
  Faults faults;
  faults.loss_ppm = 250'000;
  network.set_faults(faults);
  for (std::uint32_t i = 0; i < 1000; ++i) send(i, 10);
  run_and_receive();
  EXPECT_EQ(inbound.packets.size() + stage.stats.lost, 1000u);
  EXPECT_NEAR(static_cast<double>(stage.stats.lost), 250, 60);
  EXPECT_EQ(network.pool().in_use(), 0u);
}

TEST_P(SimNetwork, repeats_frames) {
  Faults faults;
  faults.duplicate_ppm = 1'000'000;
  faults.jitter_ns = 100;
  network.set_faults(faults);
  send(1), send(2);
  run_and_receive();
  std::vector<std::uint32_t> all = numbers();
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<std::uint32_t>{1, 1, 2, 2}));
}

TEST_P(SimNetwork, keeps_the_order_unless_told_otherwise) {
  for (std::uint32_t i = 0; i < 100; ++i) send(i);
  run_and_receive();
  EXPECT_TRUE(std::ranges::is_sorted(numbers()));
  inbound.packets.clear();
  Faults faults;
  faults.jitter_ppm = 500'000;
  faults.jitter_ns = 10'000;
  network.set_faults(faults);
  for (std::uint32_t i = 0; i < 100; ++i) send(i);
  run_and_receive();
  EXPECT_EQ(inbound.packets.size(), 100u);
  EXPECT_FALSE(std::ranges::is_sorted(numbers()));
}

TEST_P(SimNetwork, lets_nothing_through_a_partition) {
  network.partition(0b10);
  send(1);
  run_and_receive();
  EXPECT_TRUE(inbound.packets.empty());
  EXPECT_EQ(stage.stats.cut, 1u);
  network.partition(0);
  send(2);
  run_and_receive();
  EXPECT_EQ(numbers(), (std::vector<std::uint32_t>{2}));
}

TEST_P(SimNetwork, drops_what_a_full_port_cannot_hold) {
  Faults faults;
  faults.inbox_frames = 3;
  network.set_faults(faults);
  for (std::uint32_t i = 0; i < 5; ++i) send(i);
  run_and_receive();
  EXPECT_EQ(numbers(), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(stage.stats.overflowed, 2u);
}

TEST_P(SimNetwork, finds_nobody_where_a_port_has_gone) {
  send(1);
  b.reset();
  run();
  send(2, 100, Gid::ipv4(10, 9, 9, 9));
  run();
  EXPECT_EQ(stage.stats.nobody, 2u);
  EXPECT_EQ(network.pool().in_use(), 0u);
}

TEST_P(SimNetwork, gives_frames_on_the_way_to_the_port_that_came_in_between) {
  send(1);
  b.reset();
  b = make_port(b_number, kB);
  run_and_receive();
  EXPECT_EQ(numbers(), (std::vector<std::uint32_t>{1}));
}

TEST_P(SimNetwork, takes_back_the_frames_of_a_port_that_goes) {
  send(1);
  run();
  EXPECT_EQ(network.pool().in_use(), 1u);
  b.reset();
  EXPECT_EQ(network.pool().in_use(), 0u);
}

TEST_P(SimNetwork, needs_no_more_frames_once_it_is_warm) {
  const auto burst = [this] {
    for (std::uint32_t i = 0; i < 300; ++i) send(i);
    run_and_receive();
    inbound.packets.clear();
  };
  burst();
  const std::size_t warm = network.pool().allocated();
  for (int i = 0; i < 10; ++i) burst();
  EXPECT_EQ(network.pool().allocated(), warm);
  EXPECT_EQ(network.pool().in_use(), 0u);
}

}  // namespace
}  // namespace weft::sim
