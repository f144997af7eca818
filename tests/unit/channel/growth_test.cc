// How one direction grows, shrinks, is refused and asks again, step by step.
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/channel/simulated_pair.h"

namespace weft::channel::test {
namespace {

std::string text_of(std::size_t bytes, char first = 'a') {
  std::string text(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(first + i % 23);
  return text;
}

/// Sends with retries, as an application does that gets 0.
bool push(SimulatedPair& pair, const std::string& text) {
  std::size_t sent = 0;
  for (int i = 0; i < 1000 && sent < text.size(); ++i) {
    const iovec rest{const_cast<char*>(text.data()) + sent, text.size() - sent};
    sent += pair.here.endpoint.take({&rest, 1}, 0, pair.now);
    pair.settle(2);
    if (sent < text.size()) {
      pair.now += 1'000'000;
    }
  }
  return sent == text.size();
}

TEST(Growth, a_small_message_goes_through_the_small_ring_at_once) {
  // A1: both sides have a ring of their own from the start.
  SimulatedPair pair{Settings{}};
  EXPECT_EQ(pair.send("hello"), 5u);
  pair.settle(1);
  EXPECT_EQ(pair.receive(), "hello");
  EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
  EXPECT_EQ(pair.violation(), "");
}

TEST(Growth, an_oversized_message_asks_first_and_goes_after_the_answer) {
  // A6, A7, A10: one control message in place of payload, 0 bytes, then the large ring.
  SimulatedPair pair{Settings{}};
  const std::string large = text_of(5000);
  EXPECT_EQ(pair.send(large), 0u);
  EXPECT_EQ(pair.send(large), 0u);
  EXPECT_EQ(pair.here.endpoint.send().figures().controls, 1u);
  pair.settle();
  EXPECT_EQ(pair.there.endpoint.receive().figures().controls, 1u);
  EXPECT_EQ(pair.there.endpoint.receive().figures().granted, 1u);
  EXPECT_EQ(pair.send(large), 5000u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), large);
  EXPECT_EQ(pair.here.endpoint.send().phase(), 1u);
  EXPECT_EQ(pair.there.endpoint.receive().phase(), 1u);
  EXPECT_EQ(pair.violation(), "");
}

void carry_out(SimulatedPair::End& end) {
  while (end.wires.execute()) {
  }
  SimulatedPair::complete(end);
}

// Who looks for long has no time for the steps of growth.
TEST(Growth, a_receiver_with_steps_to_do_has_no_time_to_wait) {
  SimulatedPair pair{Settings{}};
  Endpoint& there = pair.there.endpoint;
  EXPECT_TRUE(there.has_time());
  EXPECT_EQ(pair.send(text_of(5000)), 0u);  // asks
  carry_out(pair.here);
  View view;
  EXPECT_FALSE(there.fast_deliver(view, 256, true));
  EXPECT_FALSE(there.look().has_value());
  EXPECT_FALSE(there.has_time());
  there.step();
  EXPECT_TRUE(there.has_time());
  EXPECT_EQ(there.receive().figures().granted, 1u);
}

TEST(Growth, a_message_that_answers_is_found_with_pauses_as_without) {
  SimulatedPair pair{Settings{}};
  for (int i = 0; i < 20; ++i) {
    for (auto* end : {&pair.here, &pair.there}) {
      auto& other = end == &pair.here ? pair.there : pair.here;
      ASSERT_EQ(SimulatedPair::take(*end, "hello", pair.now), 5u);
      carry_out(*end);
      View view;
      ASSERT_TRUE(other.endpoint.fast_deliver(view, 256, true));
      EXPECT_EQ(view.length, 5u);
      other.endpoint.release_view(view.frame);
      other.endpoint.released();
      EXPECT_FALSE(other.endpoint.fast_deliver(view, 256, true));
    }
  }
  EXPECT_EQ(pair.violation(), "");
}

TEST(Growth, small_messages_take_the_fast_path_meanwhile) {
  SimulatedPair pair{Settings{}};
  for (auto* end : {&pair.here, &pair.there}) end->endpoint.set_mode(Mode::kWatching);
  pair.settle(2);
  ASSERT_EQ(pair.send(text_of(5000)), 0u);
  char hello[] = "hello";
  int by_fast_path = 0, received = 0;
  for (int i = 0; i < 50 && pair.here.endpoint.send().phase() == 0; ++i) {
    Endpoint& here = pair.here.endpoint;
    if (here.fast_take({hello, 5})) {
      ++by_fast_path;
      if (here.has_steps_behind()) here.step_behind(pair.now);
    }
    carry_out(pair.here);
    while (pair.receive() == "hello") ++received;
    pair.there.endpoint.step();
    carry_out(pair.there);
  }
  EXPECT_EQ(pair.here.endpoint.send().phase(), 1u);
  EXPECT_EQ(by_fast_path, 3);  // one for each step
  pair.settle();
  while (pair.receive() == "hello") ++received;
  EXPECT_EQ(received, by_fast_path);
  EXPECT_EQ(pair.violation(), "");
}

// The call that asks looks for the answer for a while, and makes use of it.
TEST(Growth, who_asks_may_wait_a_little_for_the_answer) {
  SimulatedPair pair{Settings{}};
  ASSERT_EQ(pair.send(text_of(5000)), 0u);
  Endpoint& here = pair.here.endpoint;
  const int posts = pair.here.wires.posts;
  here.await_answer(10, pair.now);  // in vain: it ends, and nothing has changed
  EXPECT_TRUE(here.send().moving());
  EXPECT_EQ(pair.here.wires.posts, posts);
  carry_out(pair.here);
  EXPECT_FALSE(pair.there.endpoint.look().has_value());
  pair.there.endpoint.step();
  carry_out(pair.there);
  here.await_answer(10, pair.now);
  EXPECT_FALSE(here.send().moving());
  EXPECT_EQ(here.send().phase(), 1u);
  EXPECT_EQ(pair.send("hello"), 5u);
  pair.settle();
  EXPECT_EQ(pair.receive(), "hello");
  EXPECT_EQ(pair.violation(), "");
}

TEST(Growth, small_messages_use_the_large_ring_afterwards) {
  // A21: after growth all data, small too.
  SimulatedPair pair{Settings{}};
  ASSERT_TRUE(push(pair, text_of(5000)));
  ASSERT_TRUE(pair.receive());
  EXPECT_EQ(pair.send("small"), 5u);
  pair.settle(2);
  auto view = pair.there.endpoint.look();
  ASSERT_TRUE(view);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(view->data), view->length), "small");
  const RemoteRing large = pair.there.endpoint.grant();
  EXPECT_EQ(large.slot_bytes, slot_bytes_of(16384));
  const auto at = reinterpret_cast<std::uint64_t>(view->data);
  EXPECT_GE(at, large.address);
  EXPECT_LT(at, large.address + std::uint64_t{large.slots} * large.slot_bytes);
  pair.there.endpoint.release(*view);
}

