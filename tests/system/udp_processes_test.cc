// Two processes, one loopback address each, RoCEv2 on UDP between them: the same state machines as
// in the simulation, walking over real sockets (B2.1, B2.3, B2.6).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "support/udp_kit.h"

namespace {

using weft::test::get;
using weft::test::loopback;
using weft::test::put;

namespace v = weft::verbs;
using weft::Access;
using namespace std::chrono_literals;

constexpr std::size_t kBytes = 1 << 20;
constexpr auto kPatience = 20s;
constexpr Access kAll =
    Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;

/// What the two tell each other before RDMA can begin.
struct Introduction {
  v::Endpoint connection;
  v::Endpoint datagrams;
  weft::RemoteAddress memory;
};

/// One process's device and everything on it.
struct Side {
  explicit Side(const std::string& address)
      : device(weft::test::open_framed(address)),
        pd(device.allocate_pd().value()),
        cq(device.create_cq(64).value()),
        memory(kBytes / 8),
        region(pd.register_memory(memory, kAll).value()),
        rc(pd.create_queue_pair(cq, cq).value()),
        ud(pd.create_queue_pair(cq, cq, {.service = weft::Service::kUnreliableDatagram}).value()) {}

  Introduction introduction() const {
    return {rc.endpoint(), {device.address(), ud.number(), weft::Psn()}, region.remote()};
  }
  bool connect(const Introduction& peer) {
    return rc.connect(peer.connection).has_value() && ud.activate(weft::QKey(0x1234)).has_value();
  }
  weft::Completion completion() {
    auto c = cq.wait(kPatience);
    if (!c) return {.status = weft::CompletionStatus::kBadResponse};
    return *c;
  }

  v::Device device;
  v::ProtectionDomain pd;
  v::CompletionQueue cq;
  std::vector<std::uint64_t> memory;
  v::MemoryRegion region;
  v::QueuePair rc;
  v::QueuePair ud;
};

/// Runs `child` in a process of its own; its status must be 0. The parent's part gets the other
/// end of the pair of sockets.
void in_two_processes(const std::function<int(int fd)>& child,
                      const std::function<void(int fd)>& parent) {
  std::array<int, 2> fds;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    close(fds[0]);
    _exit(child(fds[1]));
  }
  close(fds[1]);
  parent(fds[0]);
  close(fds[0]);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "child status " << status;
}

/// The passive side: gives its memory away, answers one message, then waits to be dismissed without
/// ever polling, so that its helper thread does all of the responder's work.
int serve(int fd) {
  Side side(loopback(2));
  Introduction peer;
  if (!put(fd, side.introduction()) || !get(fd, &peer) || !side.connect(peer)) return 1;
  if (!side.rc.post_receive(side.region.sge(kBytes / 2, kBytes / 4), 1)) return 2;
  if (!side.ud.post_receive(side.region.sge(kBytes / 2 + kBytes / 4, 4096), 2)) return 3;
  char ready = 1;
  if (!put(fd, ready)) return 4;
  // A message of many frames, and a datagram.
  for (int i = 0; i < 2; ++i) {
    const weft::Completion c = side.completion();
    if (!c.ok()) return 5;
    if (c.wr_id == 1 && (c.byte_count != kBytes / 4 || c.immediate != 77)) return 6;
    if (c.wr_id == 2 && (!c.has_grh || c.source_qp != peer.datagrams.qpn)) return 7;
  }
  char dismissed;
  return get(fd, &dismissed) ? 0 : 8;
}

TEST(UdpProcesses, send_write_read_atomic_and_datagram_cross_between_two_processes) {
  // B2.1 B2.3 B2.6
  in_two_processes(serve, [](int fd) {
    Side side(loopback(1));
    Introduction peer;
    ASSERT_TRUE(put(fd, side.introduction()) && get(fd, &peer));
    ASSERT_TRUE(side.connect(peer));
    char ready;
    ASSERT_TRUE(get(fd, &ready));
    std::iota(side.memory.begin(), side.memory.end(), 1u);

    const weft::Sge message = side.region.sge(0, kBytes / 4);
    weft::SendRequest send;
    send.op = weft::SendOp::kSendImmediate;
    send.immediate = 77;
    send.sges = {&message, 1};
    ASSERT_TRUE(side.rc.post_send(send));
    ASSERT_TRUE(side.completion().ok());

    const weft::Sge short_message = side.region.sge(0, 1000);
    weft::SendRequest datagram;
    datagram.sges = {&short_message, 1};
    datagram.destination.gid = peer.datagrams.gid;
    datagram.destination_qpn = peer.datagrams.qpn;
    datagram.destination_qkey = weft::QKey(0x1234);
    ASSERT_TRUE(side.ud.post_send(datagram));
    ASSERT_TRUE(side.completion().ok());

    // Memory semantics: the peer only sleeps in read(2) from here on.
    ASSERT_TRUE(side.rc.post_write(side.region.sge(0, kBytes / 4), peer.memory));
    ASSERT_TRUE(side.completion().ok());
    ASSERT_TRUE(side.rc.post_read(side.region.sge(kBytes / 2, kBytes / 4), peer.memory));
    ASSERT_TRUE(side.completion().ok());
    EXPECT_EQ(std::memcmp(side.memory.data(), side.memory.data() + kBytes / 16, kBytes / 4), 0);

    const weft::Sge old = side.region.sge(0, 8);
    weft::SendRequest add;
    add.op = weft::SendOp::kFetchAdd;
    add.sges = {&old, 1};
    add.remote = peer.memory;
    add.operand = 41;
    ASSERT_TRUE(side.rc.post_send(add));
    ASSERT_TRUE(side.completion().ok());
    EXPECT_EQ(side.memory[0], 1u);

    weft::RemoteAddress outside = peer.memory;
    outside.address += kBytes - 7;
    ASSERT_TRUE(side.rc.post_write(side.region.sge(0, 8), outside));
    EXPECT_EQ(side.completion().status, weft::CompletionStatus::kRemoteAccessError);
    EXPECT_TRUE(put(fd, 'x'));
  });
}

TEST(UdpProcesses, a_killed_peer_ends_in_retries_exceeded) {
  // B2.1
  in_two_processes(
      [](int fd) {
        Side side(loopback(2));
        Introduction peer;
        if (!put(fd, side.introduction()) || !get(fd, &peer) || !side.connect(peer)) return 1;
        return put(fd, 'x') ? 0 : 2;  // and gone
      },
      [](int fd) {
        Side side(loopback(1));
        Introduction peer;
        ASSERT_TRUE(put(fd, side.introduction()) && get(fd, &peer));
        weft::QueuePairAttributes impatient;
        impatient.timeout = 8;  // about a millisecond
        impatient.retry_count = 2;
        ASSERT_TRUE(side.rc.connect(peer.connection, impatient));
        char gone;
        ASSERT_TRUE(get(fd, &gone));
        EXPECT_EQ(read(fd, &gone, 1), 0);  // the end of the socket: the process has exited
        ASSERT_TRUE(side.rc.post_write(side.region.sge(0, 8), peer.memory, 1));
        ASSERT_TRUE(side.rc.post_write(side.region.sge(0, 8), peer.memory, 2));
        EXPECT_EQ(side.completion().status, weft::CompletionStatus::kRetryExceeded);
        EXPECT_EQ(side.completion().status, weft::CompletionStatus::kFlushed);
      });
}

}  // namespace
