// Several processes on one address: each has its own queue pairs, and what happens to one of them
// does not concern the others.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "support/kernel_filters.h"
#include "support/udp_kit.h"

namespace {

using weft::test::get;
using weft::test::loopback;
using weft::test::put;

namespace v = weft::verbs;
using weft::Access;
using namespace std::chrono_literals;

constexpr std::size_t kSharedBytes = 256 << 10;

struct SharingIntroduction {
  v::Endpoint endpoint;
  weft::RemoteAddress memory;
};

struct SharingSide {
  explicit SharingSide(const std::string& address)
      : device(weft::test::open_framed(address)),
        pd(device.allocate_pd().value()),
        cq(device.create_cq(64).value()),
        memory(kSharedBytes),
        region(pd.register_memory(memory, Access::kLocalWrite | Access::kRemoteWrite).value()),
        qp(pd.create_queue_pair(cq, cq).value()) {}
  SharingIntroduction introduction() const { return {qp.endpoint(), region.remote()}; }

  v::Device device;
  v::ProtectionDomain pd;
  v::CompletionQueue cq;
  std::vector<std::byte> memory;
  v::MemoryRegion region;
  v::QueuePair qp;
};

/// A process with a queue pair on the shared address, which then only waits.
class Server {
 public:
  Server() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(fds[0]);
      _exit(serve(fds[1]));
    }
    close(fds[1]);
    fd_ = fds[0];
  }
  ~Server() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(fd_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void signal(int number) const { kill(pid_, number); }
  SharingIntroduction meet(const SharingIntroduction& mine) const {
    SharingIntroduction theirs{};
    EXPECT_TRUE(put(fd_, mine) && get(fd_, &theirs));
    return theirs;
  }

 private:
  static int serve(int fd) {
    SharingSide side(loopback(9));
    SharingIntroduction peer;
    if (!get(fd, &peer) || !side.qp.connect(peer.endpoint)) return 1;
    if (!put(fd, side.introduction())) return 2;
    char dismissed;
    return get(fd, &dismissed) ? 0 : 3;
  }
  pid_t pid_ = -1;
  int fd_ = -1;
};

/// How many of `count` writes succeed.
int write_some(SharingSide& side, const weft::RemoteAddress& to, int count) {
  int done = 0;
  for (int i = 0; i < count; ++i) {
    if (!side.qp.post_write(side.region.sge(0, kSharedBytes), to)) break;
    const auto completion = side.cq.wait(20s);
    if (!completion || !completion->ok()) break;
    ++done;
  }
  return done;
}

TEST(SharedAddress, serves_each_process_and_a_stopped_one_disturbs_nobody) {
  // B2.3
  WEFT_NEEDS_KERNEL_FILTERS();
  const Server first, second, third;
  SharingSide to_first(loopback(1)), to_second(loopback(1)), to_third(loopback(2));
  const auto join = [](SharingSide& side, const Server& server) {
    const SharingIntroduction theirs = server.meet(side.introduction());
    EXPECT_TRUE(side.qp.connect(theirs.endpoint).has_value());
    return theirs;
  };
  const SharingIntroduction one = join(to_first, first), two = join(to_second, second),
                            three = join(to_third, third);
  EXPECT_EQ(one.endpoint.gid, two.endpoint.gid);
  EXPECT_EQ(write_some(to_first, one.memory, 5), 5);
  EXPECT_EQ(write_some(to_second, two.memory, 5), 5);
  EXPECT_EQ(write_some(to_third, three.memory, 5), 5);

  first.signal(SIGSTOP);
  EXPECT_EQ(write_some(to_second, two.memory, 50), 50);
  EXPECT_EQ(write_some(to_third, three.memory, 50), 50);
  first.signal(SIGCONT);
  EXPECT_EQ(write_some(to_first, one.memory, 5), 5);
}

TEST(SharedAddress, keeps_the_others_connected_when_a_process_dies) {
  // B2.3
  std::optional<Server> first;
  first.emplace();
  SharingSide to_first(loopback(1));
  const SharingIntroduction one = first->meet(to_first.introduction());
  ASSERT_TRUE(to_first.qp.connect(one.endpoint));
  const Server second, third;
  SharingSide to_second(loopback(2)), to_third(loopback(3));
  const SharingIntroduction two = second.meet(to_second.introduction());
  const SharingIntroduction three = third.meet(to_third.introduction());
  ASSERT_TRUE(to_second.qp.connect(two.endpoint) && to_third.qp.connect(three.endpoint));
  ASSERT_EQ(write_some(to_first, one.memory, 1), 1);
  first.reset();
  EXPECT_EQ(write_some(to_second, two.memory, 20), 20);
  EXPECT_EQ(write_some(to_third, three.memory, 20), 20);
}

}  // namespace