TEST(Growth, the_acknowledgement_slot_outlives_the_small_ring) {
  // A8: both rings of the start are gone, their keys dead, and further answers still arrive, in the
  // slot that the sender had from the start.
  Settings settings;
  settings.phases = {{500, 4}, {5000, 4}, {50000, 2}};
  SimulatedPair pair{settings};
  const RemoteRing small = pair.there.endpoint.grant();
  const AcknowledgementSlot slot(pair.here.control + kAcknowledgementOffset, kAcknowledgementBytes);
  const auto answered = [&](std::uint32_t phase) {
    Acknowledgement answer;
    EXPECT_EQ(look(slot, pair.here.endpoint.send().sequence(), answer), Found::kAnswer);
    EXPECT_EQ(answer.phase, phase);
    EXPECT_EQ(answer.verdict, Verdict::kGranted);
    return answer.address;
  };
  ASSERT_TRUE(push(pair, text_of(4000)));
  ASSERT_TRUE(pair.receive());
  pair.settle();
  const std::uint64_t first = answered(1);
  ASSERT_EQ(pair.keys.find(small.key.value, small.address, 8), nullptr);
  ASSERT_TRUE(push(pair, text_of(40000)));
  ASSERT_TRUE(pair.receive());
  EXPECT_NE(answered(2), first);
  pair.now += 2'000'000'000;
  pair.settle();
  answered(0);  // the way back
  EXPECT_EQ(pair.here.endpoint.send().figures().repeats, 0u);
  EXPECT_EQ(pair.violation(), "");
}

