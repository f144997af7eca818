// Messages that are read where they are, and back-pressure.
#include <gtest/gtest.h>

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
