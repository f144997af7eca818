#include "port/identification_book.h"

#include <gtest/gtest.h>

namespace weft::port {
namespace {

const Gid kPeer = Gid::ipv4(10, 0, 0, 1);
constexpr std::uint16_t kPort = 50'000;

TEST(IdentificationBook, takes_places_in_a_batch_from_a_sender_like_weft_and_nothing_else) {
  IdentificationBook book;
  book.note_place(kPeer, kPort);
  for (std::uint16_t place = 0; place < IdentificationBook::kLongestBatch; ++place) {
    EXPECT_TRUE(book.accept(kPeer, kPort, place)) << place;
  }
  EXPECT_FALSE(book.accept(kPeer, kPort, 1000));
  EXPECT_FALSE(book.accept(kPeer, kPort, 40'000)) << "damage is not a sender that counts";
  EXPECT_FALSE(book.accept(kPeer, kPort, 200));
  EXPECT_TRUE(book.accept(kPeer, kPort, 5));
}

TEST(IdentificationBook, follows_a_sender_that_counts_also_around_the_end) {
  IdentificationBook book;
  for (std::uint32_t i = 65'000; i < 70'000; i += 3) {
    EXPECT_TRUE(book.accept(kPeer, kPort, static_cast<std::uint16_t>(i))) << i;
  }
  EXPECT_TRUE(book.accept(kPeer, kPort, static_cast<std::uint16_t>(69'990))) << "it was overtaken";
  EXPECT_FALSE(book.accept(kPeer, kPort, 30'000));
}

TEST(IdentificationBook, believes_a_jump_when_the_next_frame_goes_on_from_there) {
  IdentificationBook book;
  book.note_place(kPeer, kPort);
  EXPECT_FALSE(book.accept(kPeer, kPort, 500));
  EXPECT_TRUE(book.accept(kPeer, kPort, 501)) << "it counts after all";
  EXPECT_TRUE(book.accept(kPeer, kPort, 510));
  EXPECT_FALSE(book.accept(kPeer, kPort, 40'000));
  EXPECT_TRUE(book.accept(kPeer, kPort, 40'002));
  EXPECT_TRUE(book.accept(kPeer, kPort, 40'003));
}

TEST(IdentificationBook, keeps_senders_apart) {
  IdentificationBook book;
  EXPECT_TRUE(book.accept(kPeer, kPort, 50'000));
  EXPECT_TRUE(book.accept(Gid::ipv4(10, 0, 0, 2), kPort, 100));
  EXPECT_TRUE(book.accept(kPeer, kPort + 1, 200)) << "another socket of the same";
  EXPECT_TRUE(book.accept(kPeer, kPort, 50'001));
  EXPECT_FALSE(book.accept(kPeer, kPort, 201));
}

}  // namespace
}  // namespace weft::port