TEST(Growth, a_channel_may_start_in_any_phase) {
  // A21: that is also the baseline with fixed buffers.
  Settings settings;
  settings.start_phase = 1;
  SimulatedPair pair{settings};
  EXPECT_EQ(pair.send(text_of(16384)), 16384u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), text_of(16384));
  EXPECT_EQ(pair.here.endpoint.send().figures().controls, 0u);
}

TEST(Growth, the_small_buffers_are_unregistered_and_freed_after_their_last_write) {
  // A11: the receiver's key stops working; memory comes back on both sides.
  SimulatedPair pair{Settings{}};
  const RemoteRing small = pair.there.endpoint.grant();
  const std::size_t before = pair.here.wires.live_bytes;
  ASSERT_TRUE(push(pair, text_of(5000)));
  ASSERT_TRUE(pair.receive());
  pair.settle();
  EXPECT_EQ(pair.keys.find(small.key.value, small.address, 8), nullptr);
  const std::size_t large = 4 * slot_bytes_of(16384), ring = 3 * slot_bytes_of(512);
  EXPECT_EQ(pair.here.wires.live_bytes, before - ring + large);
  EXPECT_EQ(pair.there.wires.live_bytes, before - ring + large);
}

TEST(Growth, is_done_in_steps_and_small_messages_pass_between_any_two) {
  // A20: no message waits for more than one step of either side.
  Settings settings;
  settings.order = ProvisionOrder::kAfterAcknowledgement;  // the most steps
  SimulatedPair pair{settings};
  const auto execute = [&] {
    for (auto* end : {&pair.here, &pair.there}) {
      while (end->wires.execute()) {
      }
      SimulatedPair::complete(*end);
    }
  };
  const auto passes = [&](const std::string& text) {
    EXPECT_EQ(pair.send(text), text.size());
    execute();
    EXPECT_EQ(pair.receive(), text);
    execute();
  };
  EXPECT_EQ(pair.send(text_of(5000)), 0u);
  execute();
  const int rings = pair.there.wires.provisions;
  passes("the request has landed");
  EXPECT_EQ(pair.there.wires.provisions, rings);
  ASSERT_TRUE(pair.there.endpoint.has_steps());
  const int posts = pair.there.wires.posts;
  pair.there.endpoint.step();
  EXPECT_EQ(pair.there.wires.provisions, rings + 1);
  EXPECT_EQ(pair.there.wires.posts, posts + 1);
  EXPECT_FALSE(pair.there.endpoint.has_steps());
  execute();
  // The sender makes one step with each message.
  const int sender_rings = pair.here.wires.provisions;
  passes("the answer is read");
  EXPECT_EQ(pair.here.wires.provisions, sender_rings);
  passes("the send ring is made");
  EXPECT_EQ(pair.here.wires.provisions, sender_rings + 1);
  EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
  const int sender_posts = pair.here.wires.posts;
  passes("the rings are changed");
  EXPECT_EQ(pair.here.endpoint.send().phase(), 1u);
  // Behind the message the old ring's last frame, and a write to each slot of the new one.
  EXPECT_EQ(pair.here.wires.posts, sender_posts + 2 + static_cast<int>(settings.phases[1].slots));
  passes("large");
}

TEST(Growth, kept_small_buffers_stay_registered_and_serve_again) {
  // A11: "keep" is the user's other choice.
  Settings settings;
  settings.keep_small = true;
  SimulatedPair pair{settings};
  const RemoteRing small = pair.there.endpoint.grant();
  ASSERT_TRUE(push(pair, text_of(5000)));
  ASSERT_TRUE(pair.receive());
  pair.settle();
  EXPECT_NE(pair.keys.find(small.key.value, small.address, 8), nullptr);
  pair.now += 2'000'000'000;
  pair.settle();
  EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
  EXPECT_EQ(pair.there.endpoint.grant().address, small.address);
  ASSERT_TRUE(push(pair, "again"));
  EXPECT_EQ(pair.receive(), "again");
}

TEST(Growth, a_view_keeps_the_memory_of_a_ring_that_was_left) {
  // A16: what was handed out stays readable until it is given back.
  SimulatedPair pair{Settings{}};
  ASSERT_EQ(pair.send("look at me"), 10u);
  pair.settle(1);
  auto view = pair.there.endpoint.deliver();
  ASSERT_TRUE(view);
  ASSERT_TRUE(push(pair, text_of(5000)));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(view->data), view->length), "look at me");
  const std::size_t held = pair.there.wires.live_bytes;
  pair.there.endpoint.release(*view);
  EXPECT_EQ(pair.receive(), text_of(5000));
  EXPECT_LT(pair.there.wires.live_bytes, held);
}

