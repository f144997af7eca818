// Cases of what a user may set: how vectors are judged, what happens while growth is pending, in
// which order rings are made, and how many phases there are. Each is between two processes: see
// channel_cases.cc.
#include <array>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "system/channel_server_kit.h"

namespace weft::test {
namespace {

using channel::Policy;
using channel::ProvisionOrder;
using channel::Statistics;

void a_vector_goes_as_far_as_it_can() {
  std::string a(100, 'a'), b(200, 'b'), c(4000, 'c'), d(50, 'd');
  Gate gate;
  Server server(1, [&](int, Context&, Channel& channel) {
    gate.pass();
    HOLDS(received(channel) == a + b + c + d);
    HOLDS(received(channel) == c + a);
  });
  Context context = must(Context::create({}));
  Channel channel = server.connect(context, patient());
  gate.await();
  const std::vector<iovec> all{{a.data(), 100}, {b.data(), 200}, {c.data(), 4000}, {d.data(), 50}};
  HOLDS(must(channel.try_send(all)) == 300);  // what stands before the first oversized one
  const std::vector<iovec> rest{all[2], all[3]};
  for (int i = 0; i < 10; ++i) HOLDS(must(channel.try_send(rest)) == 0);
  HOLDS(channel.statistics().send_phase == 0);
  gate.open();
  send_all(context, channel, rest);
  HOLDS(channel.statistics().send_phase == 1 && channel.statistics().grows == 1);
  send_all(context, channel, {all[2], all[0]});
  end(channel);
  server.end_well();
}

void policies_judge_differently() {
  struct Trial {
    Policy policy;
    std::vector<std::size_t> lengths;
    std::size_t hint, first_taken;  // by the first call
    std::uint32_t phase, grows;     // when all has been taken
  };
  const std::vector<Trial> trials{
      {Policy::kInOrder, {100, 100, 4000}, 0, 200, 1, 1},  // what precedes the oversized one goes
      {Policy::kAny, {100, 100, 4000}, 0, 0, 1, 1},        // nothing goes
      {Policy::kAny, {4000, 4000}, 0, 0, 2, 1},            // buffers for all of it
      {Policy::kLargest, {4000, 4000}, 0, 0, 1, 1},        // buffers for one of them
      {Policy::kLargest, {300, 400}, 0, 700, 0, 0},        // none is oversized
      {Policy::kSum, {300, 400}, 0, 0, 1, 1},              // but all of them
      {Policy::kFromLast, {6000, 4000, 100}, 0, 0, 2, 2},  // for the second, then for the first
      {Policy::kLargest, {6000, 4000, 100}, 0, 0, 2, 1},   // for the first at once
      {Policy::kCallerSays, {100, 100}, 4000, 0, 1, 1},
      {Policy::kCallerSays, {300, 400}, 500, 700, 0, 0}};
  Gate gate;
  Server server(static_cast<int>(trials.size()), [&](int i, Context&, Channel& channel) {
    gate.pass();
    const auto& lengths = trials[i].lengths;
    HOLDS(received(channel).size() == std::accumulate(lengths.begin(), lengths.end(), 0u));
  });
  Context context = must(Context::create({}));
  std::string bytes(20000, 'x');
  for (const Trial& trial : trials) {
    Settings settings = patient();
    settings.phases = {{500, 4}, {5000, 4}, {50000, 4}};
    settings.policy = trial.policy;
    Channel channel = server.connect(context, settings);
    gate.await();
    std::vector<iovec> vector;
    for (const std::size_t length : trial.lengths) vector.push_back({bytes.data(), length});
    std::size_t taken = must(channel.try_send(vector, trial.hint));
    HOLDS(taken == trial.first_taken);
    gate.open();
    for (; taken > 0; vector.erase(vector.begin())) taken -= vector[0].iov_len;
    send_all(context, channel, vector, trial.hint);
    HOLDS(channel.statistics().send_phase == trial.phase);
    HOLDS(channel.statistics().grows == trial.grows);
    end(channel);
  }
  server.end_well();
}

void strict_mode_waits_and_flowing_mode_does_not() {
  const std::string large(5000, 'l');
  Gate gate;
  Server server(2, [&](int i, Context&, Channel& channel) {
    gate.pass();  // until then nobody answers
    if (i == 1) HOLDS(received(channel) == "fits");
    HOLDS(received(channel) == large);
    HOLDS(received(channel) == "small");
  });
  Context context = must(Context::create({}));
  for (const bool strict : {true, false}) {
    Settings settings = patient();
    settings.strict = strict;
    Channel channel = server.connect(context, settings);
    gate.await();
    HOLDS(try_text(channel, large) == 0);
    for (int i = 0; i < 100 && strict; ++i) {
      context.progress();
      HOLDS(try_text(channel, "fits") == 0);
    }
    if (!strict) HOLDS(try_text(channel, "fits") == 4);
    HOLDS(channel.statistics().send_phase == 0);
    gate.open();
    must(channel.send(large, channel::in(20s)));
    must(channel.send("small", channel::in(20s)));
    HOLDS(channel.statistics().send_phase == 1);
    end(channel);
  }
  server.end_well();
}

void the_sender_makes_its_ring_when_it_was_told_to() {
  const std::string large(5000, 'l');
  const std::array orders{ProvisionOrder::kAfterAcknowledgement,
                          ProvisionOrder::kBeforeAcknowledgement, ProvisionOrder::kBeforeControl};
  Gate gate;
  Server server(2 * orders.size(), [&](int, Context&, Channel& channel) {
    gate.pass();
    HOLDS(received(channel) == large);
  });
  Context context = must(Context::create({}));
  ContextOptions little;
  little.budget_bytes = 64 << 10;  // not enough for a large ring
  Context scarce = must(Context::create(little));
  for (const ProvisionOrder order : orders) {
    Settings settings = patient();
    settings.order = order;
    const auto small = settings.phases[0], big = settings.phases[1];
    Channel channel = server.connect(context, settings);
    gate.await();
    HOLDS(channel.statistics().registered_bytes == memory_of(small, small));
    HOLDS(try_text(channel, large) == 0);
    for (int i = 0; i < 100; ++i) context.progress();
    // Nobody has answered yet: the send ring is there, or is not.
    const bool early = order != ProvisionOrder::kAfterAcknowledgement;
    HOLDS(channel.statistics().registered_bytes ==
          memory_of(small, small) + (early ? memory_of(big) : 0));
    gate.open();
    must(channel.send(large, channel::in(20s)));
    wait_until(context,
               [&] { return channel.statistics().registered_bytes == memory_of(big, small); });
    end(channel);
    // Who has no memory for it, and looks before it asks, does not ask.
    Channel poor = server.connect(scarce, settings);
    gate.await();
    const bool asks = order != ProvisionOrder::kBeforeControl;
    const std::size_t taken = try_text(poor, large);
    HOLDS((taken == 0) == asks);
    gate.open();
    std::string rest = large.substr(taken);
    send_all(scarce, poor, {{rest.data(), rest.size()}});
    HOLDS(poor.statistics().grows == 0 && poor.statistics().send_phase == 0);
    end(poor);
  }
  server.end_well();
}

/// A message that goes in pieces through a ring smaller than it, while the peer looks only when the
/// sender has fallen asleep.
void a_sender_that_waits_for_room_is_woken() {
  const std::string large(5000, 'l');
  Server server(1, [&](int, Context&, Channel& channel) {
    std::this_thread::sleep_for(100ms);
    HOLDS(received(channel) == large);
  });
  ContextOptions little;
  little.budget_bytes = 64 << 10;  // not enough for a large ring
  Context context = must(Context::create(little));
  Settings settings = patient();
  settings.order = ProvisionOrder::kBeforeControl;
  Channel channel = server.connect(context, settings);
  must(channel.send(large, channel::in(20s)));
  HOLDS(channel.statistics().grows == 0 && channel.statistics().rendezvous == 0);
  end(channel);
  server.end_well();
}

/// A view's place says which ring it lies in: frames of the same length end as far apart as slots.
void three_phases_and_back() {
  const std::vector<channel::PhaseSize> phases{{500, 4}, {5000, 4}, {50000, 4}};
  Gate gate;
  Server server(2, [&](int i, Context& context, Channel& channel) {
    for (const std::size_t bytes : {400u, 4000u, 40000u}) {
      HOLDS(received(channel) == std::string(bytes, 'a'));
      must(channel.send("done with it", channel::in(20s)));
    }
    if (i == 0) {
      HOLDS(channel.statistics().receive_phase == 2);
      const auto first = must(channel.receive(channel::in(20s)));
      const auto second = must(channel.receive(channel::in(20s)));
      const auto apart = std::abs(second.bytes().data() - first.bytes().data());
      HOLDS(apart > 0 && apart % channel::slot_bytes_of(50000) == 0);
      return;
    }
    const auto first = phases[0];
    wait_until(context, [&] { return channel.statistics().receive_phase == 0; });
    wait_until(context, [&] {
      return channel.statistics().registered_bytes == memory_of(Settings{}.phases[0], first);
    });
    HOLDS(received(channel) == "small again");
  });
  Context context = must(Context::create({}));
  Settings settings = patient();
  settings.phases = phases;
  // Growth is postponed while the peer still has messages in the ring before.
  const auto send_and_wait = [](Channel& channel, std::size_t bytes) {
    must(channel.send(std::string(bytes, 'a'), channel::in(20s)));
    HOLDS(received(channel) == "done with it");
  };
  {
    Channel channel = server.connect(context, settings);
    std::uint32_t phase = 0;
    for (const std::size_t bytes : {400u, 4000u, 40000u}) {
      send_and_wait(channel, bytes);
      const Statistics now = channel.statistics();
      HOLDS(now.send_phase == phase && now.grows == phase);
      ++phase;
    }
    // All data uses the large ring from now on.
    for (int i = 0; i < 2; ++i) must(channel.send("small", channel::in(20s)));
    end(channel);
  }
  {
    settings.shrink_after_ns = 10'000'000;
    Channel channel = server.connect(context, settings);
    for (const std::size_t bytes : {400u, 4000u, 40000u}) send_and_wait(channel, bytes);
    wait_until(context, [&] { return channel.statistics().send_phase == 0; });
    HOLDS(channel.statistics().shrinks >= 2 && channel.statistics().repeats == 0);
    must(channel.send("small again", channel::in(20s)));
    end(channel);
  }
  server.end_well();
}

void a_channel_may_start_in_any_phase() {
  Settings settings = patient();
  settings.phases = {{500, 4}, {5000, 4}, {50000, 4}};
  settings.start_phase = 1;
  Gate gate;
  Server server(
      1,
      [&](int, Context&, Channel& channel) {
        HOLDS(channel.statistics().receive_phase == 1);
        gate.pass();
        HOLDS(received(channel) == std::string(4000, 'a'));
      },
      settings);
  Context context = must(Context::create({}));
  Channel channel = server.connect(context, settings);
  gate.await();
  HOLDS(channel.statistics().send_phase == 1);
  HOLDS(channel.statistics().registered_bytes == memory_of(settings.phases[1], settings.phases[1]));
  HOLDS(try_text(channel, std::string(4000, 'a')) == 4000);  // nobody has to agree
  HOLDS(channel.statistics().grows == 0);
  gate.open();
  end(channel);
  server.end_well();
}

}  // namespace

const Cases kSettingsCases{
    {"a_vector_goes_as_far_as_it_can", a_vector_goes_as_far_as_it_can},
    {"policies_judge_differently", policies_judge_differently},
    {"strict_mode_waits_and_flowing_mode_does_not", strict_mode_waits_and_flowing_mode_does_not},
    {"the_sender_makes_its_ring_when_it_was_told_to",
     the_sender_makes_its_ring_when_it_was_told_to},
    {"a_sender_that_waits_for_room_is_woken", a_sender_that_waits_for_room_is_woken},
    {"three_phases_and_back", three_phases_and_back},
    {"a_channel_may_start_in_any_phase", a_channel_may_start_in_any_phase},
};

}  // namespace weft::test
