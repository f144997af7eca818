// Another user on the host does its worst with names: it takes all of those that programs are about
// to need, thousands that look like members of their group, and lets go of them again. Multicasts
// arrive, addresses are opened and queue pairs connected as if it were not there (B1.1).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "network/address.h"
#include "support/name_taker.h"
#include "support/soak_time.h"
#include "support/udp_kit.h"
#include "weft/verbs.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using StressClock = std::chrono::steady_clock;

constexpr int kFakeMembers = 6000;
constexpr unsigned kBlocks = 4096, kSlots = 64;
constexpr QKey kGroupKey(0x77);
constexpr std::uint32_t kGrh = 40;
constexpr auto kHang = 30s;

std::string digits_of(const Gid& gid) {
  std::string text;
  char two[8];
  for (const std::uint8_t byte : gid.raw) {
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}
Gid gid_of(const std::string& text) { return network::parse_address(text).value(); }
Gid stress_group() {
  return Gid::ipv4(239, 77, static_cast<std::uint8_t>(test_process >> 8),
                   static_cast<std::uint8_t>(test_process));
}

std::string fake_member_name(int i) {
  char rest[64];
  std::snprintf(rest, sizeof rest, "/00000000000000000000ffff7e%06x/%03x", i, 1 + i % 4094);
  return "weft-mc/" + digits_of(stress_group()) + rest;
}
std::string block_name(const std::string& address, unsigned block) {
  char rest[8];
  std::snprintf(rest, sizeof rest, "/%03x", block);
  return "weft/" + digits_of(gid_of(address)) + rest;
}
std::string share_name(const std::string& address, const std::string& what) {
  return "weft-port/" + address + "/" + what;
}

/// What the processes of a test share.
struct Board {
  std::atomic<std::uint64_t> heard{0}, rounds{0}, opened{0}, connected{0};
  std::atomic<bool> end{false};
};

/// The other user: all that lasts, then names that come and go until the end.
void take_names(const Board& board) {
  for (int i = 0; i < kFakeMembers; ++i) {
    hold_name(fake_member_name(i), i % 3 == 0 ? NameHold::kBound : NameHold::kListening);
  }
  // All numbers of one address, for ever; the names of the other come and go.
  for (unsigned block = 0; block < kBlocks; ++block) {
    hold_name(block_name(loopback(1), block), NameHold::kFull);
  }
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int round = 0; !board.end; ++round) {
    std::vector<int> held;
    const NameHold how = static_cast<NameHold>(round % 3);
    held.push_back(hold_name(share_name(loopback(3), "join"), how));
    for (unsigned slot = 0; slot < kSlots; slot += 1 + static_cast<unsigned>(round) % 3) {
      held.push_back(hold_name(share_name(loopback(3), std::to_string(slot)), how));
    }
    for (int i = 0; i < 100; ++i) {
      held.push_back(hold_name(fake_member_name(kFakeMembers + i), NameHold::kListening));
    }
    std::this_thread::sleep_for(500us);
    for (const int fd : held) {
      if (fd >= 0) close(fd);
    }
  }
  _exit(0);
}

struct Datagrams {
  explicit Datagrams(const std::string& address)
      : device(verbs::Device::open({.ports = {{.address = address}}}).value()),
        pd(device.allocate_pd().value()),
        cq(device.create_cq(64).value()),
        memory(1024),
        region(pd.register_memory(memory, Access::kLocalWrite).value()),
        qp(pd.create_queue_pair(cq, cq, {.service = Service::kUnreliableDatagram}).value()) {
    WEFT_REQUIRE(qp.activate(kGroupKey));
  }

  verbs::Device device;
  verbs::ProtectionDomain pd;
  verbs::CompletionQueue cq;
  std::vector<std::uint64_t> memory;
  verbs::MemoryRegion region;
  verbs::QueuePair qp;
};

