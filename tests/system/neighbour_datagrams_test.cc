// Datagrams between processes of one host that have to wait: they carry what they were posted with,
// although the sender uses its buffer again before they have left, as it could on a device.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/neighbour_side.h"

namespace weft::test {
namespace {

constexpr QKey kDatagramKey{0x1234};
constexpr std::uint32_t kGrhBytes = 40;
constexpr std::uint32_t kMostDatagrams = 2048;

struct DatagramSide : Side {
  explicit DatagramSide(std::uint32_t bytes)
      : Side({.service = Service::kUnreliableDatagram,
              .limits = {.max_send_wr = kMostDatagrams, .max_recv_wr = kMostDatagrams}}),
        buffer(bytes),
        region(*pd.register_memory(buffer, Access::kLocalWrite)) {
    WEFT_REQUIRE(qp.activate(kDatagramKey));
  }
  std::vector<std::byte> buffer;
  verbs::MemoryRegion region;
};

/// Receives so many datagrams of `bytes` and tells how many, from the first on, were in order with
/// the right contents. Says where it is, and then waits: it is stopped there.
void run_receiver(const Wire& wire, std::uint32_t count, std::uint32_t bytes) {
  const std::uint32_t place = kGrhBytes + bytes;
  DatagramSide side(count * place);
  for (std::uint32_t i = 0; i < count; ++i) {
    WEFT_REQUIRE(side.qp.post_receive(side.region.sge(std::uint64_t{i} * place, place), i));
  }
  wire.put(side.qp.endpoint());
  std::uint32_t right = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto completion = side.cq.wait(30s);
    if (!completion || !completion->ok()) break;
    const std::span message(side.buffer.data() + completion->wr_id * place + kGrhBytes, bytes);
    if (right == i && is_filled(message, i)) ++right;
  }
  wire.put(right);
  wire.get<char>();
}

/// Sends them all from one buffer.
void send_all(DatagramSide& side, const verbs::Endpoint& to, std::uint32_t first,
              std::uint32_t count) {
  const Sge sge = side.region.sge();
  SendRequest request;
  request.sges = {&sge, 1};
  request.flags = SendFlags::kNone;
  request.destination.gid = to.gid;
  request.destination_qpn = to.qpn;
  request.destination_qkey = kDatagramKey;
  for (std::uint32_t i = first; i < first + count; ++i) {
    fill(side.buffer, i);
    WEFT_REQUIRE(side.qp.post_send(request));
  }
  fill(side.buffer, 99'999);
}

void stop_receiver(const Partner& partner) {
  partner.signal(SIGSTOP);
  const std::string stat = "/proc/" + std::to_string(partner.pid()) + "/stat";
  for (int i = 0; i < 10'000; ++i) {
    std::string line;
    std::getline(std::ifstream(stat), line);
    const auto at = line.rfind(')');
    if (at != std::string::npos && line.substr(at, 3) == ") T") return;
    std::this_thread::sleep_for(1ms);
  }
  FAIL() << "it does not stop";
}

void expect_all_right(Partner& receiver, Partner& sender, std::uint32_t count) {
  std::uint32_t right = 0;
  EXPECT_TRUE(receiver.wire().get(&right));
  EXPECT_EQ(right, count);
  receiver.wire().put('d');
  sender.wire().put('d');
  EXPECT_EQ(receiver.join(), 0);
  EXPECT_EQ(sender.join(), 0);
}

TEST(NeighbourDatagrams, to_one_that_has_not_answered_yet_keep_their_payload) {
  constexpr std::uint32_t kCount = 20, kBytes = 1500;
  Partner receiver([](const Wire& wire) { run_receiver(wire, kCount, kBytes); });
  const auto there = receiver.wire().get<verbs::Endpoint>();
  stop_receiver(receiver);
  Partner sender([](const Wire& wire) {
    DatagramSide side(kBytes);
    send_all(side, wire.get<verbs::Endpoint>(), 0, kCount);
    wire.put('s');
    wire.get<char>();
  });
  sender.wire().put(there);
  char said = 0;
  EXPECT_TRUE(sender.wire().get(&said));
  receiver.signal(SIGCONT);
  expect_all_right(receiver, sender, kCount);
}

TEST(NeighbourDatagrams, that_find_the_ring_full_keep_their_payload) {
  constexpr std::uint32_t kCount = 1400, kBytes = 1000;
  static_assert(kCount * kBytes > 1'048'576 && kCount < kMostDatagrams);
  Partner receiver([](const Wire& wire) { run_receiver(wire, kCount, kBytes); });
  const auto there = receiver.wire().get<verbs::Endpoint>();
  Partner sender([](const Wire& wire) {
    DatagramSide side(kBytes);
    const auto to = wire.get<verbs::Endpoint>();
    send_all(side, to, 0, 1);
    wire.sync();  // now it stands still
    send_all(side, to, 1, kCount - 1);
    wire.put('s');
    wire.get<char>();
  });
  sender.wire().put(there);
  sender.wire().get<char>();
  stop_receiver(receiver);
  sender.wire().put('x');
  char said = 0;
  EXPECT_TRUE(sender.wire().get(&said));
  receiver.signal(SIGCONT);
  expect_all_right(receiver, sender, kCount);
}

}  // namespace
}  // namespace weft::test
