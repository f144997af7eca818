// What a simulation is driven by: events in order, and bytes that a number names.
#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <utility>

#include "sim/pattern.h"

namespace weft::sim {
namespace {

TEST(EventQueue, gives_events_by_time_and_then_by_announcement) {
  struct Nobody final : Actor {
    void on_event(std::uint64_t) override {}
  } nobody;
  EventQueue queue;
  for (const auto& [when, token] : {std::pair{5u, 1u}, {3u, 2u}, {5u, 3u}, {3u, 4u}, {4u, 5u}}) {
    queue.at(when, nobody, token);
  }
  std::vector<std::uint64_t> tokens;
  while (!queue.empty()) tokens.push_back(queue.pop().token);
  EXPECT_EQ(tokens, (std::vector<std::uint64_t>{2, 4, 5, 1, 3}));
  EXPECT_EQ(queue.next_time(), kNever);
}

TEST(Pattern, is_the_same_whatever_pieces_it_is_made_in) {
  std::vector<std::byte> whole(100), pieces(100);
  fill_pattern(5, 3, whole);
  for (std::size_t at = 0, n = 1; at < 100; at += n, n = std::min<std::size_t>(n + 4, 100 - at)) {
    fill_pattern(5, 3 + at, std::span(pieces).subspan(at, n));
  }
  EXPECT_EQ(whole, pieces);
}

TEST(Pattern, begins_a_message_with_its_number) {
  std::vector<std::byte> message(20);
  fill_message(1, 4711, message);
  EXPECT_EQ(sequence_in(message), 4711u);
}

}  // namespace
}  // namespace weft::sim
