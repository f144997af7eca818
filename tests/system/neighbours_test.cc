// Two processes of one host: what one posts, the other gets. Same verbs, same completions as inside
// a process or on the wire.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "support/partner.h"
#include "weft/arena.h"
#include "weft/verbs.h"

namespace weft::verbs {
namespace {

using namespace std::chrono_literals;
using test::Partner;
using test::Wire;

constexpr Access kAll = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                        Access::kRemoteAtomic | Access::kWindowBind;

/// Everything for one connection, in one process.
struct Side {
  Side() : Side(QueuePairOptions{}) {}
  explicit Side(const QueuePairOptions& options)
      : device(*Device::open()),
        pd(*device.allocate_pd()),
        cq(*device.create_cq(1024)),
        qp(*pd.create_queue_pair(cq, cq, options)) {}

  void connect(const Wire& wire) {
    wire.put(qp.endpoint());
    const auto peer = wire.get<Endpoint>();
    const auto ok = qp.connect(peer);
    test::require(ok.has_value(), ok ? "" : ok.error().message.c_str());
    wire.sync();
  }
  Completion wait() {
    const auto completion = cq.wait(10s);
    test::require(completion.has_value(), "a completion in time");
    return *completion;
  }

  Device device;
  ProtectionDomain pd;
  CompletionQueue cq;
  QueuePair qp;
};

std::vector<std::byte> pattern(std::size_t n, unsigned seed) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) {
    bytes[i] = static_cast<std::byte>((i * 2654435761u + seed * 97u) >> 7);
  }
  return bytes;
}

TEST(Neighbours, exchange_a_message) {
  Partner partner([](const Wire& wire) {
    Side side;
    std::array<std::byte, 64> buffer{};
    auto region = side.pd.register_memory(buffer, kAll);
    WEFT_REQUIRE(region);
    side.connect(wire);
    WEFT_REQUIRE(side.qp.post_receive(region->sge(), 7));
    const Completion got = side.wait();
    WEFT_REQUIRE(got.ok() && got.op == CompletionOp::kReceive && got.wr_id == 7);
    WEFT_REQUIRE(got.byte_count == 13);
    WEFT_REQUIRE(std::memcmp(buffer.data(), "hello, world!", 13) == 0);
    wire.sync();
  });
  Side side;
  std::array<char, 14> text{"hello, world!"};
  auto region = side.pd.register_memory(text, kAll);
  ASSERT_TRUE(region);
  side.connect(partner.wire());
  ASSERT_TRUE(side.qp.post_send(region->sge(0, 13), 9));
  const Completion sent = side.wait();
  EXPECT_TRUE(sent.ok()) << to_string(sent.status);
  EXPECT_EQ(sent.wr_id, 9u);
  partner.wire().sync();
  EXPECT_EQ(partner.join(), 0);
}

class MemoryKind : public testing::TestWithParam<bool> {};

TEST_P(MemoryKind, is_written_read_and_changed_atomically) {
  static constexpr std::size_t kBytes = 1'000'003;
  const bool in_arena = GetParam();
  Partner partner([in_arena](const Wire& wire) {
    Side side;
    auto arena = *Arena::create(kBytes + 4096);
    std::vector<std::byte> heap(kBytes + 64);
    auto* memory = in_arena ? static_cast<std::byte*>(arena.allocate(kBytes + 64)) : heap.data();
    auto region = side.pd.register_memory(memory, kBytes + 64, kAll);
    WEFT_REQUIRE(region);
    side.connect(wire);
    wire.put(region->remote());
    wire.get<char>();
    WEFT_REQUIRE(std::memcmp(memory, pattern(kBytes, 5).data(), kBytes) == 0);
    std::uint64_t counter = 40;
    std::memcpy(memory, &counter, 8);
    wire.put('r');
    // Somebody must poll for what is done here.
    for (char done = 0; done != 'd';) {
      side.cq.poll();
      pollfd wait{wire.fd(), POLLIN, 0};
      if (::poll(&wait, 1, 0) == 1) done = wire.get<char>();
    }
    std::memcpy(&counter, memory, 8);
    WEFT_REQUIRE(counter == 100);
  });
  Side side;
  auto bytes = pattern(kBytes, 5);
  auto region = side.pd.register_memory(bytes, kAll);
  ASSERT_TRUE(region);
  side.connect(partner.wire());
  const auto remote = partner.wire().get<RemoteAddress>();
  ASSERT_TRUE(side.qp.post_write(region->sge(), remote, 1));
  const Completion wrote = side.wait();
  EXPECT_TRUE(wrote.ok()) << to_string(wrote.status);

  std::vector<std::byte> back(kBytes);
  auto back_region = side.pd.register_memory(back, kAll);
  ASSERT_TRUE(side.qp.post_read(back_region->sge(), remote, 2));
  EXPECT_TRUE(side.wait().ok());
  EXPECT_TRUE(back == bytes);
  partner.wire().put('w');
  partner.wire().get<char>();

  SendRequest add;
  add.op = SendOp::kFetchAdd;
  add.operand = 2;
  add.remote = remote;
  const Sge result = back_region->sge(0, 8);
  add.sges = {&result, 1};
  ASSERT_TRUE(side.qp.post_send(add));
  const Completion added = side.wait();
  EXPECT_TRUE(added.ok()) << to_string(added.status);
  std::uint64_t old = 0;
  std::memcpy(&old, back.data(), 8);
  EXPECT_EQ(old, 40u);
  SendRequest swap = add;
  swap.op = SendOp::kCompareSwap;
  swap.compare = 42;
  swap.operand = 99;
  ASSERT_TRUE(side.qp.post_send(swap));
  EXPECT_TRUE(side.wait().ok());
  std::memcpy(&old, back.data(), 8);
  EXPECT_EQ(old, 42u);
  SendRequest write;
  write.op = SendOp::kAtomicWrite;
  write.operand = 100;
  write.remote = remote;
  ASSERT_TRUE(side.qp.post_send(write));
  EXPECT_TRUE(side.wait().ok());
  partner.wire().put('d');
  EXPECT_EQ(partner.join(), 0);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, MemoryKind, testing::Values(false, true),
                         [](const auto& kind) { return kind.param ? "arena" : "heap"; });

}  // namespace
}  // namespace weft::verbs
