// What the tests of host/ share: children that never outlive the test, the number of open
// descriptors, names that nobody else uses, two connected sockets. One thread.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <thread>

#include "host/local_socket.h"

namespace weft::host::test {

/// A child that runs `work` and ends with what it returns; killed at the latest with this object.
class Child {
 public:
  template <class Work>
  explicit Child(Work work) : pid_(fork()) {
    if (pid_ == 0) {
      alarm(kLimitSeconds);
      _exit(work());
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill();
    exit_code();
  }

  pid_t pid() const { return pid_; }
  void kill() const {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }

  /// -1 when it did not end by itself.
  int exit_code() {
    if (pid_ <= 0) return code_;
    int status = 0;
    for (int i = 0; i < kLimitSeconds * 1000 && waitpid(pid_, &status, WNOHANG) == 0; ++i) {
      if (i == kLimitSeconds * 1000 - 1) kill();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    pid_ = 0;
    return code_;
  }

 private:
  static constexpr int kLimitSeconds = 20;
  pid_t pid_;
  int code_ = -1;
};

inline std::size_t open_fds() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

inline std::string unique_name() {
  static int count = 0;
  return "weft-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

/// Two connected sockets, and the one that made them.
struct Pair {
  std::string name = unique_name();
  LocalSocket listener = LocalSocket::listen(name).value();
  LocalSocket there = LocalSocket::connect(name).value();
  LocalSocket here = listener.accept().value();
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Whether it comes true within some seconds.
inline bool soon(const std::function<bool()>& what) {
  for (int i = 0; i < 5000 && !what(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return what();
}

}  // namespace weft::host::test
