// Two processes for a test: the partner runs a function in a forked child, which has opened nothing
// of weft before; both talk through a socket pair. Every wait is bounded, and the child is gone
// when the object is, whatever happened.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <type_traits>

namespace weft::test {

inline constexpr int kPartnerWait_ms = 60'000;

/// Ends the process with a message: for partners, whose test framework nobody listens to.
inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "partner %d: failed: %s\n", getpid(), what);
  _exit(3);
}
#define WEFT_REQUIRE(condition) ::weft::test::require(static_cast<bool>(condition), #condition)

/// One end of the socket pair.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  ~Wire() { close(fd_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  template <class T>
  void put(const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    static_cast<void>(!send(fd_, &value, sizeof value, MSG_NOSIGNAL));
  }
  /// False: the other end is gone, or said nothing for too long.
  template <class T>
  bool get(T* value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, kPartnerWait_ms) != 1) return false;
    return recv(fd_, value, sizeof *value, 0) == static_cast<ssize_t>(sizeof *value);
  }
  template <class T>
  T get() const {
    T value{};
    require(get(&value), "something from the other process");
    return value;
  }
  void sync() const {
    put('x');
    get<char>();
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

class Partner {
 public:
  explicit Partner(const std::function<void(const Wire&)>& work) : wire_(start(work)) {}
  ~Partner() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  const Wire& wire() const { return wire_; }
  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  /// Its exit status; -1 when it was killed or did not end in time.
  int join(int wait_ms = kPartnerWait_ms) {
    for (int waited = 0; waited <= wait_ms; ++waited) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return -1;
  }

 private:
  int start(const std::function<void(const Wire&)>& work) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(4);
      close(ends[0]);
      {
        const Wire wire(ends[1]);
        work(wire);
      }
      _exit(0);
    }
    close(ends[1]);
    return ends[0];
  }

  pid_t pid_ = -1;
  Wire wire_;
};

}  // namespace weft::test