void hear(Board& board, const Wire& wire) {
  Datagrams member(loopback(1));
  const auto post = [&](std::uint64_t place) {
    WEFT_REQUIRE(member.qp.post_receive(member.region.sge(place * 64, 64), place));
  };
  for (std::uint64_t place = 0; place < 64; ++place) post(place);
  WEFT_REQUIRE(member.qp.attach_multicast(stress_group()));
  wire.put('m');
  while (!board.end) {
    const auto completion = member.cq.wait(20ms);
    if (!completion) continue;
    WEFT_REQUIRE(completion->ok() && completion->byte_count == kGrh + 8);
    const std::uint64_t number = member.memory[completion->wr_id * 8 + kGrh / 8];
    if (number > board.heard) board.heard = number;
    post(completion->wr_id);
  }
}

void say(Board& board, StressClock::time_point end) {
  Datagrams sender(loopback(2));
  const Sge from = sender.region.sge(0, 8);
  SendRequest request;
  request.sges = {&from, 1};
  request.flags = SendFlags::kSignaled;
  request.destination.gid = stress_group();
  request.destination_qpn = kMulticastQpn;
  request.destination_qkey = kGroupKey;
  do {  // once at least, however late it was let in
    const std::uint64_t number = ++board.rounds;
    const auto given_up = StressClock::now() + kHang;
    // Datagrams may be lost: while the member is not known yet, or behind.
    while (board.heard < number) {
      WEFT_REQUIRE(StressClock::now() < given_up);
      sender.memory[0] = number;
      WEFT_REQUIRE(sender.qp.post_send(request));
      const auto completion = sender.cq.wait(kHang);
      WEFT_REQUIRE(completion && completion->ok());
      for (int i = 0; i < 20 && board.heard < number; ++i) std::this_thread::sleep_for(1ms);
    }
  } while (StressClock::now() < end);
}

/// Two who share the address, again and again. Not as fast as they can: each open has several
/// filters made and freed, and kernels have been seen to hang where thousands are freed at once.
void open_addresses(Board& board, StressClock::time_point end) {
  do {
    const auto device =
        verbs::Device::open({.path = verbs::PathPolicy::kFramed,
                             .ports = {{.address = loopback(3), .on_network = true}}});
    if (!device) std::fprintf(stderr, "%s\n", device.error().message.c_str());
    WEFT_REQUIRE(device);
    ++board.opened;
    std::this_thread::sleep_for(50ms);
  } while (StressClock::now() < end);
}

class OtherUsersNames : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_be_two_users()) GTEST_SKIP() << "only root can be two users";
    void* const memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    board_ = new (memory) Board;
  }
  void TearDown() override {
    if (board_ != nullptr) munmap(board_, sizeof(Board));
  }
  int patience_ms() const {
    return static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(soak_ + 60s).count());
  }
  const std::chrono::nanoseconds soak_ = soak_time(1000ms);
  Board* board_ = nullptr;
};

TEST_F(OtherUsersNames, do_not_stop_multicasts) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  Board& board = *board_;
  const NameTaker taker([&] { take_names(board); });
  ASSERT_TRUE(taker.ready());
  const auto end = StressClock::now() + soak_;
  Partner member([&](const Wire& wire) { hear(board, wire); });
  char said = 0;
  ASSERT_TRUE(member.wire().get(&said));
  Partner sender([&](const Wire&) { say(board, end); });
  EXPECT_EQ(sender.join(patience_ms()), 0);
  board.end = true;
  EXPECT_EQ(member.join(), 0);
  EXPECT_GT(board.heard, 0u);
}

TEST_F(OtherUsersNames, do_not_stop_the_opening_of_addresses) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  Board& board = *board_;
  const NameTaker taker([&] { take_names(board); });
  ASSERT_TRUE(taker.ready());
  const auto end = StressClock::now() + soak_;
  Partner first([&](const Wire&) { open_addresses(board, end); });
  Partner second([&](const Wire&) { open_addresses(board, end); });
  for (Partner* each : {&first, &second}) EXPECT_EQ(each->join(patience_ms()), 0);
  board.end = true;
  EXPECT_GT(board.opened, 0u);
}

}  // namespace
}  // namespace weft::test
