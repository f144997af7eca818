#include "host/local_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "unit/host/host_kit.h"

namespace weft::host {
namespace {

using test::bytes_of;
using test::Child;
using test::open_fds;
using test::Pair;
using test::unique_name;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMost = 256;
constexpr int kSoonMs = 2000;

/// A message of a peer who does not keep to LocalSocket's limits.
bool send_raw(int socket, std::size_t bytes, const std::vector<int>& fds) {
  const std::vector<std::byte> payload(bytes);
  std::vector<std::byte> control(CMSG_SPACE(fds.size() * sizeof(int)));
  iovec vector{const_cast<std::byte*>(payload.data()), payload.size()};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

Errc code_of_receive(const LocalSocket& socket, int timeout_ms = kSoonMs) {
  const auto message = socket.receive(kMost, timeout_ms);
  return message ? Errc::kQueueFull : message.error().code;  // kQueueFull: no error
}

TEST(LocalSocket, carries_messages_with_their_boundaries_both_ways) {
  Pair pair;
  ASSERT_TRUE(pair.there.send(bytes_of("one"), {}));
  ASSERT_TRUE(pair.there.send(bytes_of("twice"), {}));
  ASSERT_TRUE(pair.here.send(bytes_of("back"), {}));
  EXPECT_EQ(pair.here.receive(kMost, 0)->bytes.size(), 3U);
  const auto second = pair.here.receive(5, 0).value();
  EXPECT_EQ(std::memcmp(second.bytes.data(), "twice", 5), 0);
  EXPECT_EQ(second.bytes.size(), 5U);
  EXPECT_TRUE(second.fds.empty());
  EXPECT_EQ(pair.there.receive(kMost, 0)->bytes.size(), 4U);
}

TEST(LocalSocket, carries_descriptors_that_exec_closes) {
  Pair pair;
  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(pipe(pipe_fds.data()), 0);
  const Fd reading(pipe_fds[0]);
  const Fd writing(pipe_fds[1]);
  const std::vector<int> fds(kMaxMessageFds, writing.get());
  ASSERT_TRUE(pair.there.send(bytes_of("x"), fds));
  const auto message = pair.here.receive(kMost, 0).value();
  ASSERT_EQ(message.fds.size(), kMaxMessageFds);
  for (const StrangeFd& fd : message.fds) {
    EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
    char letter = 0;
    ASSERT_EQ(write(fd.get(), "y", 1), 1);
    ASSERT_EQ(read(reading.get(), &letter, 1), 1);
  }
  for (const int fd : {pair.here.fd(), pair.there.fd(), pair.listener.fd()}) {
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(LocalSocket, knows_who_the_peer_is) {
  const std::string name = unique_name();
  const auto listener = LocalSocket::listen(name).value();
  Child child([&name] {
    const auto socket = LocalSocket::connect(name).value();
    const auto parent = socket.peer();
    if (!parent || parent->pid != getppid()) return 1;
    return socket.receive(kMost, 10'000) ? 0 : 2;
  });
  pollfd entry{listener.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 10'000), 1);
  const auto socket = listener.accept().value();
  EXPECT_EQ(socket.peer()->pid, child.pid());
  EXPECT_EQ(socket.peer()->uid, getuid());
  ASSERT_TRUE(socket.send(bytes_of("done"), {}));
  EXPECT_EQ(child.exit_code(), 0);
}

TEST(LocalSocket, gives_a_name_to_one_listener_and_takes_it_back_with_the_process) {
  const std::string name = unique_name();
  EXPECT_EQ(LocalSocket::connect(name).error().code, Errc::kNotFound);
  {
    std::array<int, 2> ready{};
    ASSERT_EQ(pipe2(ready.data(), O_CLOEXEC), 0);
    const Fd reading(ready[0]);
    Child child([&name, &ready] {
      const auto listener = LocalSocket::listen(name);
      if (!listener || write(ready[1], "x", 1) != 1) return 1;
      pause();
      return 2;
    });
    close(ready[1]);
    char letter = 0;
    ASSERT_EQ(read(reading.get(), &letter, 1), 1);
    EXPECT_EQ(LocalSocket::listen(name).error().code, Errc::kBusy);
    EXPECT_TRUE(LocalSocket::connect(name));
    child.kill();
    EXPECT_EQ(child.exit_code(), -1);
  }
  EXPECT_EQ(LocalSocket::connect(name).error().code, Errc::kNotFound);
  EXPECT_TRUE(LocalSocket::listen(name));
}

TEST(LocalSocket, refuses_names_that_do_not_fit) {
  EXPECT_EQ(LocalSocket::listen("").error().code, Errc::kInvalidArgument);
  EXPECT_EQ(LocalSocket::connect("").error().code, Errc::kInvalidArgument);
  std::string name = unique_name();
  name.resize(kMostNameBytes, 'x');
  const auto longest = LocalSocket::listen(name).value();
  EXPECT_EQ(LocalSocket::listen(name + "x").error().code, Errc::kInvalidArgument);
  name.back() = 'y';  // the last letter counts
  EXPECT_EQ(LocalSocket::connect(name).error().code, Errc::kNotFound);
}

TEST(LocalSocket, of_another_kind_under_the_name_is_nobody) {
  const std::string name = unique_name();
  const Fd other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  void* const any = &address;
  ASSERT_EQ(bind(other.get(), static_cast<sockaddr*>(any),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  EXPECT_EQ(LocalSocket::connect(name).error().code, Errc::kNotFound);
}

TEST(LocalSocket, never_blocks_when_there_is_nobody_or_nothing) {
  Pair pair;
  EXPECT_EQ(pair.listener.accept().error().code, Errc::kTimedOut);
  EXPECT_EQ(code_of_receive(pair.here, 0), Errc::kTimedOut);
  const auto start = Clock::now();
  EXPECT_EQ(code_of_receive(pair.here, 30), Errc::kTimedOut);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(30));
}

TEST(LocalSocket, waits_its_time_although_signals_interrupt) {
  Pair pair;
  struct sigaction old {};
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  ASSERT_EQ(sigaction(SIGALRM, &action, &old), 0);
  const itimerval often{{0, 2000}, {0, 2000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  const auto start = Clock::now();
  EXPECT_EQ(code_of_receive(pair.here, 50), Errc::kTimedOut);
  const auto took = Clock::now() - start;
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  EXPECT_GE(took, std::chrono::milliseconds(50));
  EXPECT_LT(took, std::chrono::seconds(5));
}

TEST(LocalSocket, tells_when_the_peer_is_gone_after_its_last_messages) {
  Pair pair;
  ASSERT_TRUE(pair.here.send(bytes_of("never read"), {}));  // so the kernel says reset
  ASSERT_TRUE(pair.there.send(bytes_of("last words"), {}));
  pair.there.close();
  const auto last = pair.here.receive(kMost, kSoonMs);
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_EQ(last->bytes.size(), 10U);
  EXPECT_EQ(code_of_receive(pair.here), Errc::kNotFound);
  EXPECT_EQ(code_of_receive(pair.here), Errc::kNotFound);
  EXPECT_EQ(pair.here.send(bytes_of("x"), {}).error().code, Errc::kNotFound);
}

TEST(LocalSocket, is_busy_when_the_peer_does_not_read) {
  Pair pair;
  Errc code = Errc::kQueueFull;
  for (int i = 0; i < 1'000'000 && code == Errc::kQueueFull; ++i) {
    if (const auto sent = pair.there.send(bytes_of("x"), {}); !sent) code = sent.error().code;
  }
  EXPECT_EQ(code, Errc::kBusy);
  ASSERT_TRUE(pair.here.receive(kMost, 0));
  ASSERT_TRUE(pair.there.send(bytes_of("x"), {}));
}

TEST(LocalSocket, is_busy_when_the_listener_does_not_accept) {
  const std::string name = unique_name();
  const auto listener = LocalSocket::listen(name).value();
  ASSERT_EQ(::listen(listener.fd(), 1), 0);  // a short queue, to fill it soon
  std::vector<LocalSocket> waiting;
  Errc code = Errc::kQueueFull;
  for (int i = 0; i < 10 && code == Errc::kQueueFull; ++i) {
    auto socket = LocalSocket::connect(name);
    if (!socket) code = socket.error().code;
    if (socket) waiting.push_back(std::move(*socket));
  }
  EXPECT_EQ(code, Errc::kBusy);
}

TEST(LocalSocket, refuses_messages_that_it_could_not_deliver) {
  Pair pair;
  EXPECT_EQ(pair.here.send({}, {}).error().code, Errc::kInvalidArgument);
  const std::vector<int> many(kMaxMessageFds + 1, pair.here.fd());
  EXPECT_EQ(pair.here.send(bytes_of("x"), many).error().code, Errc::kInvalidArgument);
  const std::array<int, 1> wrong{-1};
  EXPECT_EQ(pair.here.send(bytes_of("x"), wrong).error().code, Errc::kInvalidArgument);
  const std::vector<std::byte> huge(std::size_t{64} << 20);
  EXPECT_EQ(pair.here.send(huge, {}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(code_of_receive(pair.there, 0), Errc::kTimedOut);
}

TEST(LocalSocket, leaks_no_descriptor_of_a_malformed_message) {
  Pair pair;
  const int other = pair.listener.fd();
  const std::size_t before = open_fds();
  struct Case {
    std::size_t bytes;
    std::size_t fds;
    Errc code;
  };
  for (const Case& c :
       {Case{kMost + 1, 3, Errc::kInvalidArgument},
        Case{1, kMaxMessageFds + 1, Errc::kInvalidArgument}, Case{1, 250, Errc::kInvalidArgument},
        Case{kMost + 1, 250, Errc::kInvalidArgument}, Case{0, 3, Errc::kNotFound}}) {
    ASSERT_TRUE(send_raw(pair.there.fd(), c.bytes, std::vector<int>(c.fds, other)));
    EXPECT_EQ(code_of_receive(pair.here), c.code) << c.bytes << " bytes, " << c.fds << " fds";
    // What may be slow to close is closed by another thread.
    EXPECT_TRUE(test::soon([&] { return open_fds() == before; }))
        << c.bytes << " bytes, " << c.fds << " fds";
  }
  // The messages after it are whole.
  ASSERT_TRUE(pair.there.send(bytes_of("good"), {}));
  EXPECT_EQ(pair.here.receive(kMost, 0)->bytes.size(), 4U);
}

TEST(LocalSocket, without_room_for_descriptors_names_the_limit_and_leaks_none) {
  Pair pair;
  const std::array<int, 8> fds{0, 0, 0, 0, 0, 0, 0, 0};
  ASSERT_TRUE(pair.there.send(bytes_of("x"), fds));
  ASSERT_TRUE(pair.there.send(bytes_of("x"), fds));
  const std::size_t before = open_fds();
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const Fd next(dup(0));
  const rlimit limit{static_cast<rlim_t>(next.get()) + 3, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto message = pair.here.receive(kMost, 0);
  const auto connected = [&pair] {
    std::vector<LocalSocket> sockets;
    for (;;) {
      auto socket = LocalSocket::connect(pair.name);
      if (!socket) return socket.error();
      sockets.push_back(std::move(*socket));
    }
  }();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  ASSERT_FALSE(message);
  for (const Error& error : {message.error(), connected}) {
    EXPECT_EQ(error.code, Errc::kOutOfMemory);
    EXPECT_NE(error.message.find("RLIMIT_NOFILE"), std::string::npos) << error.message;
  }
  EXPECT_TRUE(test::soon([&] { return open_fds() == before + 1; }));  // `next`
  EXPECT_EQ(pair.here.receive(kMost, 0)->fds.size(), fds.size());
}

TEST(LocalSocket, wakes_its_peer_however_often_without_waiting) {
  Pair pair;
  EXPECT_FALSE(pair.here.note_is_next());
  EXPECT_EQ(pair.here.take_wake(), false);
  for (int i = 0; i < 100'000; ++i) pair.there.wake();  // far more than the queue holds
  EXPECT_TRUE(pair.here.wait(0));
  EXPECT_FALSE(pair.here.note_is_next());
  while (*pair.here.take_wake()) {
  }
  EXPECT_FALSE(pair.here.wait(0));
  ASSERT_TRUE(pair.there.send(bytes_of("w!"), {}));
  EXPECT_TRUE(pair.here.note_is_next());
  EXPECT_EQ(pair.here.take_wake().error().code, Errc::kInvalidArgument);
  pair.there.close();
  EXPECT_TRUE(pair.here.note_is_next());
  EXPECT_EQ(pair.here.take_wake().error().code, Errc::kNotFound);
}

TEST(LocalSocket, that_is_closed_says_so) {
  Pair pair;
  pair.here.close();
  EXPECT_EQ(code_of_receive(pair.here), Errc::kInvalidState);
  EXPECT_EQ(pair.here.send(bytes_of("x"), {}).error().code, Errc::kInvalidState);
  EXPECT_EQ(pair.here.accept().error().code, Errc::kInvalidState);
  EXPECT_EQ(pair.here.peer().error().code, Errc::kInvalidState);
}

}  // namespace
}  // namespace weft::host
