// What the cases of channels share: a way to say what must hold, and two contexts of one process
// with channels between them. One thread.
#pragma once

#include <unistd.h>
#include <weft/channel.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#define HOLDS(condition)                                                 \
  do {                                                                   \
    if (!(condition)) {                                                  \
      std::printf("line %d: does not hold: %s\n", __LINE__, #condition); \
      std::fflush(stdout);                                               \
      _exit(1);                                                          \
    }                                                                    \
  } while (false)

namespace weft::test {

using namespace std::chrono_literals;
using channel::Channel;
using channel::Context;
using channel::ContextOptions;
using channel::Settings;

using Cases = std::map<std::string, void (*)()>;
/// Of channel_connect_cases.cc and so on.
extern const Cases kConnectCases, kLoadCases, kLoanCases, kLeanCases, kHostileCases, kSettingsCases,
    kMemoryCases, kBudgetCases;

/// Of the device that is tested.
inline std::string own_address() {
  const char* const given = std::getenv("WEFT_CASES_ADDRESS");
  return given != nullptr ? given : "127.0.0.1";
}

template <class T>
T must(Result<T> result, int line = __builtin_LINE()) {
  if (!result) {
    std::printf("called from line %d: %s\n", line, result.error().message.c_str());
    std::fflush(stdout);
    _exit(1);
  }
  return std::move(*result);
}
inline void must(const Result<void>& result, int line = __builtin_LINE()) {
  if (result) return;
  std::printf("called from line %d: %s\n", line, result.error().message.c_str());
  std::fflush(stdout);
  _exit(1);
}

/// A process of its own that accepts one channel and does serve(channel), and our end of it.
struct PeerProcess {
  template <class Serve>
  explicit PeerProcess(Serve serve, const ContextOptions& options = {}) {
    int ports[2];
    HOLDS(pipe(ports) == 0);
    pid = fork();
    HOLDS(pid >= 0);
    std::uint16_t port = 0;
    if (pid == 0) {
      Context own = must(Context::create(options));
      auto listener = must(own.listen(own_address(), 0));
      port = listener.port();
      HOLDS(write(ports[1], &port, sizeof port) == sizeof port);
      serve(must(listener.accept(channel::in(10s))));
      _exit(0);
    }
    HOLDS(read(ports[0], &port, sizeof port) == sizeof port);
    for (const int end : ports) close(end);
    context.emplace(must(Context::create(options)));
    channel.emplace(must(context->connect(own_address(), port, channel::in(10s))));
  }

  pid_t pid = 0;
  std::optional<Context> context;
  std::optional<Channel> channel;
};

/// Two contexts of one process, and channels between them.
struct Two {
  explicit Two(ContextOptions a = {}, ContextOptions b = {})
      : here(must(Context::create(a))),
        there(must(Context::create(b))),
        listener(must(there.listen(own_address(), 0))) {}

  std::pair<Channel, Channel> open(std::optional<Settings> settings = {}) {
    Channel channel = must(here.start_connect(own_address(), listener.port(), settings));
    std::optional<Channel> other;
    const auto deadline = channel::in(10s);
    while (!channel.connected() || !other) {
      here.progress();
      if (!other) other = listener.try_accept();
      HOLDS(channel.statistics().error.empty());
      HOLDS(std::chrono::steady_clock::now() < deadline);
    }
    return {std::move(channel), std::move(*other)};
  }

  Context here, there;
  channel::Listener listener;
};

/// Sends all of it while the other end receives; gives what arrived.
inline std::string pass(Two& two, Channel& from, Channel& to, const std::string& text) {
  std::size_t sent = 0;
  std::optional<std::string> got;
  const auto deadline = channel::in(10s);
  while (sent < text.size() || !got) {
    const iovec rest{const_cast<char*>(text.data()) + sent, text.size() - sent};
    if (sent < text.size()) sent += must(from.try_send({&rest, 1}));
    two.here.progress();
    two.there.progress();
    if (auto message = must(to.try_receive())) got = message->text();
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  return *got;
}

}  // namespace weft::test
