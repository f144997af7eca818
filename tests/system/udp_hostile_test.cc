// Anybody can send UDP to the port: a million packets of random bytes and a million that are almost
// right (fewer on a busy machine) arrive while a real stream goes on. Nothing of it changes
// anything; all of it is counted.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/udp_kit.h"

#include "base/random.h"
#include "network/address.h"
#include "network/roce.h"
#include "obs/counters.h"
#include "verbs/controller.h"
#include "wire/packet.h"

namespace {

using weft::test::loopback;

namespace v = weft::verbs;
using weft::Access;
using weft::obs::Counter;
using Bytes = std::vector<std::byte>;
using namespace std::chrono_literals;

constexpr std::size_t kMessageBytes = 64 << 10;
constexpr std::size_t kRunPackets = 40, kRunsOfEachSort = 1'000'000 / kRunPackets;
/// A busy machine or a sanitizer sends fewer of them in the time that there is, but no fewer than
/// this.
constexpr std::size_t kFewestRuns = 500;
#if defined(__SANITIZE_ADDRESS__)
constexpr auto kTimeOfEachSort = 20s;
#else
constexpr auto kTimeOfEachSort = 60s;
#endif

struct StreamSide {
  explicit StreamSide(const std::string& address)
      : device(weft::test::open_framed(address)),
        pd(device.allocate_pd().value()),
        cq(device.create_cq(256).value()),
        memory(kMessageBytes + 4096),
        region(pd.register_memory(memory, Access::kLocalWrite | Access::kRemoteWrite).value()),
        qp(pd.create_queue_pair(cq, cq, {.signal_all = true}).value()) {}

  std::uint64_t counted(Counter c) const { return device.controller()->counters().get(c); }

