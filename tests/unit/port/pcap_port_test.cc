// What a recording port puts into its file: the packets of the wire, both ways.
#include "port/pcap_port.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "support/capture_reader.h"
#include "support/pipe_port.h"
#include "udp_fixture.h"

namespace weft::port {
namespace {

using test::Bytes;
using test::Collector;

class PcapPortTest : public testing::Test {
 protected:
  ~PcapPortTest() override {
    for (const std::string& path : paths_) std::remove(path.c_str());
  }
  std::string path(const std::string& name) {
    paths_.push_back(testing::TempDir() + "weft_pcap_port_" + std::to_string(getpid()) + name);
    return paths_.back();
  }
  static std::unique_ptr<PcapPort> record(std::unique_ptr<Port> inner, const std::string& file) {
    return std::make_unique<PcapPort>(std::move(inner), PcapWriter::open(file).value());
  }

 private:
  std::vector<std::string> paths_;
};

void expect_good(const std::vector<weft::test::Frame>& frames) {
  for (const auto& frame : frames) EXPECT_TRUE(wire::check_datagram(frame).has_value());
}

void send_some(Port& port, const Gid& to, std::span<std::byte> payload) {
  const std::uint16_t source_ports[] = {0xC000, 0xC001, 0xC002};
  for (std::uint32_t psn = 0; psn < 3; ++psn) {
    network::OutFrame frame;
    const std::span<std::byte> pieces[] = {payload.first(psn * 101), payload.last(7)};
    test::make_send(frame, psn, pieces);
    network::Flow flow = test::flow_to(to, source_ports[psn]);
    flow.source = port.address();
    if (psn == 1) flow.traffic_class = 0x28, flow.hop_limit = 0;
    const Outgoing out{&frame, flow};
    ASSERT_EQ(port.send({&out, 1}).taken, 1u);
  }
}

void exchange_over_udp(bool ipv4, const std::string& sent_path, const std::string& got_path,
                       std::unique_ptr<PcapPort> (*record)(std::unique_ptr<Port>,
                                                           const std::string&)) {
  // IPv6 has one loopback address, so there the port sends to itself.
  std::unique_ptr<Port> receiver = record(test::open_port(ipv4), got_path);
  std::unique_ptr<Port> sender;
  if (ipv4) sender = record(test::open_port(ipv4), sent_path);
  Bytes payload = test::random_bytes(500, 3);
  send_some(sender ? *sender : *receiver, receiver->address(), payload);
  Collector got;
  const auto deadline = test::steady_clock::now() + test::kPatience;
  while (got.all() < 3 && test::steady_clock::now() < deadline) receiver->receive(got, 64);
  EXPECT_EQ(got.frames.size(), 3u);
}

TEST_F(PcapPortTest, records_the_same_bytes_at_both_ends_of_a_udp_wire) {
  const std::string sent_path = path("sent"), got_path = path("got");
  exchange_over_udp(true, sent_path, got_path, record);
  const auto sent = weft::test::read_capture(sent_path), got = weft::test::read_capture(got_path);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent, got);
  expect_good(sent);
}

TEST_F(PcapPortTest, records_ipv6_too) {
  if (!test::ipv6_available()) GTEST_SKIP() << "this machine has no IPv6";
  const std::string file = path("v6");
  exchange_over_udp(false, "", file, record);
  const auto frames = weft::test::read_capture(file);
  ASSERT_EQ(frames.size(), 6u);  // sent and received
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(frames[i], frames[i + 3]);
  expect_good(frames);
}

TEST_F(PcapPortTest, has_every_frame_in_the_file_while_it_is_open) {
  weft::test::PipeHub hub;
  const Gid here = Gid::ipv4(10, 0, 0, 1);
  const std::string file = path("open");
  const auto port = record(hub.make_port(here), file);
  Bytes payload = test::random_bytes(500, 3);
  send_some(*port, here, payload);
  EXPECT_EQ(weft::test::read_capture(file).size(), 3u);
  Collector got;
  EXPECT_EQ(port->receive(got, 64), 3u);
  EXPECT_EQ(weft::test::read_capture(file).size(), 6u);
}

TEST_F(PcapPortTest, stamps_frames_with_its_clock) {
  weft::test::PipeHub hub;
  const Gid here = Gid::ipv4(10, 0, 0, 1);
  const std::string file = path("time");
  PcapPort port(hub.make_port(here), PcapWriter::open(file).value(),
                [] { return Nanoseconds{5'000'000'006}; });
  Bytes payload = test::random_bytes(500, 3);
  send_some(port, here, payload);
  std::FILE* opened = std::fopen(file.c_str(), "rb");
  std::array<std::uint32_t, 8> words{};
  EXPECT_EQ(std::fread(words.data(), 4, words.size(), opened), words.size());
  std::fclose(opened);
  EXPECT_EQ(words[6], 5u);
  EXPECT_EQ(words[7], 6u);
  const Nanoseconds now = PcapPort::system_time();
  EXPECT_NEAR(static_cast<double>(now) / 1e9, static_cast<double>(time(nullptr)), 2.0);
}

TEST_F(PcapPortTest, leaves_out_a_frame_whose_payload_has_vanished) {
  weft::test::PipeHub hub;
  const Gid here = Gid::ipv4(10, 0, 0, 1);
  const std::string file = path("gone");
  const auto port = record(hub.make_port(here), file);
  void* memory = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> gone(static_cast<std::byte*>(memory), 64);
  Bytes there = test::random_bytes(64, 3);
  const std::span<std::byte> pieces[] = {there, gone, there};
  std::array<network::OutFrame, 3> frames;
  std::vector<Outgoing> out;
  for (std::uint32_t i = 0; i < frames.size(); ++i) {
    test::make_send(frames[i], i, {&pieces[i], 1});
    out.push_back({&frames[i], test::flow_to(here)});
    out.back().flow.source = here;
  }
  const SendOutcome outcome = port->send(out);
  munmap(memory, 4096);
  EXPECT_EQ(outcome.status, SendStatus::kFaulted);
  EXPECT_EQ(weft::test::read_capture(file).size(), outcome.taken);
}

}  // namespace
}  // namespace weft::port
