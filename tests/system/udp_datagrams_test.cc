// Reliable datagrams between real processes: one that is killed fails the work that is for it, and
// nothing else (B2.2).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <array>
#include <chrono>
#include <vector>

#include "support/udp_kit.h"

namespace {

using weft::test::get;
using weft::test::loopback;
using weft::test::put;
namespace v = weft::verbs;
using namespace std::chrono_literals;

constexpr weft::QKey kSharedKey{5};
constexpr auto kDatagramPatience = 30s;

/// A process's device and one queue pair on it.
struct Talker {
  explicit Talker(const std::string& address)
      : device(weft::test::open_framed(address)),
        pd(device.allocate_pd().value()),
        sends(device.create_cq(64).value()),
        receives(device.create_cq(64).value()),
        region(pd.register_memory(bytes, weft::Access::kLocalWrite).value()),
        qp(pd.create_queue_pair(sends, receives, {.service = weft::Service::kReliableDatagram})
               .value()) {
    weft::QueuePairAttributes attributes;
    attributes.timeout = 10;
    attributes.retry_count = 3;
    active = qp.activate(kSharedKey, attributes).has_value();
  }

  bool receive() { return qp.post_receive(region.sge(0, 8)).has_value(); }
  bool send(const v::Endpoint& to, std::uint64_t wr_id) {
    const weft::Sge sge = region.sge(8, 8);
    weft::SendRequest request{.wr_id = wr_id, .sges = {&sge, 1}};
    request.destination.gid = to.gid;
    request.destination_qpn = to.qpn;
    request.destination_qkey = kSharedKey;
    return qp.post_send(request).has_value();
  }

  std::array<std::byte, 16> bytes{};
  v::Device device;
  v::ProtectionDomain pd;
  v::CompletionQueue sends, receives;
  v::MemoryRegion region;
  v::QueuePair qp;
  bool active = false;
};

/// Receives for ever, and tells of each message.
int listen(int fd, int last) {
  Talker talker(loopback(last));
  for (int i = 0; i < 32; ++i) {
    if (!talker.receive()) return 1;
  }
  if (!talker.active || !put(fd, talker.qp.endpoint())) return 2;
  for (;;) {
    if (!talker.receives.wait(kDatagramPatience) || !put(fd, 'm')) return 3;
  }
}

struct Listener {
  explicit Listener(int last) {
    std::array<int, 2> fds;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) return;
    pid = fork();
    if (pid == 0) {
      close(fds[0]);
      _exit(listen(fds[1], last));
    }
    close(fds[1]);
    fd = fds[0];
  }
  ~Listener() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(fd);
  }
  bool hears() const {
    char said = 0;
    return get(fd, &said);
  }

  pid_t pid = -1;
  int fd = -1;
};

TEST(UdpDatagrams, a_killed_process_fails_the_work_that_is_for_it_and_no_other) {
  // B2.2
  const Listener first(1), second(2);
  v::Endpoint to_first, to_second;
  ASSERT_TRUE(get(first.fd, &to_first));
  ASSERT_TRUE(get(second.fd, &to_second));
  Talker talker(loopback(3));
  const auto result = [&] { return talker.sends.wait(kDatagramPatience).value(); };
  ASSERT_TRUE(talker.send(to_first, 1) && talker.send(to_second, 2));
  EXPECT_TRUE(result().ok());
  EXPECT_TRUE(result().ok());
  EXPECT_TRUE(first.hears() && second.hears());

  kill(first.pid, SIGKILL);
  ASSERT_TRUE(talker.send(to_first, 3) && talker.send(to_second, 4));
  EXPECT_TRUE(second.hears());
  const weft::Completion failed = result();
  EXPECT_EQ(failed.wr_id, 3u);
  EXPECT_EQ(failed.status, weft::CompletionStatus::kRetryExceeded);
  EXPECT_TRUE(result().ok());
  ASSERT_TRUE(talker.send(to_second, 5));
  EXPECT_TRUE(result().ok());
  EXPECT_TRUE(second.hears());
  EXPECT_EQ(talker.qp.state(), weft::QpState::kReadyToSend);
}

TEST(UdpDatagrams, a_process_that_is_stopped_for_a_while_hears_all_of_it_later) {
  const Listener listener(4);
  v::Endpoint to;
  ASSERT_TRUE(get(listener.fd, &to));
  Talker talker(loopback(5));
  ASSERT_TRUE(talker.send(to, 1));
  EXPECT_TRUE(talker.sends.wait(kDatagramPatience).value().ok());
  EXPECT_TRUE(listener.hears());
  kill(listener.pid, SIGSTOP);
  ASSERT_TRUE(talker.send(to, 2) && talker.send(to, 3));
  kill(listener.pid, SIGCONT);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(talker.sends.wait(kDatagramPatience).value().ok());
    EXPECT_TRUE(listener.hears());
  }
}

}  // namespace
