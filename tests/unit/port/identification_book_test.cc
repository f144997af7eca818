#include "port/identification_book.h"

#include <gtest/gtest.h>

namespace weft::port {
namespace {

const Gid kPeer = Gid::ipv4(10, 0, 0, 1), kOther = Gid::ipv4(10, 0, 0, 2);
constexpr std::uint16_t kPort = 50'000;
constexpr Nanoseconds kNow = 1'000'000'000'000, kSecond = 1'000'000'000;

bool accept(IdentificationBook& book, const Gid& source, std::uint16_t port,
            std::uint32_t identification, Nanoseconds now = kNow) {
  return book.accept(source, port, static_cast<std::uint16_t>(identification), now);
}

TEST(IdentificationBook, takes_places_in_a_batch_from_a_sender_like_weft_and_nothing_else) {
  IdentificationBook book;
  book.note_place(kPeer, kPort);
  for (std::uint16_t place = 0; place < IdentificationBook::kLongestBatch; ++place) {
    EXPECT_TRUE(accept(book, kPeer, kPort, place)) << place;
  }
  EXPECT_FALSE(accept(book, kPeer, kPort, 1000));
  EXPECT_FALSE(accept(book, kPeer, kPort, 40'000)) << "damage is not a sender that counts";
  EXPECT_FALSE(accept(book, kPeer, kPort, 200));
  EXPECT_TRUE(accept(book, kPeer, kPort, 5));
}

TEST(IdentificationBook, follows_a_sender_that_counts_also_around_the_end) {
  IdentificationBook book;
  for (std::uint32_t i = 65'000; i < 70'000; i += 3) {
    EXPECT_TRUE(accept(book, kPeer, kPort, i)) << i;
  }
  EXPECT_TRUE(accept(book, kPeer, kPort, 69'990)) << "it was overtaken";
  EXPECT_FALSE(accept(book, kPeer, kPort, 30'000));
}

TEST(IdentificationBook, believes_a_jump_when_the_next_frame_goes_on_from_there) {
  IdentificationBook book;
  book.note_place(kPeer, kPort);
  EXPECT_FALSE(accept(book, kPeer, kPort, 500));
  EXPECT_TRUE(accept(book, kPeer, kPort, 501)) << "it counts after all";
  EXPECT_TRUE(accept(book, kPeer, kPort, 510));
  EXPECT_FALSE(accept(book, kPeer, kPort, 40'000));
  EXPECT_TRUE(accept(book, kPeer, kPort, 40'002));
  EXPECT_TRUE(accept(book, kPeer, kPort, 40'003));
}

TEST(IdentificationBook, keeps_senders_apart) {
  IdentificationBook book;
  EXPECT_TRUE(accept(book, kPeer, kPort, 50'000));
  EXPECT_TRUE(accept(book, kOther, kPort, 100));
  EXPECT_TRUE(accept(book, kPeer, kPort + 1, 200)) << "another socket of the same";
  EXPECT_TRUE(accept(book, kPeer, kPort, 50'001));
  EXPECT_FALSE(accept(book, kPeer, kPort, 201));
}

TEST(IdentificationBook, follows_the_counter_that_all_sockets_of_a_host_share) {
  // B2.1: one connection waited while another one of the same peer carried 6,000 frames.
  IdentificationBook book;
  EXPECT_TRUE(accept(book, kPeer, kPort, 10'000));
  for (std::uint32_t i = 10'001; i < 70'000; i += 64) {
    ASSERT_TRUE(accept(book, kPeer, kPort + 1, i)) << i;
  }
  EXPECT_TRUE(accept(book, kPeer, kPort, 70'010)) << "far from its own last number";
  EXPECT_FALSE(accept(book, kPeer, kPort, 10'001)) << "the old one means nothing any more";
  EXPECT_TRUE(accept(book, kPeer, kPort + 2, 50)) << "new: it may be anything";
  EXPECT_TRUE(accept(book, kPeer, kPort + 1, 70'100));
  EXPECT_FALSE(accept(book, kOther, kPort, 40'000) && accept(book, kOther, kPort, 70'110))
      << "another host's";
}

TEST(IdentificationBook, lets_a_host_that_was_silent_move_on_as_its_clock_ticks) {
  // B2.1: Linux adds up to one for each tick in which nothing was sent.
  IdentificationBook book;
  EXPECT_TRUE(accept(book, kPeer, kPort, 10'000));
  EXPECT_FALSE(accept(book, kPeer, kPort, 18'000));
  EXPECT_TRUE(accept(book, kPeer, kPort, 18'000, kNow + 5 * kSecond));
  EXPECT_FALSE(accept(book, kPeer, kPort, 10'500, kNow + 6 * kSecond)) << "not backwards";
  EXPECT_TRUE(accept(book, kPeer, kPort, 10'500, kNow + 120 * kSecond)) << "once around";
}

TEST(IdentificationBook, believes_a_refused_frame_that_comes_again_later) {
  // B2.1: frames of a batch have no time, so a sender like weft that begins to count is refused
  // once; its next attempt comes after a time-out, and some ticks further on.
  IdentificationBook book;
  book.note_place(kPeer, kPort);
  EXPECT_FALSE(accept(book, kPeer, kPort, 30'000, kNow));
  EXPECT_TRUE(accept(book, kPeer, kPort, 30'900, kNow + kSecond));
  book.note_place(kOther, kPort);
  EXPECT_FALSE(accept(book, kOther, kPort, 30'000, kNow));
  EXPECT_FALSE(accept(book, kOther, kPort, 31'000, kNow + 60 * kSecond)) << "too long ago";
}

}  // namespace
}  // namespace weft::port
