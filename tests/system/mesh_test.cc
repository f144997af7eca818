// Meshes of several processes over UDP on the loopback interface: all talk to all others through
// rings that grow, one is killed, and the others go on without it.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/mesh.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "support/udp_kit.h"

namespace {

using namespace std::chrono_literals;
using weft::test::get;
using weft::test::loopback;
using weft::test::put;
namespace mesh = weft::mesh;

constexpr int kProcesses = 5;
constexpr auto kMeshTime = 120s;
/// One for the first rings, one for larger ones, one that is read where it is.
constexpr std::array<std::size_t, 3> kSizes = {100, 10'000, 300'000};

using Addresses = std::array<mesh::Address, kProcesses>;

/// One process of the test: what it does is told by the parent, a word for a step.
class Member {
 public:
  Member(int number, int fd)
      : number_(number), fd_(fd), mesh_(mesh::Mesh::open(device_at(number)).value()) {}

  int run() {
    Addresses all;
    if (!put(fd_, mesh_.address()) || !get(fd_, &all)) return 1;
    for (int i = 0; i < kProcesses; ++i) {
      if (i != number_) peers_.push_back(mesh_.peer(all[static_cast<std::size_t>(i)]).value());
    }
    if (mesh_.figures().registered_bytes != 0) return 2;
    for (const std::size_t size : kSizes) {
      if (!send_to_all(size) || !receive(size, peers_.size())) return 3;
    }
    for (const mesh::Peer peer : peers_) {
      if (mesh_.statistics(peer).grows == 0) return 4;
    }
    if (!put(fd_, 'd')) return 5;
    char word = 0;
    if (!next_word(&word)) return 6;
    // One has been killed.
    if (!lose_one()) return 7;
    if (!send_to_all(kSizes[1]) || !receive(kSizes[1], peers_.size())) return 8;
    if (!put(fd_, 'd') || !next_word(&word)) return 9;
    return 0;
  }

 private:
  static weft::verbs::Device device_at(int number) {
    return weft::test::open_framed(loopback(1 + number));
  }
  std::string text(std::size_t size) const {
    return std::string(size, static_cast<char>('a' + number_));
  }

  bool send_to_all(std::size_t size) {
    const std::string message = text(size);
    for (const mesh::Peer peer : peers_) {
      // While this one waits for room it takes what comes: all others do the same.
      std::span<const std::byte> left = std::as_bytes(std::span(message.data(), message.size()));
      const auto until = mesh::in(kMeshTime);
      while (!left.empty()) {
        const auto taken = mesh_.try_send(peer, left);
        if (!taken || std::chrono::steady_clock::now() > until) return false;
        left = left.subspan(*taken);
        take();
        if (*taken == 0) mesh_.wait(mesh::in(1ms));
      }
    }
    return true;
  }
  void take() {
    while (auto message = mesh_.try_receive()) {
      const std::string_view all = message->text();
      const bool whole = all.find_first_not_of(all[0]) == std::string_view::npos;
      for (std::size_t i = 0; i < kSizes.size(); ++i) {
        if (whole && all.size() == kSizes[i]) ++got_[i];
      }
    }
  }
  bool receive(std::size_t size, std::size_t count) {
    std::size_t& got = got_[static_cast<std::size_t>(std::find(kSizes.begin(), kSizes.end(), size) -
                                                     kSizes.begin())];
    for (const auto until = mesh::in(kMeshTime); got < count;) {
      take();
      if (std::chrono::steady_clock::now() > until) return false;
      if (got < count) mesh_.wait(mesh::in(10ms));
    }
    got -= count;
    return true;
  }
  bool next_word(char* word) {
    pollfd descriptor{fd_, POLLIN, 0};
    for (const auto until = mesh::in(kMeshTime); poll(&descriptor, 1, 0) == 0;) {
      if (std::chrono::steady_clock::now() > until) return false;
      take();
      mesh_.wait(mesh::in(10ms));
    }
    return get(fd_, word);
  }
  /// Speaks to all until it is told of the one that has gone.
  bool lose_one() {
    std::vector<mesh::Closed> closed;
    for (const auto until = mesh::in(kMeshTime); closed.empty();) {
      if (std::chrono::steady_clock::now() > until) return false;
      const std::byte word[1]{};
      for (const mesh::Peer peer : peers_) static_cast<void>(mesh_.try_send(peer, word));
      take();
      closed = mesh_.take_closed();
      mesh_.wait(mesh::in(10ms));
    }
    if (closed.size() != 1) return false;
    return std::erase(peers_, closed[0].peer) == 1;
  }

  const int number_, fd_;
  mesh::Mesh mesh_;
  std::vector<mesh::Peer> peers_;
  std::array<std::size_t, kSizes.size()> got_{};
};

TEST(MeshSystem, processes_talk_to_all_others_and_go_on_when_one_is_killed) {
  std::array<int, kProcesses> fds;
  std::array<pid_t, kProcesses> pids;
  for (int i = 0; i < kProcesses; ++i) {
    std::array<int, 2> pair;
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    const auto at = static_cast<std::size_t>(i);
    pids[at] = fork();
    ASSERT_GE(pids[at], 0);
    if (pids[at] == 0) {
      close(pair[0]);
      _exit(Member(i, pair[1]).run());
    }
    close(pair[1]);
    fds[at] = pair[0];
  }
  Addresses all;
  bool well = true;
  for (std::size_t i = 0; i < kProcesses; ++i) well = get(fds[i], &all[i]) && well;
  for (const int fd : fds) well = well && put(fd, all);
  char word = 0;
  for (const int fd : fds) well = well && get(fd, &word);
  EXPECT_TRUE(well) << "not all have talked to all others";
  kill(pids[0], SIGKILL);
  int status = 0;
  waitpid(pids[0], &status, 0);
  for (std::size_t i = 1; i < kProcesses; ++i) well = well && put(fds[i], 'k');
  for (std::size_t i = 1; i < kProcesses; ++i) well = well && get(fds[i], &word);
  EXPECT_TRUE(well) << "not all have gone on";
  for (std::size_t i = 1; i < kProcesses; ++i) put(fds[i], 'e');
  for (const int fd : fds) close(fd);
  for (std::size_t i = 1; i < kProcesses; ++i) {
    if (!well) kill(pids[i], SIGKILL);
    ASSERT_EQ(waitpid(pids[i], &status, 0), pids[i]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
}

}  // namespace