  v::Device device;
  v::ProtectionDomain pd;
  v::CompletionQueue cq;
  Bytes memory;
  v::MemoryRegion region;
  v::QueuePair qp;
};

/// A plain socket that sends what it likes; runs of equal packets in one call.
class Attacker {
 public:
  Attacker(const std::string& from, const std::string& to) : to_(address(to, 4791)) {
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int never_fragment = IP_PMTUDISC_DO;
    setsockopt(fd_, IPPROTO_IP, IP_MTU_DISCOVER, &never_fragment, sizeof never_fragment);
    sockaddr_in own = address(from, 0);
    EXPECT_EQ(bind(fd_, generic(own), sizeof own), 0);
    socklen_t size = sizeof own;
    getsockname(fd_, const_cast<sockaddr*>(generic(own)), &size);
    flow.source = weft::network::parse_address(from).value();
    flow.destination = weft::network::parse_address(to).value();
    flow.source_port = ntohs(own.sin_port);
  }
  ~Attacker() { close(fd_); }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  void send_run(const Bytes& packets, std::size_t each) const {
    const int segment = static_cast<int>(each);
    setsockopt(fd_, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
    sendto(fd_, packets.data(), packets.size(), 0, generic(to_), sizeof to_);
  }

  weft::network::Flow flow;

 private:
  static sockaddr_in address(const std::string& text, std::uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    inet_pton(AF_INET, text.c_str(), &out.sin_addr);
    return out;
  }
  static const sockaddr* generic(const sockaddr_in& in) {
    const void* const any = &in;
    return static_cast<const sockaddr*>(any);
  }
  const sockaddr_in to_;
  int fd_;
};

/// The frame that a sender at the flow's source would write as the `place`-th of a run.
void append_frame(Bytes& out, const weft::network::Flow& flow, const weft::wire::Packet& packet,
                  std::uint16_t place) {
  const std::size_t at = out.size();
  out.resize(at + 512);
  const std::size_t size = weft::wire::emit_packet(packet, std::span(out).subspan(at));
  out.resize(at + size + weft::wire::kIcrcSize);
  auto icrc = weft::network::icrc_prefix(flow).start(
      static_cast<std::uint16_t>(weft::wire::Udp::kSize + size + weft::wire::kIcrcSize), place);
  icrc.add_first(std::span(out).subspan(at, size))
      .store(std::span(out).last<weft::wire::kIcrcSize>());
}

struct Wrong {
  const char* what;
  Counter counted_as;
  bool from_peer;  ///< the address is the true one
  void (*spoil)(weft::wire::Packet&);
};
const std::array<Wrong, 8> kWrongs{{
    {"unknown number", Counter::kUnknownQueuePairs, true,
     [](weft::wire::Packet& p) { p.bth.dest_qp.value ^= 0x555; }},
    {"wrong address", Counter::kWrongSource, false, [](weft::wire::Packet&) {}},
    {"other service", Counter::kWrongService, true,
     [](weft::wire::Packet& p) { p.bth.opcode = weft::wire::Opcode::kUcSendOnly; }},
    {"other partition", Counter::kBadPartition, true,
     [](weft::wire::Packet& p) { p.bth.pkey = weft::PKey(0x1234); }},
    {"other version", Counter::kMalformedFrames, true,
     [](weft::wire::Packet& p) { p.bth.transport_version = 3; }},
    {"acknowledges nothing", Counter::kStaleAcknowledgements, true,
     [](weft::wire::Packet& p) {
       p.bth.opcode = weft::wire::Opcode::kRcAcknowledge;
       p.payload = {};
     }},
    {"came before", Counter::kDuplicates, true,
     [](weft::wire::Packet& p) { p.bth.psn = p.bth.psn - 5'000'000; }},
    {"changed on the way", Counter::kBadChecksums, true, [](weft::wire::Packet&) {}},
}};

TEST(HostilePackets, change_nothing_are_counted_by_kind_and_leave_a_stream_at_work) {
  // B2.3 B2.6
  StreamSide a(loopback(1)), b(loopback(2));
  ASSERT_TRUE(a.qp.connect(b.qp.endpoint()) && b.qp.connect(a.qp.endpoint()));
  for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<std::byte>(i * 7);
  std::fill(b.memory.begin(), b.memory.end(), std::byte{0x5A});

  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> carried{0};
  std::thread stream([&] {
    const weft::Sge from = a.region.sge(0, kMessageBytes);
    std::uint64_t posted = 0;
    while (!over.load() || posted > carried.load()) {
      for (; !over.load() && posted - carried.load() < 4; ++posted) {
        ASSERT_TRUE(a.qp.post_write(from, b.region.remote()));
      }
      if (const auto done = a.cq.poll()) {
        ASSERT_TRUE(done->ok()) << to_string(done->status);
        carried.fetch_add(1);
      }
    }
  });
  std::thread poller([&] {
    while (!over.load()) b.cq.poll();
  });

  const Attacker stranger(loopback(3), loopback(2)), next_door(loopback(1), loopback(2));
  weft::base::SeededRandom random(11);
  const auto handled = [&] {
    std::uint64_t sum = 0;
    for (const Counter c :
         {Counter::kMalformedFrames, Counter::kBadChecksums, Counter::kUnknownQueuePairs,
          Counter::kWrongSource, Counter::kWrongService, Counter::kBadPartition,
          Counter::kStaleAcknowledgements, Counter::kDuplicates}) {
      sum += b.counted(c);
    }
    return sum;
  };
  std::uint64_t sent = 0, lost = 0;
  // Never more under way than a receive buffer holds: what is not received is not tested. What the
  // kernel drops all the same is waited for once.
  const auto wait_until_handled = [&] {
    const auto deadline = std::chrono::steady_clock::now() + 1s;
    while (handled() + lost + 10 * kRunPackets < sent) {
      if (std::chrono::steady_clock::now() > deadline) lost = sent - handled();
      std::this_thread::yield();
    }
  };
  const auto goes_on = [](std::size_t run, std::chrono::steady_clock::time_point begin) {
    return run < kFewestRuns ||
           (run < kRunsOfEachSort && std::chrono::steady_clock::now() < begin + kTimeOfEachSort);
  };
  auto begin = std::chrono::steady_clock::now();
  for (std::size_t run = 0; goes_on(run, begin); ++run) {
    const std::size_t each = 1 + random.below(200);
    Bytes junk(each * kRunPackets);
    random.fill(junk);
    stranger.send_run(junk, each);
    sent += kRunPackets;
    wait_until_handled();
  }
  const std::uint64_t after_junk = handled();
  EXPECT_GT(after_junk, sent * 9 / 10) << "each is counted";

  std::map<const Wrong*, std::uint64_t> sent_of;
  const weft::Psn psn = a.qp.endpoint().psn;
  begin = std::chrono::steady_clock::now();
  for (std::size_t run = 0; goes_on(run, begin); ++run) {
    const Wrong& wrong = kWrongs[run % kWrongs.size()];
    const Attacker& attacker = wrong.from_peer ? next_door : stranger;
    const Bytes payload(16, std::byte{0xEE});
    Bytes packets;
    std::size_t each = 0;
    for (std::uint16_t i = 0; i < kRunPackets; ++i) {
      weft::wire::Packet packet;
      packet.bth.opcode = weft::wire::Opcode::kRcSendOnly;
      packet.bth.dest_qp = b.qp.number();
      packet.bth.psn = psn;
      packet.payload = payload;
      wrong.spoil(packet);
      append_frame(packets, attacker.flow, packet, i);
      if (i == 0) each = packets.size();
      if (wrong.counted_as == Counter::kBadChecksums) {
        packets[packets.size() - 5 - random.below(8)] ^= std::byte{1};
      }
    }
    attacker.send_run(packets, each);
    sent += kRunPackets;
    sent_of[&wrong] += kRunPackets;
    wait_until_handled();
  }
  over = true;
  stream.join();
  poller.join();
  for (const auto& [wrong, count] : sent_of) {
    EXPECT_GT(b.counted(wrong->counted_as), count * 9 / 10) << wrong->what;
  }
  EXPECT_GT(carried.load(), 100u);
  EXPECT_EQ(a.qp.state(), weft::QpState::kReadyToSend);
  EXPECT_EQ(b.qp.state(), weft::QpState::kReadyToSend);
  EXPECT_EQ(std::memcmp(a.memory.data(), b.memory.data(), kMessageBytes), 0);
  for (std::size_t i = kMessageBytes; i < b.memory.size(); ++i) {
    ASSERT_EQ(b.memory[i], std::byte{0x5A}) << "beyond what the stream writes";
  }
}

TEST(HostilePackets, of_which_one_is_all_that_comes_do_not_keep_a_queue_pair_from_going) {
  // B2.3: nobody polls, so the helper takes it and sleeps again.
  StreamSide a(loopback(4)), b(loopback(5));
  ASSERT_TRUE(a.qp.connect(b.qp.endpoint()) && b.qp.connect(a.qp.endpoint()));
  const Attacker stranger(loopback(6), loopback(5));
  weft::wire::Packet packet;
  packet.bth.opcode = weft::wire::Opcode::kRcSendOnly;
  packet.bth.dest_qp = b.qp.number();
  packet.bth.transport_version = 3;
  Bytes datagram;
  append_frame(datagram, stranger.flow, packet, 0);
  stranger.send_run(datagram, datagram.size());
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (b.counted(Counter::kMalformedFrames) == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it did not come";
    std::this_thread::sleep_for(1ms);
  }
  std::this_thread::sleep_for(20ms);  // until the helper sleeps
  auto gone = std::async(std::launch::async, [&] { return b.qp.modify(weft::QpState::kReset); });
  if (gone.wait_for(20s) != std::future_status::ready) {
    std::fprintf(stderr, "the queue pair cannot be reset\n");
    std::abort();  // it would never end
  }
  EXPECT_TRUE(gone.get());
}

}  // namespace
