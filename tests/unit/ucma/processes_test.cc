#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>

#include "ucma_kit.h"

namespace weft::ucma::test {
namespace {

/// A child that does `work`; killed at the latest with this object.
class Peer {
 public:
  explicit Peer(const std::function<int(int)>& work) {
    EXPECT_EQ(pipe2(pipe_.data(), O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    alarm(20);
    _exit(work(pipe_[1]));
  }
  ~Peer() {
    kill();
    ::close(pipe_[0]);
    ::close(pipe_[1]);
  }
  /// What the child wrote to its pipe.
  std::uint16_t port() const {
    std::uint16_t port = 0;
    EXPECT_EQ(read(pipe_[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    return port;
  }
  void kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    wait();
  }
  int wait() {
    int status = -1;
    if (pid_ > 0) waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
  std::array<int, 2> pipe_{};
};

/// Listens, tells its port, and serves until it is killed; how far it goes is `accepts`.
int serve(int pipe, bool accepts) {
  const Channel channel;
  const Id listener = Id::create(channel);
  if (listener.bind("127.0.0.1", 0) != 0 || listener.listen() != 0) return 1;
  const std::uint16_t port = listener.port();
  if (write(pipe, &port, sizeof port) != sizeof port) return 2;
  for (;;) {
    const auto event = channel.next(20'000);
    if (!event) return 3;
    const Id id{&channel, event->id};
    switch (static_cast<EventCode>(event->event)) {
      case EventCode::kConnectRequest:
        if (accepts && id.accept("from a child", 0x55) != 0) return 4;
        break;
      case EventCode::kDisconnected:
        return id.disconnect() == 0 ? 0 : 5;
      default:
        break;
    }
  }
}

struct Client {
  Channel channel;
  Id id = Id::create(channel);

  void connect(std::uint16_t port) const {
    id.resolve_all("127.0.0.1", port);
    ASSERT_EQ(id.connect(), 0);
  }
  void establish(std::uint16_t port) const {
    connect(port);
    const auto event = channel.next();
    ASSERT_TRUE(event);
    ASSERT_EQ(static_cast<EventCode>(event->event), EventCode::kConnectResponse);
    EXPECT_EQ(data_of(event->param.conn), padded("from a child", 196));
    ASSERT_EQ(id.confirm(), 0);
  }
};

TEST(UcmaProcesses, connect_and_disconnect) {
  Peer peer([](int pipe) { return serve(pipe, true); });
  const Client client;
  client.establish(peer.port());
  ASSERT_EQ(client.id.disconnect(), 0);
  EXPECT_EQ(client.channel.next_code(), EventCode::kDisconnected);
  EXPECT_EQ(peer.wait(), 0);
}

TEST(UcmaProcesses, the_death_of_a_connected_peer_is_seen_at_once) {
  // Within 200 ms where nothing else runs; without a look at the peer it would never be.
  Peer peer([](int pipe) { return serve(pipe, true); });
  const Client client;
  client.establish(peer.port());
  const auto start = std::chrono::steady_clock::now();
  peer.kill();
  EXPECT_EQ(client.channel.next_code(), EventCode::kDisconnected);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(UcmaProcesses, the_death_of_a_peer_that_decides_is_a_reject) {
  Peer peer([](int pipe) { return serve(pipe, false); });
  const Client client;
  client.connect(peer.port());
  usleep(50'000);
  peer.kill();
  EXPECT_EQ(client.channel.next_code(), EventCode::kRejected);
  // Its port is free again, and nobody is there.
  const Client second;
  second.connect(4);
  EXPECT_EQ(second.channel.next_code(), EventCode::kRejected);
}

TEST(UcmaProcesses, the_death_of_the_client_disconnects_the_server) {
  const Channel server;
  const Id listener = Id::create(server);
  ASSERT_EQ(listener.bind("127.0.0.1", 0), 0);
  ASSERT_EQ(listener.listen(), 0);
  const std::uint16_t port = listener.port();
  Peer peer([&](int) {
    const Client client;
    client.id.resolve_all("127.0.0.1", port);
    if (client.id.connect() != 0 || client.channel.next_code() != EventCode::kConnectResponse ||
        client.id.confirm() != 0) {
      return 1;
    }
    pause();
    return 0;
  });
  const auto request = server.next();
  ASSERT_TRUE(request);
  const Id passive{&server, request->id};
  ASSERT_EQ(passive.accept(), 0);
  ASSERT_EQ(server.next_code(), EventCode::kEstablished);
  peer.kill();
  EXPECT_EQ(server.next_code(), EventCode::kDisconnected);
}

TEST(UcmaProcesses, a_child_owns_nothing_and_can_open_its_own) {
  Pair pair;
  pair.establish();
  Peer peer([&](int) {
    // The parent's channel is of no use here, and closing it harms nobody.
    rdma_ucm_event_resp event{};
    if (pair.client.get_event(event) != ENODEV) return 1;
    if (pair.active.destroy() != -ENODEV) return 2;
    pair.client.close();
    Pair own;
    own.establish();
    if (own.active.disconnect() != 0) return 3;
    return own.server.next_code() == EventCode::kDisconnected ? 0 : 4;
  });
  EXPECT_EQ(peer.wait(), 0);
  EXPECT_FALSE(pair.client.next(50));
  ASSERT_EQ(pair.active.disconnect(), 0);
  EXPECT_EQ(pair.server.next_code(), EventCode::kDisconnected);
}

TEST(UcmaProcesses, a_child_does_not_keep_the_ports_of_its_parent) {
  auto channel = std::make_unique<Channel>();
  const Id listener = Id::create(*channel);
  ASSERT_EQ(listener.bind("127.0.0.1", 0), 0);
  const std::uint16_t port = listener.port();
  Peer peer([&](int pipe) {
    if (write(pipe, &port, sizeof port) != sizeof port) return 1;
    pause();
    return 0;
  });
  ASSERT_EQ(peer.port(), port);
  channel.reset();
  const Channel other;
  const Id id = Id::create(other);
  EXPECT_EQ(id.bind("127.0.0.1", port), 0);
}

TEST(UcmaProcesses, a_link_to_a_former_owner_of_the_port_does_not_mislead) {
  // The first server stays connected, but somebody else has the port now.
  const Client client, second;
  const Channel old_server;
  const Id old_listener = Id::create(old_server);
  ASSERT_EQ(old_listener.bind("127.0.0.1", 0), 0);
  ASSERT_EQ(old_listener.listen(), 0);
  const std::uint16_t port = old_listener.port();
  client.connect(port);
  const auto request = old_server.next();
  ASSERT_TRUE(request);
  ASSERT_EQ((Id{&old_server, request->id}.accept()), 0);
  ASSERT_EQ(client.channel.next_code(), EventCode::kConnectResponse);
  ASSERT_EQ(client.id.confirm(), 0);
  old_listener.destroy();
  Peer peer([&](int pipe) {
    const Channel channel;
    const Id listener = Id::create(channel);
    if (listener.bind("127.0.0.1", port) != 0 || listener.listen() != 0) return 1;
    if (write(pipe, &port, sizeof port) != sizeof port) return 2;
    const auto event = channel.next(10'000);
    if (!event || (Id{&channel, event->id}.accept("from a child", 0x55)) != 0) return 3;
    return channel.next_code() == EventCode::kEstablished ? 0 : 4;
  });
  second.establish(peer.port());
  EXPECT_EQ(peer.wait(), 0);
}

std::ptrdiff_t entries(const char* path) {
  const std::filesystem::directory_iterator all(path);
  return std::distance(begin(all), end(all));
}

std::set<std::string> manager_threads() {
  std::set<std::string> numbers;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "weft-cm") numbers.insert(task.path().filename());
  }
  return numbers;
}

TEST(UcmaProcesses, one_thread_stays_and_no_descriptor_is_left_over) {
  // A thread takes its name, and lets go of what it had, at its own time.
  const auto soon = [](const auto& is_true) {
    for (int i = 0; i < 2000 && !is_true(); ++i) usleep(1000);
    return is_true();
  };
  {
    Pair first;  // what is made once
    first.establish();
    EXPECT_TRUE(soon([] { return manager_threads().size() == 1; }));
  }
  // It does not end in the middle of the program's life, when no file is open either: a thread's
  // end frees and unmaps memory, which is a danger beside libraries that patch munmap.
  const auto threads = manager_threads();
  usleep(50'000);
  EXPECT_EQ(manager_threads(), threads);
  const auto fds = entries("/proc/self/fd");
  constexpr int kPairs = 20, kOfOneLink = 4;
  static_assert(kOfOneLink < kPairs, "one that each pair leaves would show");
  for (int i = 0; i < kPairs; ++i) {
    Pair pair;
    pair.establish();
  }
  // The other side of a link may notice its end a little later.
  EXPECT_TRUE(soon([&] { return entries("/proc/self/fd") <= fds + kOfOneLink; }));
  EXPECT_EQ(manager_threads(), threads);
}

}  // namespace
}  // namespace weft::ucma::test
