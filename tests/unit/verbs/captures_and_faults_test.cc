// Devices with captures or faults: what the options bring about, inside one process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "network/address.h"
#include "obs/counters.h"
#include "port/udp_port.h"
#include "support/capture_reader.h"
#include "support/verbs_kit.h"
#include "verbs/controller.h"
#include "wire/datagram.h"

namespace weft::test {
namespace {

using std::chrono::milliseconds;
using verbs::DeviceOptions;
using verbs::PathPolicy;

constexpr Access kAll = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead;

/// A device, a connection's end, and memory.
struct Side {
  explicit Side(const DeviceOptions& options)
      : device(must(Device::open(options))),
        pd(must(device.allocate_pd())),
        cq(must(device.create_cq(256))),
        memory(64 * 1024),
        region(must(pd.register_memory(memory, kAll))),
        qp(must(pd.create_queue_pair(cq, cq))) {}

  std::uint64_t count(obs::Counter counter) const {
    return device.controller()->counters().get(counter);
  }
  bool on_loopback() const {
    const Gid address = device.address();
    return address.is_ipv4() && address.raw[12] == 127 && address.raw[13] != 0;
  }

  Device device;
  ProtectionDomain pd;
  CompletionQueue cq;
  std::vector<std::byte> memory;
  MemoryRegion region;
  QueuePair qp;
};

void connect(Side& a, Side& b, const QueuePairAttributes& attributes = {}) {
  must(a.qp.connect(b.qp.endpoint(), attributes));
  must(b.qp.connect(a.qp.endpoint(), attributes));
}

/// Writes all of a's memory to b's, in pieces.
void write_all(Side& a, Side& b, std::uint32_t piece) {
  for (std::uint32_t at = 0; at < a.memory.size(); at += piece) {
    must(a.qp.post_write(a.region.sge(at, piece), b.region.remote(at)));
    const auto done = a.cq.wait(kPatience);
    ASSERT_TRUE(done.has_value()) << "at " << at;
    ASSERT_TRUE(done->ok()) << to_string(done->status) << " at " << at;
  }
}

void fill(Side& side) {
  for (std::size_t i = 0; i < side.memory.size(); ++i) {
    side.memory[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
}

/// The next address, which is hardly ever taken.
std::string neighbour_of(const Side& side) {
  Gid address = side.device.address();
  address.raw[15] = static_cast<std::uint8_t>(address.raw[15] ^ 1);
  return network::to_string(address);
}

class CapturesAndFaults : public testing::Test {
 protected:
  ~CapturesAndFaults() override { std::remove(file().c_str()); }
  std::string name(const std::string& id) const { return testing::TempDir() + "weft_seen_" + id; }
  std::string file() const { return name(std::to_string(getpid())); }
};

TEST_F(CapturesAndFaults, framed_devices_get_addresses_of_their_own_and_send_frames) {
  Side a({.path = PathPolicy::kFramed}), b({.path = PathPolicy::kFramed});
  EXPECT_TRUE(a.on_loopback() && b.on_loopback());
  EXPECT_NE(a.device.address(), b.device.address());
  connect(a, b);
  fill(a);
  write_all(a, b, 16 * 1024);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_GE(a.count(obs::Counter::kFramesSent), 16u);
}

TEST_F(CapturesAndFaults, framed_and_automatic_devices_reach_each_other) {
  Side a({.path = PathPolicy::kFramed});
  Side b({.ports = {{neighbour_of(a), true}}});
  connect(a, b);
  fill(a);
  write_all(a, b, 16 * 1024);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_GE(a.count(obs::Counter::kFramesSent), 16u);
}

TEST_F(CapturesAndFaults, an_address_without_network_goes_on_the_network) {
  const Side other({.path = PathPolicy::kFramed});
  DeviceOptions options{.path = PathPolicy::kFramed, .ports = {{neighbour_of(other)}}};
  Side first(options);
  EXPECT_EQ(network::to_string(first.device.address()), options.ports[0].address);
  // Its UDP port is in use, for all that do not share.
  const auto second = port::UdpPort::open(first.device.address());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::kBusy);
  EXPECT_TRUE(Device::open(options).has_value()) << "devices share";
}

TEST_F(CapturesAndFaults, an_address_of_another_machine_is_refused_and_it_says_why) {
  const auto device =
      Device::open({.path = PathPolicy::kFramed, .ports = {{.address = "192.0.2.77"}}});
  ASSERT_FALSE(device.has_value());
  EXPECT_NE(device.error().message.find("192.0.2.77"), std::string::npos);
  EXPECT_NE(device.error().message.find("frames were asked for"), std::string::npos);
}

TEST_F(CapturesAndFaults, a_capture_has_every_frame_of_two_devices_sent_and_received) {
  std::uint64_t counted = 0;
  {
    Side a({.pcap = name("%p")}), b({.pcap = name("%p")});
    connect(a, b);
    fill(a);
    write_all(a, b, 16 * 1024);
    EXPECT_EQ(a.memory, b.memory);
    // The last acknowledgement may be on its way.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (a.count(obs::Counter::kFramesReceived) != b.count(obs::Counter::kFramesSent) &&
           std::chrono::steady_clock::now() < deadline) {
      a.cq.poll();
    }
    EXPECT_EQ(a.count(obs::Counter::kFramesReceived), b.count(obs::Counter::kFramesSent));
    counted = 2 * (a.count(obs::Counter::kFramesSent) + b.count(obs::Counter::kFramesSent));
  }
  const auto frames = read_capture(file());
  EXPECT_EQ(frames.size(), counted);
  for (const auto& frame : frames) EXPECT_TRUE(wire::check_datagram(frame).has_value());
  // A later device of the process goes on in the file.
  { Side c({.pcap = name("%p")}); }
  EXPECT_EQ(read_capture(file()).size(), counted);
}

TEST_F(CapturesAndFaults, a_capture_that_cannot_be_written_is_an_error) {
  const auto device = Device::open({.pcap = "/nonexistent/x"});
  ASSERT_FALSE(device.has_value());
  EXPECT_NE(device.error().message.find("/nonexistent/x"), std::string::npos);
  EXPECT_NE(device.error().message.find("WEFT_PCAP"), std::string::npos);
}

TEST_F(CapturesAndFaults, faults_are_survived_and_counted_and_their_seed_is_told) {
  testing::internal::CaptureStderr();
  const DeviceOptions options{.faults = "loss=4%,dup=4%,reorder=4%,corrupt=4%,delay=5us..50us",
                              .faults_seed = 11};
  Side a(options), b(options);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("loss=4%"), std::string::npos) << log;
  EXPECT_NE(log.find("WEFT_FAULTS_SEED=11"), std::string::npos) << log;
  QueuePairAttributes attributes;
  attributes.timeout = 10;  // 4 ms
  connect(a, b, attributes);
  fill(a);
  write_all(a, b, 4096);
  write_all(a, b, 512);
  EXPECT_EQ(a.memory, b.memory);
  const auto both = [&](obs::Counter counter) { return a.count(counter) + b.count(counter); };
  EXPECT_GT(both(obs::Counter::kBadChecksums), 0u);
  EXPECT_GT(both(obs::Counter::kDuplicates), 0u);
  EXPECT_GT(both(obs::Counter::kRetransmissions), 0u);
}

TEST_F(CapturesAndFaults, a_seed_that_nobody_chose_is_told_too) {
  testing::internal::CaptureStderr();
  { Side a({.faults = "loss=1%"}); }
  const std::string log = testing::internal::GetCapturedStderr();
  const std::size_t at = log.find("WEFT_FAULTS_SEED=");
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_NE(std::stoull(log.substr(at + 17)), 0u);
}

TEST_F(CapturesAndFaults, wrong_faults_are_an_error_that_names_the_option) {
  const auto device = Device::open({.faults = "loss=lots"});
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().message.find("faults: \"loss=lots\": "), 0u) << device.error().message;
}

TEST_F(CapturesAndFaults, frames_that_are_held_back_come_although_the_peer_never_polls) {
  const DeviceOptions late{.faults = "delay=2ms"};
  Side a(late), b(late);
  QueuePairAttributes attributes;
  attributes.timeout = 0;  // no retransmission comes to the rescue
  connect(a, b, attributes);
  fill(a);
  const auto begun = Steady::now();
  write_all(a, b, static_cast<std::uint32_t>(a.memory.size() / 4));
  EXPECT_EQ(a.memory, b.memory);
  // Four round trips of 4 ms; a helper that did not know of the delay would sleep for a second in
  // each of them.
  const auto took = Steady::now() - begun;
  EXPECT_GE(took, milliseconds(16));
  EXPECT_LT(took, milliseconds(3500));
}

}  // namespace
}  // namespace weft::test
