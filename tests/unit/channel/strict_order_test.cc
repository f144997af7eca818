// The order of a strict sender and of its receiver, what happens when something of it fails, and
// the time that an answer has whose head has come. The same over a device:
// system/channel_order_test.cc.
#include <gtest/gtest.h>

#include "unit/channel/simulated_pair.h"

namespace weft::channel::test {
namespace {

Settings strict_settings() {
  Settings settings;
  settings.strict = true;
  return settings;
}

const std::string kStrictLarge(5000, 'S');

TEST(StrictOrder, the_receiver_frees_its_small_ring_before_it_makes_the_large_one) {
  // A7, A11: and it has switched before the answer goes.
  SimulatedPair pair{strict_settings()};
  const RemoteRing small = pair.there.endpoint.grant();
  pair.there.wires.log = true;
  const int posts = pair.there.wires.posts;
  EXPECT_EQ(pair.send(kStrictLarge), 0u);
  while (pair.here.wires.execute()) {
  }
  EXPECT_FALSE(pair.there.endpoint.look().has_value());  // finds the control message
  EXPECT_EQ(pair.there.wires.journal,
            (std::vector<std::string>{"unregister", "release", "provision receive"}));
  EXPECT_EQ(pair.there.endpoint.receive().phase(), 1u);
  EXPECT_GT(pair.there.wires.posts, posts);
  EXPECT_EQ(pair.keys.find(small.key.value, small.address, 8), nullptr);
  pair.settle();
  EXPECT_EQ(pair.send(kStrictLarge), 5000u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), kStrictLarge);
  EXPECT_EQ(pair.violation(), "");
}

TEST(StrictOrder, a_receiver_without_memory_for_the_large_ring_has_a_small_one_again) {
  // A11: the small ring is restored, at a place that the sender is told; both go on.
  SimulatedPair pair{strict_settings()};
  const RemoteRing small = pair.there.endpoint.grant();
  ASSERT_EQ(pair.send("before"), 6u);
  pair.settle(2);
  ASSERT_EQ(pair.receive(), "before");
  pair.there.wires.refuse_next = 1;
  EXPECT_EQ(pair.send(kStrictLarge), 0u);
  pair.settle();
  EXPECT_EQ(pair.here.endpoint.send().figures().refusals, 1u);
  EXPECT_EQ(pair.there.endpoint.receive().phase(), 0u);
  EXPECT_EQ(pair.keys.find(small.key.value, small.address, 8), nullptr);
  std::string got;
  for (int i = 0; i < 10; ++i) {
    const std::string text = "message " + std::to_string(i);
    ASSERT_EQ(pair.send(text), text.size());
    pair.settle(2);
    EXPECT_EQ(pair.receive(), text);
  }
  // Larger ones go in pieces, and later the large ring can be had.
  std::size_t sent = 0;
  for (int i = 0; i < 100 && got.empty(); ++i) {
    const iovec rest{const_cast<char*>(kStrictLarge.data()) + sent, kStrictLarge.size() - sent};
    if (sent < kStrictLarge.size()) sent += pair.here.endpoint.take({&rest, 1}, 0, pair.now);
    pair.settle(2);
    if (auto message = pair.receive()) got = *message;
  }
  EXPECT_EQ(got, kStrictLarge);
  EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
  pair.now += 200'000'000;
  EXPECT_EQ(pair.send(kStrictLarge), 0u);
  pair.settle();
  EXPECT_EQ(pair.send(kStrictLarge), 5000u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), kStrictLarge);
  EXPECT_EQ(pair.here.endpoint.send().phase(), 1u);
  EXPECT_EQ(pair.violation(), "");
}

TEST(StrictOrder, a_receiver_without_memory_for_any_ring_ends_the_channel) {
  SimulatedPair pair{strict_settings()};
  pair.there.wires.refuse_next = 2;
  pair.there.wires.refuse_from_phase = 0;
  EXPECT_EQ(pair.send(kStrictLarge), 0u);
  pair.settle();
  EXPECT_TRUE(pair.there.endpoint.failed());
  EXPECT_EQ(pair.there.endpoint.error(), "no memory for a receive ring of any size");
  View view;
  EXPECT_FALSE(pair.there.endpoint.fast_deliver(view, 16, true));
  EXPECT_FALSE(pair.there.endpoint.look().has_value());
}

TEST(StrictOrder, a_refusal_that_names_no_possible_ring_is_not_acted_on) {
  SimulatedPair pair{strict_settings()};
  pair.send(kStrictLarge);
  Acknowledgement answer;
  answer.sequence = first_of_next_request(0);
  answer.phase = 1;
  answer.verdict = Verdict::kRefused;
  answer.address = 4096;
  answer.slots = 100'000;
  answer.slot_bytes = slot_bytes_of(512);
  emit(answer,
       AcknowledgementSlot(pair.here.control + kAcknowledgementOffset, kAcknowledgementBytes));
  pair.here.endpoint.progress(pair.now);
  EXPECT_EQ(pair.here.endpoint.send().figures().corrupt, 1u);
  EXPECT_EQ(pair.here.endpoint.send().figures().refusals, 0u);
}

