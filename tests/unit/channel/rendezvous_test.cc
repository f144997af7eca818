// Messages that are read where they are, and back-pressure.
#include <gtest/gtest.h>

#include <array>

#include "unit/channel/simulated_pair.h"

namespace weft::channel::test {
namespace {

TEST(Rendezvous, what_exceeds_the_largest_phase_is_read_by_the_receiver) {
  // A15: 0 bytes until it was read; then the key is closed.
  SimulatedPair pair{Settings{}};
  const std::string huge(300000, 'h');
  EXPECT_EQ(pair.send(huge), 0u);
  EXPECT_EQ(pair.here.wires.open_loans, 1);
  EXPECT_EQ(pair.send(huge), 0u);
  EXPECT_EQ(pair.here.wires.open_loans, 1);
  pair.settle();
  EXPECT_EQ(pair.send(huge), huge.size());
  EXPECT_EQ(pair.here.wires.open_loans, 0);
  EXPECT_EQ(pair.receive(), huge);
  EXPECT_EQ(pair.here.endpoint.send().phase(), 0u);
}

TEST(Rendezvous, a_lost_connection_leaves_no_key_open) {
  SimulatedPair pair{Settings{}};
  const std::string huge(300000, 'h');
  const std::uint32_t loan =
      pair.here.endpoint.lend(std::as_bytes(std::span(huge.data(), huge.size())));
  ASSERT_NE(loan, 0u);
  EXPECT_EQ(pair.here.wires.open_loans, 1);
  EXPECT_FALSE(pair.here.endpoint.send().loan_done(loan));
  pair.there.wires.die();
  pair.here.endpoint.end_loans();
  EXPECT_EQ(pair.here.wires.open_loans, 0);
  EXPECT_TRUE(pair.here.endpoint.send().loan_done(loan));
}

TEST(Rendezvous, opens_the_bytes_to_the_peer_only_from_the_offer_until_it_has_read_them) {
  Settings settings;
  settings.loan_end = LoanEnd::kPeerCloses;
  SimulatedPair pair{settings};
  const std::string huge(300000, 'h');
  const auto before = pair.keys.live.size();
  const auto is_open = [&] { return pair.keys.live.size() > before; };
  const std::uint32_t loan =
      pair.here.endpoint.lend(std::as_bytes(std::span(huge.data(), huge.size())));
  ASSERT_NE(loan, 0u);
  EXPECT_FALSE(is_open()) << "a window opens by work of the queue pair";
  while (pair.here.wires.execute()) {
  }
  EXPECT_TRUE(is_open());
  pair.there.endpoint.progress(pair.now);  // finds the offer
  pair.there.endpoint.progress(pair.now);  // reads
  while (pair.there.wires.execute()) {
  }
  EXPECT_FALSE(pair.here.endpoint.send().loan_done(loan));
  SimulatedPair::complete(pair.there);  // and returns the key
  while (pair.there.wires.execute()) {
  }
  pair.here.wires.starved = true;  // nothing here is needed for that
  SimulatedPair::complete(pair.here);
  EXPECT_TRUE(pair.here.endpoint.send().loan_done(loan));
  EXPECT_EQ(pair.here.wires.open_loans, 0);
  EXPECT_EQ(pair.receive(), huge);
  EXPECT_EQ(pair.violation(), "");
}

TEST(Rendezvous, works_where_the_device_has_no_windows) {
  SimulatedPair pair{Settings{}};
  pair.here.wires.windows = false;
  const std::string huge(300000, 'h');
  EXPECT_EQ(pair.send(huge), 0u);
  pair.settle();
  EXPECT_EQ(pair.send(huge), huge.size());
  EXPECT_EQ(pair.here.wires.open_loans, 0);
  EXPECT_EQ(pair.receive(), huge);
}

TEST(Rendezvous, window_that_the_sender_closes_is_closed_when_the_peer_has_said_so) {
  SimulatedPair pair{Settings{}};
  const std::string huge(300000, 'h');
  const auto before = pair.keys.live.size();
  const std::uint32_t loan =
      pair.here.endpoint.lend(std::as_bytes(std::span(huge.data(), huge.size())));
  while (pair.here.wires.execute()) {
  }
  EXPECT_EQ(pair.keys.live.size(), before + 1);
  for (int i = 0; i < 3; ++i) {
    pair.there.endpoint.progress(pair.now);  // reads, and says so
    while (pair.there.wires.execute()) {
    }
    SimulatedPair::complete(pair.there);
  }
  pair.here.endpoint.progress(pair.now);
  EXPECT_FALSE(pair.here.endpoint.send().loan_done(loan)) << "the key still works";
  while (pair.here.wires.execute()) {
  }
  SimulatedPair::complete(pair.here);
  pair.here.endpoint.progress(pair.now);
  EXPECT_TRUE(pair.here.endpoint.send().loan_done(loan));
  EXPECT_EQ(pair.here.wires.open_loans, 0);
  EXPECT_EQ(pair.receive(), huge);
  EXPECT_EQ(pair.keys.live.size(), before);
}

enum class Keyed : std::uint8_t { kSenderCloses, kPeerCloses, kRegions };

class Recall : public testing::TestWithParam<Keyed> {
 protected:
  Recall() { pair.here.wires.windows = GetParam() != Keyed::kRegions; }
  static Settings settings() {
    Settings chosen;
    if (GetParam() == Keyed::kPeerCloses) chosen.loan_end = LoanEnd::kPeerCloses;
    return chosen;
  }
  std::uint32_t lend(const std::string& text) {
    return pair.here.endpoint.lend(std::as_bytes(std::span(text.data(), text.size())));
  }
  bool done(std::uint32_t loan) const { return pair.here.endpoint.send().loan_done(loan); }

