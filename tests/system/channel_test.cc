// The channel library over a weft device: each case is a program of its own under `weft run`
// (channel_cases.cc), as a user's would be; so are the example and the demonstration.
#include <gtest/gtest.h>

#include "support/run_weft.h"

namespace {

using weft::test::Ended;

Ended run_case(const std::string& name) {
  return weft::test::weft({"run", "--", WEFT_BIN_DIR "/channel_cases", name});
}

/// With a library of ours between the program and the device.
Ended run_case_with(const std::string& library, const std::string& name) {
  const std::string path = WEFT_BIN_DIR "/../lib/lib" + library + ".so";
  return weft::test::weft({"run", "--", "sh", "-c",
                           "LD_PRELOAD=" + path + ":$LD_PRELOAD exec \"$0\" \"$1\"",
                           WEFT_BIN_DIR "/channel_cases", name});
}

/// The sanitizer's runtime would have to come before such a library, which calls it too early.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kTakesLibraries = false;
#else
constexpr bool kTakesLibraries = true;
#endif

#define HOLDS_UNDER_WEFT(name)        \
  const Ended ended = run_case(name); \
  EXPECT_EQ(ended.exit_status(), 0) << ended.output

TEST(ChannelSystem, messages_of_all_sizes_arrive_whole) {
  // A15: through the small ring, the large ring, and read in place.
  HOLDS_UNDER_WEFT("messages_of_all_sizes");
}

TEST(ChannelSystem, only_the_connection_that_needs_it_grows) {
  // A12: 999 quiet neighbours of a busy one stay small, on both sides, and a figure shows it.
  HOLDS_UNDER_WEFT("the_busy_one_of_a_thousand_grows");
  EXPECT_TRUE(ended.says("999 of 1000 stayed small")) << ended.output;
}

TEST(ChannelSystem, a_key_of_one_connection_opens_no_other) {
  // A1: rings are not shared, and another connection's key is refused.
  HOLDS_UNDER_WEFT("a_key_of_one_connection_opens_no_other");
}

TEST(ChannelSystem, unusual_settings_are_warned_of) {
  // A2: who set a ratio below ten hears of it.
  HOLDS_UNDER_WEFT("unusual_settings_are_warned_of");
  EXPECT_TRUE(ended.says("weft: channel settings: phases[1].payload_bytes: 6999 is less than 10"))
      << ended.output;
  EXPECT_FALSE(ended.says("9999")) << ended.output;
}

TEST(ChannelSystem, a_vector_goes_as_far_as_it_can_and_the_rest_later) {
  // A4: between processes; the message arrives whole.
  HOLDS_UNDER_WEFT("a_vector_goes_as_far_as_it_can");
}

TEST(ChannelSystem, policies_judge_vectors_differently) {
  // A5: each by what it takes at once, the phase that it ends in, and the steps to it.
  HOLDS_UNDER_WEFT("policies_judge_differently");
}

TEST(ChannelSystem, the_sender_makes_its_ring_when_it_was_told_to) {
  // A13: before the control message, before the answer, or behind it.
  HOLDS_UNDER_WEFT("the_sender_makes_its_ring_when_it_was_told_to");
}

TEST(ChannelSystem, a_sender_that_waits_for_room_is_woken) {
  // A22: it has sent a part of a message, and slept when the peer made room for the rest.
  HOLDS_UNDER_WEFT("a_sender_that_waits_for_room_is_woken");
}

TEST(ChannelSystem, channels_grow_through_three_phases_and_back) {
  // A8, A14, A21: the slot for answers outlives the rings; small messages use the largest one too.
  HOLDS_UNDER_WEFT("three_phases_and_back");
}

TEST(ChannelSystem, a_channel_may_start_in_any_phase) {
  // A21: then nothing is asked for.
  HOLDS_UNDER_WEFT("a_channel_may_start_in_any_phase");
}

TEST(ChannelSystem, small_buffers_are_kept_or_freed_as_the_user_wants) {
  // A11: strict or flowing.
  HOLDS_UNDER_WEFT("small_buffers_are_kept_or_freed");
}

TEST(ChannelSystem, strict_mode_waits_and_flowing_mode_does_not) {
  // A20: while nobody has answered a control message.
  HOLDS_UNDER_WEFT("strict_mode_waits_and_flowing_mode_does_not");
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
  // A18: all rings, both sides, of the same depth, with what alignment costs.
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

class ChannelConnect : public testing::TestWithParam<const char*> {};

TEST_P(ChannelConnect, ends_with_a_message_at) {
  // By waiting calls, by others and in coroutines; the context is as good as before.
  HOLDS_UNDER_WEFT(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Failing, ChannelConnect,
    testing::Values("a_host_that_cannot_be_reached", "a_name_that_nobody_has",
                    "a_port_where_nobody_listens", "a_listener_that_rejects",
                    "a_listener_of_another_protocol", "a_listener_that_never_answers",
                    "a_listener_that_dies_in_the_middle", "a_client_of_another_protocol",
                    "a_connection_that_is_not_wanted_any_more", "a_budget_that_has_no_room"),
    [](const auto& one) { return std::string(one.param); });

TEST(ChannelSystem, a_connection_survives_each_call_that_fails) {
  if (!kTakesLibraries) GTEST_SKIP() << "the sanitizer's runtime comes first";
  for (const char* name : {"every_call_may_fail", "every_call_may_fail_in_a_coroutine"}) {
    const Ended ended = run_case_with("failing_calls", name);
    EXPECT_EQ(ended.exit_status(), 0) << ended.output;
    // Both ends, from the first call to the last.
    for (const char* call : {"rdma_create_id", "ibv_alloc_pd", "ibv_create_srq", "ibv_reg_mr",
                             "rdma_create_qp", "rdma_connect", "rdma_accept"}) {
      EXPECT_TRUE(ended.says(call)) << call << "\n" << ended.output;
    }
  }
}

TEST(ChannelSystem, without_a_device_a_program_hears_what_to_do) {
  // The examples end, and say so too: both processes of the first one.
  const Ended none =
      weft::test::Started({WEFT_BIN_DIR "/channel_cases", "without_a_device"}).wait();
  if (none.exit_status() != 0) GTEST_SKIP() << "this machine has a device: " << none.output;
  EXPECT_TRUE(none.says("start the program with `weft run --`")) << none.output;
  for (const char* example : {"example_channel_hello", "example_channel_coroutines"}) {
    const Ended ended =
        weft::test::Started({"timeout", "60", std::string(WEFT_BIN_DIR "/") + example}).wait();
    EXPECT_NE(ended.exit_status(), 0) << ended.output;
    EXPECT_NE(ended.exit_status(), 124) << "it hangs: " << ended.output;
    EXPECT_TRUE(ended.says("start the program with `weft run --`")) << ended.output;
  }
}

TEST(ChannelSystem, memory_is_given_back_and_used_again) {
  // A11: in both modes.
  for (const char* name :
       {"memory_is_given_back_and_used_again", "strict_memory_is_given_back_and_used_again"}) {
    const Ended ended = run_case(name);
    EXPECT_EQ(ended.exit_status(), 0) << name << "\n" << ended.output;
  }
}

#ifndef __SANITIZE_ADDRESS__  // which keeps what is freed
TEST(ChannelSystem, freed_memory_leaves_the_resident_size) {
  // A11: in both modes.
  for (const char* name :
       {"freed_memory_leaves_the_resident_size", "strict_freed_memory_leaves_the_resident_size"}) {
    const Ended ended = run_case(name);
    EXPECT_EQ(ended.exit_status(), 0) << name << "\n" << ended.output;
  }
}
#endif

TEST(ChannelSystem, an_old_key_is_refused) {
  // A11: a peer that still uses it gets a remote access error.
  for (const char* name : {"an_old_key_is_refused", "a_strict_receivers_old_key_is_refused"}) {
    const Ended ended = run_case(name);
    EXPECT_EQ(ended.exit_status(), 0) << name << "\n" << ended.output;
  }
}

TEST(ChannelSystem, a_strict_growth_makes_its_calls_in_the_order_of_the_figures) {
  // A7, A10, A11: as a device sees them.
  if (!kTakesLibraries) GTEST_SKIP() << "the sanitizer's runtime comes first";
  const Ended ended = run_case_with("verbs_tracer", "the_order_of_the_figures");
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
}

class ChannelPinned : public testing::TestWithParam<const char*> {};

TEST_P(ChannelPinned, holds_on_a_device_that_pins_memory) {
  // A19: where the device has, under a key, the pages that were there when they were registered.
  if (!kTakesLibraries) GTEST_SKIP() << "the sanitizer's runtime comes first";
  const Ended ended = run_case_with("pinning_device", GetParam());
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
}

INSTANTIATE_TEST_SUITE_P(
    Case, ChannelPinned,
    testing::Values("messages_of_all_sizes", "the_busy_one_of_a_thousand_grows", "a_budget_is_kept",
                    "shrinks_and_gives_memory_back", "growing_leaves_no_memory_behind",
                    "small_messages_travel_in_batches", "threads_use_different_channels",
                    "windows_are_closed_by_either_end", "a_loan_can_be_taken_back",
                    "lean_channels_sleep_and_wake", "a_killed_peer_is_noticed",
                    "memory_is_given_back_and_used_again",
                    "strict_memory_is_given_back_and_used_again",
                    "freed_memory_leaves_the_resident_size",
                    "strict_freed_memory_leaves_the_resident_size", "an_old_key_is_refused",
                    "a_strict_receivers_old_key_is_refused"),
    [](const auto& one) { return std::string(one.param); });

TEST(ChannelSystem, the_example_of_the_readme_runs) {
  // A19: between two processes.
  const Ended ended = weft::test::weft({"run", "--", WEFT_BIN_DIR "/example_channel_hello"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("got 5 bytes: hello")) << ended.output;
  EXPECT_TRUE(ended.says("got 10000 bytes: xxxxx")) << ended.output;
  EXPECT_TRUE(ended.says("thank you")) << ended.output;
}

TEST(ChannelSystem, channels_grow_between_hosts_too) {
  // A19: over Ethernet, here between two network namespaces.
  const Ended ended = weft::test::Started({"/usr/bin/env", "python3",
                                           WEFT_TEST_DATA "/../bench/channel/namespaces.py",
                                           WEFT_BIN_DIR, "--only", "many", "--many", "200"})
                          .wait();
  if (ended.says("no network namespaces here")) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("grown                          2.000")) << ended.output;
}

TEST(ChannelSystem, coroutines_wait_for_messages_and_connections) {
  const Ended ended = weft::test::weft({"run", "--", WEFT_BIN_DIR "/example_channel_coroutines"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("10 bytes came back: aaaaaaaaaa")) << ended.output;
  EXPECT_TRUE(ended.says("10000 bytes came back: bbbbbbbbbb")) << ended.output;
  EXPECT_TRUE(ended.says("1000000 bytes came back: cccccccccc")) << ended.output;
}

TEST(ChannelSystem, the_demonstration_loses_nothing) {
  const Ended ended = weft::test::weft(
      {"run", "--", WEFT_BIN_DIR "/weft-channel", "demo", "--channels", "100", "--seconds", "3"});
  EXPECT_EQ(ended.exit_status(), 0) << ended.output;
  EXPECT_TRUE(ended.says("Every message arrived whole, in order and once.")) << ended.output;
}

}  // namespace
