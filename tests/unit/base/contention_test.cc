#include "base/contention.h"

#include <gtest/gtest.h>

namespace weft::base {
namespace {

constexpr Nanoseconds kMs = 1'000'000;

TEST(Contention, is_seen_by_a_thread_that_spins_and_does_not_run) {
  Contention contention;
  EXPECT_FALSE(contention.look(1000 * kMs, {500 * kMs, 7})) << "nothing to compare with";
  EXPECT_FALSE(contention.look(1004 * kMs, {504 * kMs, 7})) << "it ran all the time";
  EXPECT_TRUE(contention.look(1010 * kMs, {507 * kMs, 7})) << "it ran half of the time";
  EXPECT_TRUE(contention.lasts(1011 * kMs)) << "and it lasts";
}

TEST(Contention, is_not_what_a_thread_does_by_itself) {
  Contention contention;
  contention.look(1000 * kMs, {500 * kMs, 7});
  EXPECT_FALSE(contention.look(1010 * kMs, {502 * kMs, 8})) << "it slept";
  EXPECT_FALSE(contention.look(4010 * kMs, {502 * kMs, 8})) << "it did not come for long";
  EXPECT_FALSE(contention.look(4020 * kMs, {511 * kMs, 8})) << "a tenth is nothing";
}

TEST(Contention, is_given_way_to_for_longer_when_it_begins_again) {
  Contention contention;
  Nanoseconds now = 1000 * kMs, cpu = 0, lasted = 0;
  contention.look(now, {cpu, 0});
  for (int turn = 0; turn < 8; ++turn) {
    now += 10 * kMs;
    cpu += 5 * kMs;
    ASSERT_TRUE(contention.look(now, {cpu, 0})) << turn;
    const Nanoseconds begun = now;
    while (contention.lasts(now) && now < begun + 10'000 * kMs) now += kMs;
    EXPECT_GE(now - begun, lasted);
    lasted = now - begun;
    contention.look(now, {cpu, 0});
  }
  EXPECT_GT(lasted, 500 * kMs);
  EXPECT_LT(lasted, 5'000 * kMs) << "it ends";
}

TEST(Contention, the_time_of_a_thread_grows_when_it_runs) {
  const ThreadTime before = thread_time();
  volatile unsigned work = 0;
  ThreadTime after = before;
  for (int i = 0; i < 100'000'000 && after.cpu_ns == before.cpu_ns; ++i) {
    work = work + 1;
    if (i % 1000 == 0) after = thread_time();
  }
  EXPECT_GT(after.cpu_ns, before.cpu_ns);
}

}  // namespace
}  // namespace weft::base
