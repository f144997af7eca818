// What cases between two processes share: a process that accepts channels and serves them, a gate
// at which it waits while this one looks, and how much memory rings take. One thread each.
#pragma once

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <vector>

#include "channel/layout.h"
#include "system/channel_case_kit.h"

namespace weft::test {

/// The other process waits here, and does nothing else, until this one lets it go on.
class Gate {
 public:
  Gate() { HOLDS(pipe(arrivals_) == 0 && pipe(ends_) == 0); }
  void pass() {
    char went = 0;
    HOLDS(write(arrivals_[1], "x", 1) == 1);
    HOLDS(read(ends_[0], &went, 1) == 1);
  }
  /// It stands there: nothing is answered from now on.
  void await() {
    char came = 0;
    HOLDS(read(arrivals_[0], &came, 1) == 1);
  }
  bool has_come() const {
    pollfd waiting{arrivals_[0], POLLIN, 0};
    return poll(&waiting, 1, 0) == 1;
  }
  void open() { HOLDS(write(ends_[1], "x", 1) == 1); }

 private:
  int arrivals_[2], ends_[2];
};

/// A process that accepts channels, one after the other, and does serve(i, its context, channel)
/// with each; and this one's ends of them. Made before this process has opened a device.
class Server {
 public:
  template <class Serve>
  Server(int channels, Serve serve, const Settings& settings = {}) {
    int ports[2];
    HOLDS(pipe(ports) == 0);
    pid_ = fork();
    HOLDS(pid_ >= 0);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(60);
      Context own = must(Context::create({}));
      auto listener = must(own.listen(own_address(), 0, settings));
      port_ = listener.port();
      HOLDS(write(ports[1], &port_, sizeof port_) == sizeof port_);
      for (int i = 0; i < channels; ++i) {
        Channel channel = must(listener.accept(channel::in(30s)));
        serve(i, own, channel);
      }
      std::fflush(stdout);
      _exit(0);
    }
    HOLDS(read(ports[0], &port_, sizeof port_) == sizeof port_);
    for (const int end : ports) close(end);
  }

  std::uint16_t port() const { return port_; }
  Channel connect(Context& context, const Settings& settings) const {
    return must(context.connect(own_address(), port_, channel::in(30s), settings));
  }
  void end_well() const {
    int status = 0;
    HOLDS(waitpid(pid_, &status, 0) == pid_);
    HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
};

/// However slow the machine is: nothing shrinks, and nobody gives up asking.
inline Settings patient() {
  Settings settings;
  settings.shrink_after_ns = 0;
  settings.acknowledgement_timeout_ns = 30'000'000'000;
  return settings;
}

/// Every block ends with a cache line; a ring of strict mode, which goes by itself, with a page.
inline std::uint64_t with_slack(std::uint64_t bytes, std::uint64_t unit = 64) {
  return (bytes + unit - 1) / unit * unit;
}
inline std::uint64_t memory_of(const channel::PhaseSize& ring, bool strict = false) {
  return with_slack(std::uint64_t{ring.slots} * channel::slot_bytes_of(ring.payload_bytes),
                    strict ? 4096 : 64);
}
/// Rings and control block as they were set.
inline std::uint64_t memory_of(const channel::PhaseSize& send, const channel::PhaseSize& receive,
                               bool strict = false) {
  return memory_of(send, strict) + memory_of(receive, strict) +
         with_slack(channel::kControlBytes + channel::kStageBytes);
}

inline std::string received(Channel& channel) {
  return std::string(must(channel.receive(channel::in(20s))).text());
}

/// Sends the rest of a vector, in as many calls as it takes.
inline void send_all(Context& context, Channel& channel, std::vector<iovec> rest,
                     std::size_t hint = 0) {
  const auto deadline = channel::in(20s);
  while (!rest.empty()) {
    std::size_t taken = must(channel.try_send(rest, hint));
    while (!rest.empty() && taken >= rest[0].iov_len) {
      taken -= rest[0].iov_len;
      rest.erase(rest.begin());
    }
    if (taken > 0) {
      rest[0].iov_base = static_cast<char*>(rest[0].iov_base) + taken;
      rest[0].iov_len -= taken;
    }
    context.progress();
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
}

/// What was sent has been delivered, or the peer, which has all that it wanted, has ended it.
inline void end(Channel& channel) {
  const auto closed = channel.close(channel::in(20s));
  HOLDS(closed || closed.error().code != Errc::kTimedOut);
}

inline std::size_t try_text(Channel& channel, const std::string& text) {
  const iovec element{const_cast<char*>(text.data()), text.size()};
  return must(channel.try_send({&element, 1}));
}

/// Until it holds: nothing else tells when rings that were left are gone.
template <class Condition>
void wait_until(Context& context, Condition condition, int line = __builtin_LINE()) {
  const auto deadline = channel::in(20s);
  while (!condition()) {
    context.progress();
    if (std::chrono::steady_clock::now() < deadline) continue;
    std::printf("called from line %d: in vain\n", line);
    std::fflush(stdout);
    _exit(1);
  }
}

}  // namespace weft::test
