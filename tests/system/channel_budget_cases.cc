// Cases of what connections take: which buffers are kept, who grows among many, and what the
// figures say. See channel_cases.cc.
#include <cstdlib>
#include <string>
#include <vector>

#include "system/channel_server_kit.h"

namespace weft::test {
namespace {

using channel::Statistics;

void small_buffers_are_kept_or_freed() {
  const std::string large(5000, 'l');
  const auto settings_of = [](int i) {
    Settings settings = patient();
    settings.keep_small = (i & 1) != 0;
    settings.strict = (i & 2) != 0;
    return settings;
  };
  const Settings usual;
  const auto small = usual.phases[0], big = usual.phases[1];
  Gate gate;
  // Whether a receive ring is kept is for the receiver to say, whose settings are the usual ones.
  Server server(4, [&](int, Context& context, Channel& channel) {
    HOLDS(received(channel) == large);
    wait_until(context,
               [&] { return channel.statistics().registered_bytes == memory_of(small, big); });
    must(channel.send("freed", channel::in(20s)));
    gate.pass();
  });
  Context context = must(Context::create({}));
  for (int i = 0; i < 4; ++i) {
    const Settings settings = settings_of(i);
    Channel channel = server.connect(context, settings);
    must(channel.send(large, channel::in(20s)));
    const std::uint64_t kept = settings.keep_small ? memory_of(small, settings.strict) : 0;
    const std::uint64_t all = memory_of(big, small, settings.strict) + kept;
    HOLDS(received(channel) == "freed");
    wait_until(context, [&] { return channel.statistics().registered_bytes == all; });
    // Nothing goes later that has not gone by now, except what lingers for a quiet moment.
    for (const auto rested = channel::in(20ms); std::chrono::steady_clock::now() < rested;) {
      context.progress();
    }
    HOLDS(channel.statistics().registered_bytes == all);
    HOLDS(channel.statistics().send_phase == 1);
    gate.open();
    end(channel);
  }
  server.end_well();
}

void the_busy_one_of_a_thousand_grows() {
  constexpr int kCount = 1000, kBusy = 42, kMessages = 50;
  const std::string large(12000, 'x');
  const Settings usual;
  const auto small = usual.phases[0], big = usual.phases[1];
  const std::uint64_t quiet = memory_of(small, small);
  std::vector<Channel> accepted;
  Gate gate;
  Server server(kCount, [&](int i, Context& context, Channel& channel) {
    accepted.push_back(std::move(channel));
    accepted.back().set_tag(static_cast<std::uint64_t>(i));
    if (i + 1 < kCount) return;
    std::uint64_t busy = kCount;
    for (int got = 0; got < kMessages;) {
      const std::uint64_t seen = context.events();
      for (const std::uint64_t tag : context.take_ready()) {
        HOLDS(busy == kCount || busy == tag);
        busy = tag;
        while (must(accepted[tag].try_receive())) ++got;
      }
      if (got < kMessages) HOLDS(context.wait(channel::in(20s), seen));
    }
    for (std::uint64_t tag = 0; tag < kCount; ++tag) {
      const Statistics now = accepted[tag].statistics();
      HOLDS(now.receive_phase == (tag == busy ? 1u : 0u));
      HOLDS(tag == busy || now.registered_bytes == quiet);
    }
    gate.pass();  // until the other end has looked too
  });
  Context context = must(Context::create({}));
  std::vector<Channel> channels;
  for (int i = 0; i < kCount; ++i) {
    channels.push_back(must(context.start_connect(own_address(), server.port(), patient())));
  }
  for (const Channel& channel : channels) {
    wait_until(context, [&] {
      HOLDS(channel.statistics().error.empty());
      return channel.connected();
    });
  }
  for (int i = 0; i < kMessages; ++i) must(channels[kBusy].send(large, channel::in(20s)));
  wait_until(context, [&] { return gate.has_come(); });  // all has arrived
  int stayed_small = 0;
  for (int i = 0; i < kCount; ++i) {
    const Statistics now = channels[i].statistics();
    HOLDS(now.send_phase == (i == kBusy ? 1u : 0u));
    stayed_small += now.registered_bytes == quiet ? 1 : 0;
  }
  HOLDS(stayed_small == kCount - 1);
  wait_until(context, [&] {
    return channels[kBusy].statistics().registered_bytes == memory_of(big, small);
  });
  std::printf("%d of %d stayed small: %zu bytes a side; the busy one has %zu\n", stayed_small,
              kCount, std::size_t{quiet}, std::size_t{memory_of(big, small)});
  gate.open();
  server.end_well();
}

void memory_of_a_connection() {
  const auto weigh = [](const Settings& settings) {
    Two two({.settings = settings}, {.settings = settings});
    auto [a, b] = two.open();
    const std::uint64_t one = a.statistics().registered_bytes,
                        other = b.statistics().registered_bytes;
    const auto first = settings.phases[settings.start_phase];
    // On a device that pins memory a large receive ring has whole pages, so that it can go alone.
    const bool whole_pages =
        std::getenv("WEFT_CASES_ADDRESS") != nullptr && memory_of(first) >= 32 << 10;
    const std::uint64_t rounding = memory_of(first, whole_pages) - memory_of(first);
    HOLDS(settings.lean || (one == memory_of(first, first) + rounding && other == one));
    // What is said of the connection is what the budgets of both sides have given.
    HOLDS(two.here.figures().used_bytes == one && two.there.figures().used_bytes == other);
    HOLDS(pass(two, a, b, std::string(9000, 't')).size() == 9000);
    return one + other;
  };
  Settings growing;
  growing.phases = {{512, 4}, {16384, 4}};  // the same depth
  const std::uint64_t fixed = weigh(Settings::fixed(16384, 4)), grows = weigh(growing);
  std::printf("growing %zu, fixed %zu bytes\n", std::size_t{grows}, std::size_t{fixed});
  HOLDS(fixed >= 256 * 1024);
  HOLDS(grows <= 16 * 1024);
  HOLDS(weigh(Settings{}) <= grows);
  HOLDS(weigh(Settings::tiny()) <= 1024);
}

void unusual_settings_are_warned_of() {
  std::vector<std::string> warnings;
  ContextOptions options;
  options.settings.phases = {{1000, 4}, {9999, 4}};
  options.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  Context context = must(Context::create(options));
  HOLDS(warnings.size() == 1 && warnings[0].find("9999 is less than 10 times") != warnings[0].npos);
  Settings other;
  other.phases = {{500, 4}, {4999, 4}};
  for (int i = 0; i < 3; ++i) must(context.listen(own_address(), 0, other));
  HOLDS(warnings.size() == 2 && warnings[1].find("4999") != warnings[1].npos);
  auto listener = must(context.listen(own_address(), 0, Settings{}));
  other.phases = {{500, 4}, {4998, 4}};
  must(context.start_connect(own_address(), listener.port(), other));
  HOLDS(warnings.size() == 3 && warnings[2].find("4998") != warnings[2].npos);
  options.settings.phases = {{700, 4}, {6999, 4}};
  options.on_warning = nullptr;
  must(Context::create(options));  // says it on the standard error output
}

}  // namespace

const Cases kBudgetCases{
    {"small_buffers_are_kept_or_freed", small_buffers_are_kept_or_freed},
    {"the_busy_one_of_a_thousand_grows", the_busy_one_of_a_thousand_grows},
    {"memory_of_a_connection", memory_of_a_connection},
    {"unusual_settings_are_warned_of", unusual_settings_are_warned_of},
};

}  // namespace weft::test
