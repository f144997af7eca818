// Several ports on one address. That they are in one process makes no difference to the kernel.
#include "port/address_share.h"

#include <chrono>

#include "support/kernel_filters.h"
#include "udp_fixture.h"

namespace weft::port {
namespace {

using network::OutFrame;
using test::Bytes;
using test::Collector;

class SharedAddress : public testing::Test {
 protected:
  std::unique_ptr<UdpPort> join(std::optional<unsigned> slot = {}) {
    auto port = UdpPort::open(address, Sharing::kShared, slot);
    EXPECT_TRUE(port.has_value()) << (port ? "" : port.error().message);
    return port ? std::move(*port) : nullptr;
  }
  /// From somewhere else, to a number of the slot.
  void send_to_slot(unsigned slot, std::uint32_t psn, std::uint16_t source_port) {
    OutFrame frame;
    test::make_send(frame, psn);
    frame.headers.bth.dest_qp = Qpn((2 * host::kNumberSlots + slot) << 12 | 0x123);
    const Outgoing out{&frame, test::flow_to(address, source_port)};
    ASSERT_EQ(elsewhere->send({&out, 1}).taken, 1u);
  }
  /// Whatever has come to these ports: they are looked at until so many frames are there, which the
  /// kernel may take its time to deliver, and then some more.
  static std::vector<std::size_t> counts(std::span<const std::unique_ptr<UdpPort>> ports,
                                         std::size_t expected) {
    std::vector<Collector> collectors(ports.size());
    const auto all_there = [&] {
      std::size_t there = 0;
      for (const Collector& collector : collectors) there += collector.frames.size();
      return there >= expected;
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (int more = 0; more < 20 && std::chrono::steady_clock::now() < end;) {
      for (std::size_t i = 0; i < ports.size(); ++i) ports[i]->receive(collectors[i], 64);
      if (all_there()) ++more;
    }
    std::vector<std::size_t> out;
    for (const Collector& collector : collectors) {
      EXPECT_EQ(collector.bad_checksums + collector.malformed, 0u);
      out.push_back(collector.frames.size());
    }
    return out;
  }

  const Gid address = test::random_ipv4();
  const std::unique_ptr<UdpPort> elsewhere = test::open_port();
};

TEST_F(SharedAddress, gives_each_process_a_slot_in_order) {
  // B2.3
  std::vector<std::unique_ptr<UdpPort>> ports;
  for (unsigned i = 0; i < 5; ++i) {
    ports.push_back(join());
    EXPECT_EQ(ports.back()->number_slot(), i);
  }
  EXPECT_FALSE(elsewhere->number_slot().has_value()) << "it has its address for itself";
}

TEST_F(SharedAddress, lets_the_kernel_find_the_process_of_a_number) {
  // B2.3
  WEFT_NEEDS_KERNEL_FILTERS();
  std::vector<std::unique_ptr<UdpPort>> ports;
  for (int i = 0; i < 3; ++i) ports.push_back(join());
  for (std::uint16_t i = 0; i < 60; ++i) {
    send_to_slot(i % 3, i, static_cast<std::uint16_t>(0xC000 + i));
  }
  // One after the other: nobody has looked yet who could hand anything over to the first, and it
  // has nothing for the others.
  for (const auto& port : ports) EXPECT_EQ(counts({&port, 1}, 20), std::vector<std::size_t>{20});
}

TEST_F(SharedAddress, loses_nothing_when_a_process_has_left_and_the_order_is_another) {
  // B2.3
  std::vector<std::unique_ptr<UdpPort>> ports;
  for (int i = 0; i < 4; ++i) ports.push_back(join());
  ports.erase(ports.begin());  // the last one moves to the first place
  for (std::uint16_t i = 0; i < 90; ++i) {
    send_to_slot(1 + i % 3, i, static_cast<std::uint16_t>(0xC000 + i));
  }
  EXPECT_EQ(counts(ports, 90), (std::vector<std::size_t>{30, 30, 30}));
  const auto again = join();
  EXPECT_NE(again->number_slot(), 1u);
  EXPECT_NE(again->number_slot(), 2u);
  EXPECT_NE(again->number_slot(), 3u);
}

TEST_F(SharedAddress, hands_up_a_frame_for_a_slot_that_nobody_has) {
  const auto port = join();
  send_to_slot(9, 0, 0xC000);
  Collector collector;
  test::receive(*port, collector, 1);
  EXPECT_EQ(collector.frames.size(), 1u) << "so that it is counted as one for nobody";
}

TEST_F(SharedAddress, does_not_give_a_slot_twice) {
  const auto first = join(7);
  EXPECT_EQ(first->number_slot(), 7u);
  const auto second = UdpPort::open(address, Sharing::kShared, 7);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::kBusy);
}

TEST_F(SharedAddress, is_refused_when_somebody_has_it_alone) {
  const auto alone = UdpPort::open(address);
  ASSERT_TRUE(alone.has_value());
  const auto second = UdpPort::open(address, Sharing::kShared);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::kBusy);
  EXPECT_NE(second.error().message.find("use another address"), std::string::npos);
}

TEST_F(SharedAddress, ignores_what_is_no_forwarded_frame) {
  const auto port = join();
  const auto caller = host::LocalSocket::connect("weft-port/" + network::to_string(address) + "/0");
  ASSERT_TRUE(caller);
  base::SeededRandom random(9);
  for (std::size_t bytes = 1; bytes < 200; ++bytes) {
    Bytes junk(bytes);
    random.fill(junk);
    ASSERT_TRUE(caller->send(junk, {}));
    Collector collector;
    for (int k = 0; k < 8; ++k) port->receive(collector, 8);
    EXPECT_TRUE(collector.frames.empty()) << bytes;
  }
}

}  // namespace
}  // namespace weft::port