TEST(Growth, one_view_that_is_kept_does_not_stop_the_sender) {
  for (const std::uint32_t slots : {3u, 4u}) {
    Settings settings;
    settings.phases[0].slots = slots;
    SimulatedPair pair{settings};
    ASSERT_EQ(pair.send("gone"), 4u);
    ASSERT_EQ(pair.send("kept"), 4u);
    pair.settle(1);
    EXPECT_EQ(pair.receive(), "gone");
    const auto view = pair.there.endpoint.deliver();
    ASSERT_TRUE(view);
    ASSERT_EQ(pair.send("next"), 4u);
    pair.settle();
    EXPECT_EQ(pair.receive(), "next");
  }
}

TEST(Growth, goes_through_three_phases_and_back) {
  // A14: and shrinks through them after idle time, keys first.
  Settings settings;
  settings.phases = {{500, 4}, {5000, 4}, {50000, 2}};
  SimulatedPair pair{settings};
  ASSERT_TRUE(push(pair, text_of(4000)));
  EXPECT_EQ(pair.here.endpoint.send().phase(), 1u);
  ASSERT_TRUE(push(pair, text_of(40000)));
  EXPECT_EQ(pair.here.endpoint.send().phase(), 2u);
  EXPECT_EQ(pair.receive(), text_of(4000));
  EXPECT_EQ(pair.receive(), text_of(40000));
  const RemoteRing large = pair.there.endpoint.grant();
  pair.now += 2'000'000'000;
  pair.settle();
  EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
  EXPECT_EQ(pair.there.endpoint.receive().phase(), 0u);
  EXPECT_EQ(pair.here.endpoint.send().figures().shrinks, 2u);
  EXPECT_EQ(pair.keys.find(large.key.value, large.address, 8), nullptr);
  ASSERT_TRUE(push(pair, "small again"));
  EXPECT_EQ(pair.receive(), "small again");
  EXPECT_EQ(pair.violation(), "");
}

TEST(Growth, a_refused_message_goes_in_pieces) {
  SimulatedPair pair{Settings{}};
  pair.there.wires.refuse_next = 1;
  const std::string large = text_of(5000);
  std::size_t sent = 0;
  std::optional<std::string> got;
  for (int i = 0; i < 100 && !got; ++i) {
    const iovec rest{const_cast<char*>(large.data()) + sent, large.size() - sent};
    if (sent < large.size()) sent += pair.here.endpoint.take({&rest, 1}, 0, pair.now);
    pair.settle(2);
    got = pair.receive();
  }
  EXPECT_EQ(got, large);
  EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
  EXPECT_EQ(pair.here.endpoint.send().figures().refusals, 1u);
}

// A receiver that stops looking finds pieces in its last round; the application takes them later.
TEST(Growth, pieces_of_a_message_that_is_not_whole_give_their_room_back) {
  SimulatedPair pair{Settings{}};
  pair.there.wires.refuse_next = 1;
  const std::string large = text_of(5000);
  pair.send(large);
  pair.settle();  // refused
  std::string rest = large;
  while (const std::uint64_t sent = pair.send(rest)) {
    rest.erase(0, sent);
    pair.settle();
  }
  ASSERT_GT(rest.size(), 0u);
  EXPECT_EQ(pair.receive(), std::nullopt);
  carry_out(pair.there);  // nobody makes progress there
  EXPECT_GT(pair.send(rest), 0u);
}

TEST(Growth, is_asked_for_again_after_the_pause) {
  SimulatedPair pair{Settings{}};
  pair.there.wires.refuse_next = 1;
  pair.send(text_of(5000));
  pair.settle();
  pair.now += Settings{}.refusal_pause_ns + 1;
  EXPECT_EQ(pair.send(text_of(5000)), 0u);
  pair.settle();
  EXPECT_EQ(pair.here.endpoint.send().phase(), 1u);
}

TEST(Growth, a_sender_without_memory_lets_the_granted_ring_go) {
  for (const bool tries_before : {false, true}) {
    Settings settings;
    settings.order = tries_before ? ProvisionOrder::kBeforeAcknowledgement
                                  : ProvisionOrder::kAfterAcknowledgement;
    SimulatedPair pair{settings};
    pair.here.wires.refuse_next = tries_before ? 2 : 1;  // it tries again behind the answer
    const std::size_t before = pair.there.wires.live_bytes;
    pair.send(text_of(5000));
    pair.settle();
    EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
    EXPECT_EQ(pair.there.endpoint.receive().figures().abandoned, 1u);
    EXPECT_EQ(pair.there.wires.live_bytes, before);
  }
}

