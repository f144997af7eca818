// Cases of lean channels over a device: see channel_cases.cc.
#include <sys/wait.h>

#include <csignal>
#include <thread>
#include <vector>

#include "system/channel_case_kit.h"

namespace weft::test {
namespace {

ContextOptions tiny_options() {
  ContextOptions options;
  options.settings = Settings::tiny();
  options.settings.shrink_after_ns = 5'000'000;
  options.probe_every_ns = 50'000'000;
  return options;
}

void progress_for(Two& two, std::chrono::nanoseconds time) {
  for (const auto until = channel::in(time); std::chrono::steady_clock::now() < until;) {
    two.here.progress();
    two.there.progress();
  }
}

void lean_channels_sleep_and_wake() {
  Two two(tiny_options(), tiny_options());
  std::vector<std::pair<Channel, Channel>> channels;
  for (int i = 0; i < 40; ++i) channels.push_back(two.open());
  progress_for(two, 20ms);
  const std::uint64_t quiet = two.here.figures().used_bytes;
  HOLDS(quiet <= 40 * 512);
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < channels.size(); ++i) {
      auto& [a, b] = channels[i];
      const std::string text(i % 8 == 0 ? 9000 : 1 + i, static_cast<char>('a' + round));
      HOLDS(pass(two, a, b, text) == text);
      HOLDS(pass(two, b, a, text) == text);
    }
    progress_for(two, 60ms);
    HOLDS(channels[1].first.statistics().messages_sent == round + 1u);
    HOLDS(channels[1].second.statistics().messages_received == round + 1u);
  }
  const auto deadline = channel::in(10s);
  while (two.here.figures().used_bytes != quiet) {
    progress_for(two, 10ms);
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  HOLDS(channels[8].first.statistics().grows >= 1);
  for (auto& [a, b] : channels) HOLDS(a.connected() && b.connected());
}

void a_lean_channel_closes_like_any_other() {
  Two two(tiny_options(), tiny_options());
  auto [a, b] = two.open();
  progress_for(two, 20ms);
  Channel& from = a;
  std::thread closer([&from] {
    must(from.send("last words", channel::in(30s)));
    must(from.close(channel::in(30s)));
  });
  HOLDS(must(b.receive(channel::in(30s))).text() == "last words");
  const auto end = b.receive(channel::in(30s));
  HOLDS(!end && end.error().code == Errc::kNotFound);
  const auto begun = std::chrono::steady_clock::now();
  must(b.close(channel::in(60s)));
  HOLDS(std::chrono::steady_clock::now() - begun < 30s);  // and not when the time is over
  closer.join();
}

/// Where one end keeps its identifier, both do, and a peer's end is news at once.
void a_lean_channel_meets_one_that_is_not() {
  ContextOptions slow = tiny_options();
  slow.probe_every_ns = 3'600'000'000'000;
  Two two(slow, {});
  auto [a, b] = two.open();
  const std::string text(9000, 'x');
  HOLDS(pass(two, a, b, text) == text);
  HOLDS(pass(two, b, a, "short") == "short");
  { const Channel gone = std::move(b); }
  const auto deadline = channel::in(10s);
  while (a.connected()) {
    progress_for(two, 1ms);
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
}

/// Nobody tells of it, and nothing is sent: a probe finds out.
void a_lean_peer_that_is_killed_is_noticed() {
  PeerProcess peer(
      [](Channel channel) {
        must(channel.send("ready", channel::in(5s)));
        for (;;) pause();
      },
      tiny_options());
  Channel& channel = *peer.channel;
  HOLDS(must(channel.receive(channel::in(10s))).text() == "ready");
  kill(peer.pid, SIGKILL);
  waitpid(peer.pid, nullptr, 0);
  const auto deadline = channel::in(10s);
  while (channel.connected()) {
    peer.context->wait(channel::in(20ms));
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  HOLDS(!channel.statistics().error.empty());
}

}  // namespace

const Cases kLeanCases{
    {"lean_channels_sleep_and_wake", lean_channels_sleep_and_wake},
    {"a_lean_channel_closes_like_any_other", a_lean_channel_closes_like_any_other},
    {"a_lean_channel_meets_one_that_is_not", a_lean_channel_meets_one_that_is_not},
    {"a_lean_peer_that_is_killed_is_noticed", a_lean_peer_that_is_killed_is_noticed},
};

}  // namespace weft::test
