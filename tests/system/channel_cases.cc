// One case of the channel library over a device, by name; exits with 0 when all of it holds, and
// says what did not. Started under `weft run` by channel_test.cc; one process unless the case
// forks.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/channel.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "system/channel_case_kit.h"

using namespace std::chrono_literals;
using namespace weft;
using namespace weft::test;

namespace {

void messages_of_all_sizes() {
  Two two;
  Settings settings;
  settings.shrink_after_ns = 0;  // however slow the machine is
  auto [a, b] = two.open(settings);
  for (const std::size_t bytes :
       {1u, 8u, 512u, 513u, 5000u, 16384u, 16385u, 100'000u, 3'000'000u, 6u << 20}) {
    const std::string text(bytes, static_cast<char>('a' + bytes % 26));
    HOLDS(pass(two, a, b, text) == text);
    HOLDS(pass(two, b, a, text) == text);
  }
  HOLDS(a.statistics().send_phase == 1);
  HOLDS(a.statistics().rendezvous == 4);
}

void shrinks_and_gives_memory_back() {
  ContextOptions options;
  options.settings.shrink_after_ns = 20'000'000;
  Two two(options, options);
  auto [a, b] = two.open();
  const auto before = two.here.figures().used_bytes;
  pass(two, a, b, std::string(12000, 'x'));
  HOLDS(two.here.figures().used_bytes > before);
  const auto deadline = channel::in(10s);
  while (a.statistics().shrinks == 0 || two.here.figures().used_bytes > before) {
    two.here.progress();
    two.there.progress();
    static_cast<void>(b.try_receive());
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
  HOLDS(pass(two, a, b, "small again") == "small again");
}

void a_budget_is_kept() {
  ContextOptions scarce;
  scarce.budget_bytes = 96 << 10;
  Two two({}, scarce);
  auto [a, b] = two.open();
  auto [c, d] = two.open();
  for (int i = 0; i < 10; ++i) {
    HOLDS(pass(two, a, b, std::string(16000, 'x')).size() == 16000);
    HOLDS(pass(two, c, d, std::string(15000, 'y')).size() == 15000);
    HOLDS(two.there.figures().used_bytes <= scarce.budget_bytes);
  }
  HOLDS(a.statistics().refusals + c.statistics().refusals > 0);
}

void waiting_ends_with_its_deadline() {
  Two two;
  auto [a, b] = two.open();
  Result<void> result;
  for (int i = 0; i < 100 && result; ++i) {
    result = a.send(std::string(500, 'x'), channel::in(20ms));
  }
  HOLDS(!result && result.error().code == Errc::kTimedOut);
  HOLDS(b.receive(channel::in(1s)));
  auto nothing = a.receive(channel::in(20ms));
  HOLDS(!nothing && nothing.error().code == Errc::kTimedOut);
}

void closing_delivers() {
  Two two;
  auto [a, b] = two.open();
  std::thread other([&] {
    for (int i = 0; i < 10; ++i) {
      HOLDS(must(b.receive(channel::in(5s))).text() == std::to_string(i));
    }
    const auto end = b.receive(channel::in(5s));
    HOLDS(!end && end.error().code == Errc::kNotFound);
  });
  for (int i = 0; i < 10; ++i) must(a.send(std::to_string(i), channel::in(5s)));
  must(a.close(channel::in(5s)));
  other.join();
  HOLDS(!a.send("more", channel::in(1s)));
}

void threads_use_different_channels() {
  Two two;
  std::vector<std::pair<Channel, Channel>> channels;
  for (int i = 0; i < 4; ++i) channels.push_back(two.open());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 300; ++n) {
        const std::string text(1 + n * 37 % 3000, static_cast<char>('a' + i));
        must(channels[i].first.send(text, channel::in(20s)));
        HOLDS(must(channels[i].first.receive(channel::in(20s))).text() == text);
      }
    });
    threads.emplace_back([&, i] {
      for (int n = 0; n < 300; ++n) {
        const std::string text(must(channels[i].second.receive(channel::in(20s))).text());
        must(channels[i].second.send(text, channel::in(20s)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void a_descriptor_wakes_the_sleeper() {
  Two two;
  auto [a, b] = two.open();
  std::thread other([&a = a] {
    std::this_thread::sleep_for(50ms);
    must(a.send("wake up", channel::in(5s)));
  });
  const auto deadline = channel::in(5s);
  bool slept = false;
  for (;;) {
    if (auto message = must(b.try_receive())) {
      HOLDS(message->text() == "wake up");
      break;
    }
    HOLDS(std::chrono::steady_clock::now() < deadline);
    if (two.there.progress() || !two.there.arm()) continue;
    pollfd waiting{two.there.fd(), POLLIN, 0};
    slept = poll(&waiting, 1, 5000) == 1 || slept;
  }
  HOLDS(slept);
  other.join();
}

void a_message_is_copied_where_the_caller_wants_it() {
  Two two;
  auto [a, b] = two.open();
  must(a.send("0123456789", channel::in(5s)));
  char first[4], second[6];
  const iovec small{first, 4};
  const std::vector<iovec> both{{first, 4}, {second, 6}};
  const auto deadline = channel::in(5s);
  for (;;) {
    two.here.progress();
    auto got = b.try_receive_into({&small, 1});
    if (!got) break;  // too small: the message stays
    HOLDS(!*got && std::chrono::steady_clock::now() < deadline);
  }
  HOLDS(must(b.try_receive_into(both)) == 10u);
  HOLDS(std::memcmp(first, "0123", 4) == 0 && std::memcmp(second, "456789", 6) == 0);
}

void a_view_outlives_its_channel() {
  Two two;
  std::optional<channel::Message> message;
  {
    auto [a, b] = two.open();
    must(a.send("still here", channel::in(5s)));
    message = must(b.receive(channel::in(5s)));
  }
  HOLDS(message->text() == "still here");
}

void errors_name_their_cause() {
  ContextOptions wrong;
  wrong.settings.phases[0].payload_bytes = 50;
  const auto context = Context::create(wrong);
  HOLDS(!context && context.error().message.find("100 to 2000") != std::string::npos);
  Two two;
  const auto refused = two.here.connect(own_address(), 1, channel::in(5s));
  HOLDS(!refused && refused.error().message.find("refused") != std::string::npos);
  const auto nowhere = two.here.connect("no.such.host.invalid", 1, channel::in(5s));
  HOLDS(!nowhere && nowhere.error().message.find("no.such.host.invalid") != std::string::npos);
  auto [a, b] = two.open();
  const auto empty = a.try_send({});
  HOLDS(!empty && empty.error().code == Errc::kInvalidArgument);
}

// The peer is killed with a large message half way: this end learns of it, and goes on with others.
void a_killed_peer_is_noticed() {
  PeerProcess process([](Channel channel) {
    HOLDS(must(channel.receive(channel::in(10s))).size() > 0);
    kill(getpid(), SIGKILL);
  });
  Channel& peer = *process.channel;
  must(peer.send("go", channel::in(5s)));
  Result<void> result;
  const auto deadline = channel::in(10s);
  while (result && std::chrono::steady_clock::now() < deadline) {
    result = peer.send(std::string(5000, 'x'), channel::in(1s));
    if (!result && result.error().code == Errc::kTimedOut) result = {};
  }
  HOLDS(!result);
  std::printf("noticed: %s\n", result.error().message.c_str());
  HOLDS(!peer.receive(channel::in(1s)));
  waitpid(process.pid, nullptr, 0);
  Two two;
  auto [a, b] = two.open();
  HOLDS(pass(two, a, b, "others go on") == "others go on");
}

/// The peer says that it looks, and never does: whoever sent without a bell rings before it rests.
void who_was_not_rung_for_is_rung_in_the_end() {
  Two two;
  auto [a, b] = two.open();
  HOLDS(pass(two, a, b, "now it looks") == "now it looks");
  const auto wait_for_bell = [&two](const Channel& channel, std::uint64_t before) {
    const auto deadline = channel::in(5s);
    while (channel.statistics().bells == before) {
      two.here.progress();
      HOLDS(std::chrono::steady_clock::now() < deadline);
    }
  };
  for (const auto rested = channel::in(20ms); std::chrono::steady_clock::now() < rested;) {
    two.here.progress();  // until it looks after the channel no more
  }
  std::uint64_t before = a.statistics().bells;
  must(a.send("perhaps unseen", channel::in(5s)));
  HOLDS(a.statistics().bells == before);
  wait_for_bell(a, before);
  HOLDS(must(b.receive(channel::in(5s))).text() == "perhaps unseen");
  // Room that comes back is news too, for whoever waits for it.
  std::vector<channel::Message> views;
  while (views.size() < 2) {
    must(b.send("x", channel::in(5s)));
    views.push_back(must(a.receive(channel::in(5s))));
  }
  before = a.statistics().bells;
  views.clear();
  wait_for_bell(a, before);
}

const Cases kCases{
    {"who_was_not_rung_for_is_rung_in_the_end", who_was_not_rung_for_is_rung_in_the_end},
    {"messages_of_all_sizes", messages_of_all_sizes},
    {"shrinks_and_gives_memory_back", shrinks_and_gives_memory_back},
    {"a_budget_is_kept", a_budget_is_kept},
    {"waiting_ends_with_its_deadline", waiting_ends_with_its_deadline},
    {"closing_delivers", closing_delivers},
    {"threads_use_different_channels", threads_use_different_channels},
    {"a_descriptor_wakes_the_sleeper", a_descriptor_wakes_the_sleeper},
    {"a_message_is_copied_where_the_caller_wants_it",
     a_message_is_copied_where_the_caller_wants_it},
    {"a_view_outlives_its_channel", a_view_outlives_its_channel},
    {"errors_name_their_cause", errors_name_their_cause},
    {"a_killed_peer_is_noticed", a_killed_peer_is_noticed},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  for (const Cases* cases : {&kCases, &kConnectCases, &kLoadCases, &kLoanCases, &kLeanCases,
                             &kHostileCases, &kSettingsCases, &kMemoryCases, &kBudgetCases}) {
    const auto found = cases->find(name);
    if (found == cases->end()) continue;
    alarm(60);
    found->second();
    return 0;
  }
  return 2;
}