  SimulatedPair pair{settings()};
  const std::string huge = std::string(300000, 'h'), other = std::string(70000, 'o');
};

TEST_P(Recall, is_heeded_by_a_peer_that_has_not_begun_to_read) {
  pair.there.wires.starved = true;
  const std::uint32_t loan = lend(huge), second = lend(other);
  pair.settle();
  ASSERT_FALSE(done(loan) || done(second));
  pair.here.endpoint.recall(loan);
  pair.settle();
  EXPECT_TRUE(done(loan));
  EXPECT_TRUE(pair.here.endpoint.was_left(loan));
  EXPECT_EQ(pair.here.wires.open_loans, 1);
  pair.there.wires.starved = false;
  pair.settle();
  EXPECT_TRUE(done(second));
  EXPECT_FALSE(pair.here.endpoint.was_left(second));
  EXPECT_EQ(pair.receive(), other) << "without the one that was recalled";
  EXPECT_EQ(pair.here.wires.open_loans, 0);
  EXPECT_EQ(pair.violation(), "");
}

TEST_P(Recall, comes_too_late_for_what_was_read) {
  const std::uint32_t loan = lend(huge);
  while (pair.here.wires.execute()) {
  }
  pair.there.endpoint.progress(pair.now);  // finds the offer
  pair.there.endpoint.progress(pair.now);  // begins to read
  pair.here.endpoint.recall(loan);
  pair.settle();
  EXPECT_TRUE(done(loan));
  EXPECT_FALSE(pair.here.endpoint.was_left(loan));
  EXPECT_EQ(pair.receive(), huge);
}

// A peer that slept finds the offer and the recall one after the other, each by a look of its own.
TEST_P(Recall, is_seen_before_an_offer_is_read_that_was_found_just_now) {
  const std::uint32_t loan = lend(huge);
  while (pair.here.wires.execute()) {
  }
  pair.there.endpoint.progress(pair.now);  // finds the offer
  pair.here.endpoint.recall(loan);
  pair.here.endpoint.revoke(loan);
  while (pair.here.wires.execute()) {
  }
  pair.settle();
  EXPECT_EQ(pair.violation(), "");
  EXPECT_EQ(pair.send("next"), 4u);
  pair.settle();
  EXPECT_EQ(pair.receive(), "next");
}

TEST_P(Recall, is_seen_by_a_peer_that_wakes_after_the_key_was_closed) {
  const std::uint32_t loan = lend(huge);
  pair.here.endpoint.recall(loan);
  while (pair.here.wires.execute()) {
  }
  EXPECT_FALSE(done(loan)) << "the peer has not answered";
  pair.here.endpoint.revoke(loan);
  EXPECT_TRUE(done(loan));
  EXPECT_TRUE(pair.here.endpoint.was_left(loan));
  EXPECT_EQ(pair.here.wires.open_loans, 0);
  pair.settle();  // the peer wakes, and reads nothing
  EXPECT_EQ(pair.send("next"), 4u);
  pair.settle();
  EXPECT_EQ(pair.receive(), "next");
  EXPECT_EQ(pair.violation(), "");
  EXPECT_FALSE(pair.here.endpoint.busy());
}

// Two ends cannot agree within a deadline: then they must not go on as if they had.
TEST_P(Recall, that_did_not_wait_ends_the_channel_if_the_message_had_been_read) {
  // A15: a rendezvous that was taken back.
  const std::uint32_t loan = lend(huge);
  while (pair.here.wires.execute()) {
  }
  pair.there.endpoint.progress(pair.now);  // finds the offer
  pair.there.endpoint.progress(pair.now);  // begins to read
  pair.there.wires.execute();              // and has read
  pair.here.endpoint.recall(loan);
  pair.here.endpoint.revoke(loan);
  EXPECT_TRUE(pair.here.endpoint.was_left(loan));
  pair.settle();
  EXPECT_TRUE(pair.here.endpoint.failed() || pair.there.wires.dead);
}

TEST_P(Recall, of_a_piece_leaves_the_rest_of_its_message_to_be_sent) {
  pair.there.wires.starved = true;
  EXPECT_EQ(pair.send(huge), 0u);
  pair.settle();
  const std::uint32_t loan = pair.here.endpoint.send().lent_by_take();
  ASSERT_NE(loan, 0u);
  pair.here.endpoint.recall(loan);
  pair.settle();
  EXPECT_TRUE(done(loan));
  EXPECT_EQ(pair.here.endpoint.send().rest_bytes(), 0u);
  EXPECT_EQ(pair.send("instead"), 7u);
  pair.settle();
  EXPECT_EQ(pair.receive(), "instead");
}

std::string name_of_keys(const testing::TestParamInfo<Keyed>& param) {
  constexpr std::array kNames{"sender_closes", "peer_closes", "regions"};
  return kNames[static_cast<std::size_t>(param.param)];
}
INSTANTIATE_TEST_SUITE_P(Keys, Recall,
                         testing::Values(Keyed::kSenderCloses, Keyed::kPeerCloses, Keyed::kRegions),
                         name_of_keys);

TEST(Rendezvous, keeps_its_place_among_small_messages) {
  SimulatedPair pair{Settings{}};
  const std::string huge(300000, 'h');
  EXPECT_EQ(pair.send("before"), 6u);
  EXPECT_EQ(pair.send(huge), 0u);
  EXPECT_EQ(pair.send("after"), 5u);
  pair.settle();
  EXPECT_EQ(pair.receive(), "before");
  EXPECT_EQ(pair.receive(), huge);
  pair.settle();
  EXPECT_EQ(pair.receive(), "after");
}

TEST(Rendezvous, can_be_chosen_in_every_phase) {
  // A15: eager and rendezvous, block 340 and block 356.
  Settings settings;
  settings.transfer = {Transfer::kRendezvous, Transfer::kRendezvous};
  SimulatedPair pair{settings};
  const std::string small = "small", large(5000, 'l');
  for (const std::string& text : {small, large}) {
    for (int i = 0; i < 5 && pair.send(text) == 0; ++i) pair.settle();
    EXPECT_EQ(pair.receive(), text);
  }
  EXPECT_EQ(pair.here.endpoint.send().phase(), 1u);
  EXPECT_EQ(pair.here.endpoint.send().figures().loans, 2u);
}

TEST(Rendezvous, several_elements_become_one_message) {
  SimulatedPair pair{Settings{}};
  std::string a(100, 'a'), b(50000, 'b'), c(70000, 'c');
  std::vector<iovec> vector{{a.data(), a.size()}, {b.data(), b.size()}, {c.data(), c.size()}};
  std::span<iovec> left(vector);
  for (int i = 0; i < 50 && !left.empty(); ++i) {
    std::uint64_t taken = pair.here.endpoint.take(left, 0, pair.now);
    while (taken > 0) {
      taken -= left[0].iov_len;
      left = left.subspan(1);
    }
    pair.settle(3);
    if (auto got = pair.receive()) {
      EXPECT_EQ(*got, a + b + c);
      return;
    }
  }
  pair.settle();
  EXPECT_EQ(pair.receive(), a + b + c);
  EXPECT_EQ(pair.here.wires.open_loans, 0);
}

TEST(Rendezvous, waits_while_the_receiver_has_no_memory) {
  SimulatedPair pair{Settings{}};
  pair.there.wires.starved = true;
  const std::string huge(300000, 'h');
  pair.send(huge);
  pair.settle();
  EXPECT_EQ(pair.send(huge), 0u);
  pair.there.wires.starved = false;
  pair.settle();
  EXPECT_EQ(pair.send(huge), huge.size());
  EXPECT_EQ(pair.receive(), huge);
}

TEST(Rendezvous, without_a_key_the_message_goes_in_pieces) {
  SimulatedPair pair{Settings{}};
  pair.here.wires.no_loans = true;
  const std::string huge(20000, 'h');
  std::size_t sent = 0;
  std::optional<std::string> got;
  for (int i = 0; i < 200 && !got; ++i) {
    const iovec rest{const_cast<char*>(huge.data()) + sent, huge.size() - sent};
    if (sent < huge.size()) sent += pair.here.endpoint.take({&rest, 1}, 0, pair.now);
    pair.settle(2);
    got = pair.receive();
  }
  EXPECT_EQ(got, huge);
}

TEST(Rendezvous, an_end_in_the_middle_leaves_no_key_open) {
  SimulatedPair pair{Settings{}};
  const std::string huge(300000, 'h');
  pair.send(huge);
  EXPECT_EQ(pair.here.wires.open_loans, 1);
  pair.stop();
  EXPECT_EQ(pair.here.wires.open_loans, 0);
}

TEST(BackPressure, a_receiver_that_does_not_receive_stops_the_sender) {
  SimulatedPair pair{Settings{}};
  int taken = 0;
  while (taken < 10000 && pair.send(std::string(400, 'x')) > 0) {
    ++taken;
    pair.settle(1);
  }
  EXPECT_GE(taken, 3);
  EXPECT_LE(taken, 4);
  EXPECT_TRUE(pair.receive());
  EXPECT_TRUE(pair.receive());
  pair.settle(2);
  EXPECT_EQ(pair.send(std::string(400, 'x')), 400u);
}

TEST(BackPressure, small_messages_share_a_frame_while_there_is_no_room) {
  SimulatedPair pair{Settings{}};
  int taken = 0;
  while (taken < 10000 && pair.send("12345678") > 0) ++taken;
  EXPECT_GT(taken, 30);
  pair.settle();
  int got = 0;
  for (; pair.receive(); ++got) pair.settle(1);
  EXPECT_EQ(got, taken);
}

TEST(Closing, delivers_what_was_sent_and_then_ends) {
  SimulatedPair pair{Settings{}};
  EXPECT_EQ(pair.send("last words"), 10u);
  EXPECT_TRUE(pair.here.endpoint.close());
  pair.settle();
  EXPECT_FALSE(pair.here.endpoint.send().drained());
  EXPECT_EQ(pair.receive(), "last words");
  pair.settle();
  EXPECT_TRUE(pair.here.endpoint.send().drained());
  EXPECT_TRUE(pair.there.endpoint.receive().at_end());
}

}  // namespace
}  // namespace weft::channel::test
