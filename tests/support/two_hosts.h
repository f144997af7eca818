// Two hosts and a cable: two processes in network namespaces of their own, joined by a veth pair.
// Nothing leaves them, and they end with the processes. What a process has to say it says with its
// exit status, 0 being good. Linux; where namespaces may not be made, nothing is run.
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "support/sandbox.h"

namespace weft::test {

struct HostAddresses {
  const char* v4;
  const char* v6;
};
inline constexpr HostAddresses kFirstHost{"10.213.78.1", "fd00:78::1"};
inline constexpr HostAddresses kSecondHost{"10.213.78.2", "fd00:78::2"};
/// The name of the cable's end, on both hosts.
inline constexpr const char* kCable = "cable0";

/// `ip` with these arguments, in the namespace of the calling process.
inline bool ip(const std::string& arguments) {
  return std::system(("ip " + arguments + " >/dev/null 2>&1").c_str()) == 0;
}

inline bool give_addresses(const HostAddresses& host) {
  const std::string device = std::string(" dev ") + kCable;
  return ip("link set lo up") && ip(std::string("addr add ") + host.v4 + "/24" + device) &&
         ip(std::string("addr add ") + host.v6 + "/64" + device + " nodad") &&
         ip(std::string("link set ") + kCable + " up");
}

/// A host gets the socket by which it talks to the other one out of band.
using HostWork = std::function<int(int fd)>;
inline constexpr int kNoNamespaces = 77;

/// Work of a host that is only there, until the other is done: without it there is no cable.
inline int stay(int fd) {
  char said = 0;
  while (read(fd, &said, 1) > 0) continue;
  return 0;
}

namespace detail {

inline int second_host(int fd, const HostWork& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char cable = 0;
  if (unshare(CLONE_NEWNET) != 0 || write(fd, "n", 1) != 1) return kNoNamespaces;
  if (read(fd, &cable, 1) != 1 || !give_addresses(kSecondHost)) return kNoNamespaces;
  if (write(fd, "a", 1) != 1) return 1;
  return work(fd);
}

inline int first_host(const HostWork& first, const HostWork& second) {
  std::array<int, 2> fds;
  if (!enter_namespaces(CLONE_NEWNET, false) ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return kNoNamespaces;
  }
  const pid_t child = fork();
  if (child < 0) return kNoNamespaces;
  if (child == 0) {
    close(fds[0]);
    _exit(second_host(fds[1], second));
  }
  close(fds[1]);
  char said = 0;
  const std::string link = std::string("link add ") + kCable + " type veth peer name " + kCable +
                           " netns " + std::to_string(child);
  int result = kNoNamespaces;
  if (read(fds[0], &said, 1) == 1 && ip(link) && give_addresses(kFirstHost) &&
      write(fds[0], "c", 1) == 1 && read(fds[0], &said, 1) == 1) {
    result = first(fds[0]);
  }
  close(fds[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 1;
  const int other = WIFEXITED(status) ? WEXITSTATUS(status) : 100;
  return result != 0 ? result : other == 0 ? 0 : 128 + other % 100;
}

}  // namespace detail

/// 0: both were content. 1 to 127: what the first host says; 128 and more: what the second does.
/// Nothing: no namespaces here.
inline std::optional<int> on_two_hosts(const HostWork& first, const HostWork& second) {
  const pid_t child = fork();
  if (child < 0) return std::nullopt;
  if (child == 0) _exit(detail::first_host(first, second));
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 255;
  const int result = WEXITSTATUS(status);
  if (result == kNoNamespaces || result == 128 + kNoNamespaces) return std::nullopt;
  return result;
}

}  // namespace weft::test
