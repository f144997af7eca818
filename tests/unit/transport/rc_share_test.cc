// How reliable streams share a link, in virtual time (B2.1).
#include <gtest/gtest.h>

#include "unit/transport/shared_link.h"

namespace weft::test {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;

struct Shares {
  double first, second;  ///< bytes per second

  double smaller_of_larger() const { return std::min(first, second) / std::max(first, second); }
};

/// Of two streams, the second of which comes later, from a second after that on.
Shares share(const LinkKind& kind, Nanoseconds later) {
  SharedLink link(kind);
  link.add_stream(0);
  link.add_stream(later);
  link.run_until(later + 1000 * kMillisecond);
  const std::uint64_t first = link.carried(0), second = link.carried(1);
  link.run_until(later + 2000 * kMillisecond);
  return {static_cast<double>(link.carried(0) - first),
          static_cast<double>(link.carried(1) - second)};
}

void expect_alike(const LinkKind& kind) {
  for (const Nanoseconds later : {0 * kMillisecond, 300 * kMillisecond}) {
    const Shares got = share(kind, later);
    EXPECT_GE(got.smaller_of_larger(), 0.8)
        << later << " ns apart: " << got.first << " and " << got.second;
    EXPECT_GT(got.first + got.second, 0.8 * static_cast<double>(kind.bytes_per_second));
  }
}

TEST(SharedLink, gives_two_streams_the_same) {
  // B2.1
  expect_alike({.bytes_per_second = 125'000'000, .queue_bytes = 512 << 10});
}

#if !defined( \
    __SANITIZE_ADDRESS__)  // They take long there, and it sees the same code in the others.
TEST(SharedLink, gives_two_streams_the_same_however_long_its_queue_may_become) {
  expect_alike({.bytes_per_second = 125'000'000, .queue_bytes = 2 << 20});
}

TEST(SharedLink, gives_two_streams_the_same_when_it_is_quick) {
  expect_alike({.bytes_per_second = 500'000'000, .queue_bytes = 1 << 20});
}
#endif

TEST(SharedLink, gives_two_streams_the_same_when_it_is_slow) {
  expect_alike({.bytes_per_second = 25'000'000, .queue_bytes = 400 << 10});
}

TEST(SharedLink, carries_two_fifths_when_it_loses_one_frame_in_a_hundred) {
  // B2.1: 8 Gbit/s, 1 % loss
  std::uint64_t carried[2];
  for (const std::uint32_t loss_ppm : {0u, 10'000u}) {
    SharedLink link({.bytes_per_second = 1'000'000'000,
                     .queue_bytes = 1 << 20,
                     .delay_ns = 10'000,
                     .loss_ppm = loss_ppm});
    link.add_stream(0);
    link.run_until(300 * kMillisecond);
    carried[loss_ppm == 0 ? 0 : 1] = link.carried(0);
  }
  EXPECT_GT(carried[1], carried[0] * 2 / 5) << carried[0] << " bytes without losses";
}

TEST(SharedLink, is_used_by_a_stream_that_is_alone) {
  SharedLink link({.bytes_per_second = 125'000'000, .queue_bytes = 512 << 10});
  link.add_stream(0);
  link.run_until(1000 * kMillisecond);
  EXPECT_GT(link.carried(0), 110'000'000u);
}

}  // namespace
}  // namespace weft::test