TEST(Growth, in_strict_mode_every_call_gives_0_until_the_answer) {
  // A20: figure 3 tests block 334 first; flowing mode still sends what fits.
  for (const bool strict : {true, false}) {
    Settings settings;
    settings.strict = strict;
    SimulatedPair pair{settings};
    EXPECT_EQ(pair.send(text_of(5000)), 0u);
    EXPECT_EQ(pair.send("fits"), strict ? 0u : 4u);
    pair.settle();
    EXPECT_EQ(pair.send(text_of(5000, 'b')), 5000u);
    pair.settle(2);
    if (!strict) {
      EXPECT_EQ(pair.receive(), "fits");
    }
    EXPECT_EQ(pair.receive(), text_of(5000, 'b'));
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Growth, provisions_in_the_order_of_figure_4) {
  // A10: unregister small, free small, allocate and register large, in strict mode.
  Settings settings;
  settings.strict = true;
  SimulatedPair pair{settings};
  pair.here.wires.log = true;
  pair.send(text_of(5000));
  pair.settle();
  EXPECT_EQ(pair.here.wires.journal,
            (std::vector<std::string>{"unregister", "release", "provision send"}));
}

TEST(Growth, a_strict_sender_without_memory_gets_its_small_ring_back) {
  // A11: and goes on with it, in pieces, through the receiver's large ring.
  Settings settings;
  settings.strict = true;
  SimulatedPair pair{settings};
  pair.here.wires.refuse_next = 1;
  pair.send(text_of(5000));
  pair.settle();
  EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
  EXPECT_FALSE(pair.here.endpoint.failed());
  ASSERT_EQ(pair.send("goes on"), 7u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), "goes on");
}

TEST(Growth, the_sender_may_provision_before_the_answer_or_before_asking) {
  // A13: selectable.
  for (const auto order : {ProvisionOrder::kBeforeControl, ProvisionOrder::kBeforeAcknowledgement,
                           ProvisionOrder::kAfterAcknowledgement}) {
    Settings settings;
    settings.order = order;
    SimulatedPair pair{settings};
    pair.here.wires.log = true;
    pair.send(text_of(5000));
    EXPECT_EQ(pair.here.wires.journal.size(),
              order == ProvisionOrder::kAfterAcknowledgement ? 0u : 1u);
    pair.settle();
    EXPECT_EQ(pair.send(text_of(5000)), 5000u);
    EXPECT_EQ(std::count(pair.here.wires.journal.begin(), pair.here.wires.journal.end(),
                         "provision send"),
              1);
  }
}

TEST(Growth, both_directions_at_once) {
  SimulatedPair pair{Settings{}};
  EXPECT_EQ(pair.send(text_of(5000)), 0u);
  EXPECT_EQ(SimulatedPair::take(pair.there, text_of(9000), pair.now), 0u);
  pair.settle();
  EXPECT_EQ(pair.send(text_of(5000)), 5000u);
  EXPECT_EQ(SimulatedPair::take(pair.there, text_of(9000), pair.now), 9000u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), text_of(5000));
  EXPECT_EQ(SimulatedPair::receive(pair.here), text_of(9000));
}

TEST(Growth, only_when_enough_of_the_last_messages_were_oversized_if_sizes_are_learned) {
  Settings settings;
  settings.learn_after = 3;
  SimulatedPair pair{settings};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(pair.here.endpoint.send().figures().controls, 0u) << i;
    const std::string large = text_of(1000);
    std::size_t sent = 0;
    for (int j = 0; j < 20 && sent < large.size(); ++j) {
      const iovec rest{const_cast<char*>(large.data()) + sent, large.size() - sent};
      sent += pair.here.endpoint.take({&rest, 1}, 0, pair.now);
      pair.settle(2);
      while (pair.receive()) {
      }
      if (pair.here.endpoint.send().figures().controls > 0) break;
    }
  }
  EXPECT_EQ(pair.here.endpoint.send().figures().controls, 1u);
}

}  // namespace
}  // namespace weft::channel::test