TEST(StrictOrder, a_view_that_is_kept_delays_growth_and_does_not_stop_it) {
  SimulatedPair pair{strict_settings()};
  ASSERT_EQ(pair.send("kept"), 4u);
  pair.settle(2);
  auto kept = pair.there.endpoint.look();
  ASSERT_TRUE(kept);
  pair.there.wires.held.push_back(kept->data);
  EXPECT_EQ(pair.send(kStrictLarge), 0u);
  pair.settle(3);
  EXPECT_EQ(pair.there.endpoint.receive().phase(), 0u);  // it waits for the view
  EXPECT_TRUE(pair.there.endpoint.busy());
  pair.now += 20'000'000;
  pair.settle();
  EXPECT_EQ(pair.there.endpoint.receive().phase(), 1u);  // no longer
  EXPECT_EQ(pair.send(kStrictLarge), 5000u);
  pair.settle(2);
  EXPECT_EQ(pair.receive(), kStrictLarge);
  EXPECT_EQ(std::memcmp(kept->data, "kept", 4), 0);
  pair.there.wires.held.clear();
  pair.there.endpoint.release(*kept);
  pair.settle();
  EXPECT_EQ(pair.violation(), "");
}

TEST(StrictOrder, messages_that_nobody_has_taken_yet_come_before_growth) {
  SimulatedPair pair{strict_settings()};
  ASSERT_EQ(pair.send("first"), 5u);
  EXPECT_EQ(pair.send(kStrictLarge), 0u);
  pair.settle(3);
  pair.there.wires.log = true;
  EXPECT_EQ(pair.there.endpoint.receive().phase(), 0u);
  EXPECT_EQ(pair.receive(), "first");
  pair.settle(3);
  EXPECT_EQ(pair.there.endpoint.receive().phase(), 1u);
  EXPECT_EQ(pair.there.wires.journal,
            (std::vector<std::string>{"unregister", "release", "provision receive"}));
  EXPECT_EQ(pair.violation(), "");
}

/// What an answer with only its head looks like.
void show_head(SimulatedPair& pair, std::uint32_t sequence) {
  const std::uint32_t head = tag_of(sequence);
  store(pair.here.control + kAcknowledgementOffset, head);
}

TEST(TornAnswer, has_its_time_from_the_first_sight_of_the_head) {
  // A9: head set and tail not yet set means wait, up to a set time.
  Settings settings;
  settings.acknowledgement_timeout_ns = 50'000'000;
  SimulatedPair pair{settings};
  Endpoint& here = pair.here.endpoint;
  pair.send(kStrictLarge);
  const Nanoseconds asked = pair.now;
  pair.now = asked + 45'000'000;
  show_head(pair, here.send().sequence());
  here.progress(pair.now);
  pair.now = asked + 80'000'000;  // long after the request, and not yet so long after the head
  here.progress(pair.now);
  EXPECT_EQ(here.send().figures().repeats, 0u);
  pair.now = asked + 94'999'999;
  here.progress(pair.now);
  EXPECT_EQ(here.send().figures().repeats, 0u);
  pair.now = asked + 95'000'000;
  here.progress(pair.now);
  EXPECT_EQ(here.send().figures().repeats, 1u);
}

TEST(TornAnswer, that_is_torn_again_and_again_gets_no_more_time) {
  Settings settings;
  settings.acknowledgement_timeout_ns = 50'000'000;
  SimulatedPair pair{settings};
  Endpoint& here = pair.here.endpoint;
  pair.send(kStrictLarge);
  const std::uint32_t sequence = here.send().sequence();
  const Nanoseconds asked = pair.now;
  for (Nanoseconds later = 0; later < 50'000'000; later += 1'000'000) {
    pair.now = asked + later;
    show_head(pair, sequence + static_cast<std::uint32_t>(later / 1'000'000));
    here.progress(pair.now);
  }
  EXPECT_EQ(here.send().figures().repeats, 0u);
  pair.now = asked + 50'000'000;
  here.progress(pair.now);
  EXPECT_EQ(here.send().figures().repeats, 1u);
}

TEST(TornAnswer, whose_tail_comes_in_time_is_acted_on) {
  SimulatedPair pair{Settings{}};
  Endpoint& here = pair.here.endpoint;
  pair.send(kStrictLarge);
  pair.now += 45'000'000;
  show_head(pair, here.send().sequence());
  here.progress(pair.now);
  pair.now += 30'000'000;
  pair.settle();
  EXPECT_EQ(here.send().figures().repeats, 0u);
  EXPECT_EQ(here.send().phase(), 1u);
}

}  // namespace
}  // namespace weft::channel::test
