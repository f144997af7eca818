// The channel library over a weft device: each case is a program of its own under `weft run`
// (channel_cases.cc), as a user's would be; so are the example and the demonstration.
#include <gtest/gtest.h>

#include "support/run_weft.h"

namespace {

using weft::test::Ended;
using weft::test::kCanPreload;

Ended run_case(const std::string& name) {
  return weft::test::weft({"run", "--", WEFT_BIN_DIR "/channel_cases", name});
}

#define HOLDS_UNDER_WEFT(name)                    \
  if (!kCanPreload) GTEST_SKIP() << "no preload"; \
  const Ended ended = run_case(name);             \
  EXPECT_EQ(ended.exit_status(), 0) << ended.output

TEST(ChannelSystem, messages_of_all_sizes_arrive_whole) {
  // A15: through the small ring, the large ring, and read in place.
  HOLDS_UNDER_WEFT("messages_of_all_sizes");
}

TEST(ChannelSystem, only_the_connection_that_needs_it_grows) {
  // A12: 99 quiet neighbours of a busy one stay small, and a figure shows it.
  HOLDS_UNDER_WEFT("only_the_busy_one_grows");
  EXPECT_TRUE(ended.says("quiet:"));
}

TEST(ChannelSystem, of_many_channels_only_the_busy_ones_grow) {
  // A12: five hundred, one in a hundred busy; `weft bench channel --only many` has ten thousand.
  HOLDS_UNDER_WEFT("many_quiet_channels_stay_small");
}

TEST(ChannelSystem, growing_leaves_no_memory_behind) {
  HOLDS_UNDER_WEFT("growing_leaves_no_memory_behind");
}

TEST(ChannelSystem, small_messages_travel_in_batches) {
  HOLDS_UNDER_WEFT("small_messages_travel_in_batches");
}

TEST(ChannelSystem, what_was_lent_to_the_dead_comes_back) {
  HOLDS_UNDER_WEFT("what_was_lent_to_the_dead_comes_back");
}

TEST(ChannelSystem, windows_of_messages_in_place_are_closed_by_either_end) {
  HOLDS_UNDER_WEFT("windows_are_closed_by_either_end");
}

TEST(ChannelSystem, a_loan_can_be_taken_back) { HOLDS_UNDER_WEFT("a_loan_can_be_taken_back"); }

TEST(ChannelSystem, a_send_that_times_out_takes_its_memory_back) {
  // A22: when the call has ended, nobody can read what it had lent.
  HOLDS_UNDER_WEFT("a_send_that_times_out_takes_its_memory_back");
}

TEST(ChannelSystem, lean_channels_sleep_and_wake) {
  // A18: what a connection that is quiet takes.
  HOLDS_UNDER_WEFT("lean_channels_sleep_and_wake");
}

TEST(ChannelSystem, a_lean_channel_closes_like_any_other) {
  HOLDS_UNDER_WEFT("a_lean_channel_closes_like_any_other");
}

TEST(ChannelSystem, a_lean_channel_meets_one_that_is_not) {
  HOLDS_UNDER_WEFT("a_lean_channel_meets_one_that_is_not");
}

TEST(ChannelSystem, a_lean_peer_that_is_killed_is_noticed) {
  HOLDS_UNDER_WEFT("a_lean_peer_that_is_killed_is_noticed");
}

TEST(ChannelSystem, a_batch_outlives_its_channel) {
  HOLDS_UNDER_WEFT("a_batch_outlives_its_channel");
}

TEST(ChannelSystem, a_channel_is_named_once_however_much_arrives) {
  HOLDS_UNDER_WEFT("a_channel_is_named_once_however_much_arrives");
}

TEST(ChannelSystem, the_memory_of_a_connection_falls_from_256_KB_to_16_KB) {
  // A18: all rings, both sides, reported.
  HOLDS_UNDER_WEFT("memory_of_a_connection");
  EXPECT_TRUE(ended.says("growing"));
}

TEST(ChannelSystem, a_channel_shrinks_after_idle_time_and_its_memory_comes_back) {
  HOLDS_UNDER_WEFT("shrinks_and_gives_memory_back");
}

TEST(ChannelSystem, a_budget_is_kept_and_messages_still_get_through) {
  HOLDS_UNDER_WEFT("a_budget_is_kept");
}

TEST(ChannelSystem, waiting_ends_with_its_deadline) {
  // A22: a call can loop until the data is sent or a deadline passes.
  HOLDS_UNDER_WEFT("waiting_ends_with_its_deadline");
}

TEST(ChannelSystem, closing_delivers_what_was_sent) { HOLDS_UNDER_WEFT("closing_delivers"); }

TEST(ChannelSystem, several_threads_use_different_channels_at_once) {
  // A19: eight threads, four channels, one device.
  HOLDS_UNDER_WEFT("threads_use_different_channels");
}

TEST(ChannelSystem, a_descriptor_wakes_who_sleeps_on_it) {
  HOLDS_UNDER_WEFT("a_descriptor_wakes_the_sleeper");
}

TEST(ChannelSystem, who_was_not_rung_for_is_rung_in_the_end) {
  HOLDS_UNDER_WEFT("who_was_not_rung_for_is_rung_in_the_end");
}

TEST(ChannelSystem, a_message_is_copied_where_the_caller_wants_it) {
  // A16: or handed out as a view, as everywhere else.
  HOLDS_UNDER_WEFT("a_message_is_copied_where_the_caller_wants_it");
}

TEST(ChannelSystem, a_view_outlives_its_channel) {
  HOLDS_UNDER_WEFT("a_view_outlives_its_channel");
}

TEST(ChannelSystem, errors_name_their_cause) { HOLDS_UNDER_WEFT("errors_name_their_cause"); }

TEST(ChannelSystem, a_killed_peer_is_noticed_and_others_go_on) {
  HOLDS_UNDER_WEFT("a_killed_peer_is_noticed");
}

TEST(ChannelSystem, a_peer_that_overruns_its_slots_is_cut_off) {
  HOLDS_UNDER_WEFT("a_peer_that_overruns_its_slots_is_cut_off");
}

TEST(ChannelSystem, peers_that_send_what_has_no_buffer_take_nobodys_bells) {
  HOLDS_UNDER_WEFT("peers_that_send_what_has_no_buffer_take_nobodys_bells");
}

TEST(ChannelSystem, peers_that_offer_all_that_they_may_lose_nobodys_completions) {
  HOLDS_UNDER_WEFT("peers_that_offer_all_that_they_may_lose_nobodys_completions");
}

TEST(ChannelSystem, the_example_of_the_readme_runs) {
  // A19: between two processes.
  if (!kCanPreload) GTEST_SKIP() << "no preload";
  const Ended ended = weft::test::weft({"run", "--", WEFT_BIN_DIR "/example_channel_hello"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("got 5 bytes: hello")) << ended.output;
  EXPECT_TRUE(ended.says("got 10000 bytes: xxxxx")) << ended.output;
  EXPECT_TRUE(ended.says("thank you")) << ended.output;
}

TEST(ChannelSystem, channels_grow_between_hosts_too) {
  // A19: over Ethernet, here between two network namespaces.
  if (!kCanPreload) GTEST_SKIP() << "no preload";
  const Ended ended = weft::test::Started({"/usr/bin/env", "python3",
                                           WEFT_TEST_DATA "/../bench/channel/namespaces.py",
                                           WEFT_BIN_DIR, "--only", "many", "--many", "200"})
                          .wait();
  if (ended.says("no network namespaces here")) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("grown                          2.000")) << ended.output;
}

TEST(ChannelSystem, coroutines_wait_for_messages_and_connections) {
  if (!kCanPreload) GTEST_SKIP() << "no preload";
  const Ended ended = weft::test::weft({"run", "--", WEFT_BIN_DIR "/example_channel_coroutines"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("10 bytes came back: aaaaaaaaaa")) << ended.output;
  EXPECT_TRUE(ended.says("10000 bytes came back: bbbbbbbbbb")) << ended.output;
  EXPECT_TRUE(ended.says("1000000 bytes came back: cccccccccc")) << ended.output;
}

TEST(ChannelSystem, the_demonstration_loses_nothing) {
  if (!kCanPreload) GTEST_SKIP() << "no preload";
  const Ended ended = weft::test::weft(
      {"run", "--", WEFT_BIN_DIR "/weft-channel", "demo", "--channels", "100", "--seconds", "3"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("Every message arrived whole, in order and once.")) << ended.output;
}

}  // namespace
