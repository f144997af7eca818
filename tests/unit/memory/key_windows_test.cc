#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "memory/key_table.h"
#include "unit/memory/key_fixture.h"

namespace weft::memory {
namespace {

using test::kAllRemote;
using test::kEverything;

class KeyWindows : public test::Keys {
 protected:
  KeyWindows() : keys(region()), base(pages.address()) {}
  RemoteKey window(WindowType type) { return *table.allocate_window(kPd, type); }
  Errc why_not(const BindSpec& spec) {
    const auto bound = table.bind(spec);
    EXPECT_FALSE(bound) << "bound";
    return bound ? Errc{} : bound.error().code;
  }

  const RegionKeys keys;
  const std::uint64_t base;
};

TEST_F(KeyWindows, a_window_protects_its_range_to_the_byte) {
  // B4.5, B4.9: allocate, bind, use, unbind, deallocate.
  const auto fresh = window(WindowType::kType1);
  EXPECT_EQ(refused(fresh, write_of(base, 1)), AccessError::kNotBound);
  const auto bound = table.bind(bind_of(fresh, keys.lkey, base + 5, 13));
  ASSERT_TRUE(bound);
  EXPECT_EQ(remote(*bound, write_of(base + 5, 13)), base + 5);
  EXPECT_EQ(refused(*bound, write_of(base + 5, 14)), AccessError::kOutOfRange);
  EXPECT_EQ(refused(*bound, write_of(base + 4, 1)), AccessError::kOutOfRange);
  EXPECT_EQ(refused(*bound, write_of(base + 18, 1)), AccessError::kOutOfRange);
  const auto unbound = table.bind(bind_of(*bound, LocalKey(), 0, 0));
  ASSERT_TRUE(unbound);
  EXPECT_EQ(refused(*bound, write_of(base + 5, 1)), AccessError::kStale);
  EXPECT_EQ(refused(*unbound, write_of(base + 5, 1)), AccessError::kNotBound);
  EXPECT_EQ(table.live_windows(), 1U);
  EXPECT_TRUE(table.deallocate_window(*unbound));
  EXPECT_EQ(table.live_windows(), 0U);
  EXPECT_EQ(refused(*unbound, write_of(base + 5, 1)), AccessError::kStale);
}

TEST_F(KeyWindows, a_type_1_window_can_be_bound_again_and_again) {
  // B4.8: one region at a time, and each bind has a new key.
  auto key = window(WindowType::kType1);
  for (std::uint64_t i = 0; i < 600; ++i) {
    const auto next = table.bind(bind_of(key, keys.lkey, base + i, 8));
    ASSERT_TRUE(next);
    ASSERT_NE(*next, key);
    ASSERT_EQ(refused(key, write_of(base + i, 1)), AccessError::kStale);
    ASSERT_EQ(remote(*next, write_of(base + i, 8)), base + i);
    ASSERT_EQ(refused(*next, write_of(base + i + 8, 1)), AccessError::kOutOfRange);
    key = *next;
  }
}

TEST_F(KeyWindows, a_refused_bind_leaves_the_window_as_it_was) {
  const auto bound = table.bind(bind_of(window(WindowType::kType1), keys.lkey, base, 64));
  ASSERT_TRUE(bound);
  EXPECT_EQ(why_not(bind_of(*bound, keys.lkey, base, pages.size() + 1)), Errc::kInvalidArgument);
  pages.unmap(3);
  EXPECT_EQ(why_not(bind_of(*bound, keys.lkey, base, pages.size())), Errc::kInvalidArgument);
  EXPECT_TRUE(remote(*bound, write_of(base, 64)));
  EXPECT_TRUE(table.deallocate_window(*bound));
  EXPECT_TRUE(table.deregister_region(keys.lkey));  // no reservation was left behind
}

TEST_F(KeyWindows, binding_what_the_caller_may_not_touch_is_an_invalid_parameter) {
  // B4.7
  const auto fresh = window(WindowType::kType1);
  const auto with = [&](auto change) {
    auto spec = bind_of(fresh, keys.lkey, base, 8);
    change(spec);
    return why_not(spec);
  };
  EXPECT_EQ(with([](auto& s) { s.window.value ^= 1; }), Errc::kInvalidArgument);
  EXPECT_EQ(with([](auto& s) { s.window.value ^= 0x10000; }), Errc::kInvalidArgument);
  EXPECT_EQ(with([&](auto& s) { s.window = keys.rkey; }), Errc::kInvalidArgument);
  EXPECT_EQ(with([](auto& s) { s.region.value ^= 1; }), Errc::kInvalidArgument);
  EXPECT_EQ(with([](auto& s) { s.region.value = ~0U; }), Errc::kInvalidArgument);
  EXPECT_EQ(with([](auto& s) { s.pd = kOtherPd; }), Errc::kInvalidArgument);
  EXPECT_EQ(with([](auto& s) { s.address -= 1; }), Errc::kInvalidArgument);
  EXPECT_EQ(with([&](auto& s) { s.length = pages.size() + 1; }), Errc::kInvalidArgument);
  EXPECT_EQ(with([](auto& s) { s.length = ~std::uint64_t{0}; }), Errc::kInvalidArgument);
  pages.protect(0, PROT_READ);
  EXPECT_EQ(with([](auto&) {}), Errc::kInvalidArgument);
  pages.protect(0, PROT_READ | PROT_WRITE);
  EXPECT_TRUE(table.bind(bind_of(fresh, keys.lkey, base, 8)));
}

TEST_F(KeyWindows, the_region_must_allow_windows_and_what_they_allow) {
  const auto closed = region(Access::kLocalWrite | kAllRemote);
  const auto read_only = region(Access::kRemoteRead | Access::kWindowBind);
  const auto fresh = window(WindowType::kType1);
  EXPECT_EQ(why_not(bind_of(fresh, closed.lkey, base, 8)), Errc::kInvalidArgument);
  EXPECT_EQ(why_not(bind_of(fresh, read_only.lkey, base, 8, Access::kRemoteWrite)),
            Errc::kInvalidArgument);
  EXPECT_EQ(why_not(bind_of(fresh, read_only.lkey, base, 8, Access::kRemoteAtomic)),
            Errc::kInvalidArgument);
  const auto bound = table.bind(bind_of(fresh, read_only.lkey, base, 8, Access::kRemoteRead));
  ASSERT_TRUE(bound);
  EXPECT_EQ(refused(*bound, write_of(base, 8)), AccessError::kNoRights);
}

TEST_F(KeyWindows, a_bound_window_keeps_its_region) {
  const auto first = *table.bind(bind_of(window(WindowType::kType1), keys.lkey, base, 8));
  const auto second = *table.bind(bind_of(window(WindowType::kType1), keys.lkey, base, 8));
  const auto refused_dereg = table.deregister_region(keys.lkey);
  ASSERT_FALSE(refused_dereg);
  EXPECT_EQ(refused_dereg.error().code, Errc::kBusy);
  EXPECT_NE(refused_dereg.error().message.find('2'), std::string::npos);
  ASSERT_TRUE(table.bind(bind_of(first, LocalKey(), 0, 0)));
  EXPECT_FALSE(table.deregister_region(keys.lkey));
  ASSERT_TRUE(table.deallocate_window(second));
  EXPECT_TRUE(table.deregister_region(keys.lkey));
}

TEST_F(KeyWindows, rebinding_frees_the_old_region) {
  const auto other = region();
  const auto first = *table.bind(bind_of(window(WindowType::kType1), keys.lkey, base, 8));
  ASSERT_TRUE(table.bind(bind_of(first, other.lkey, base, 8)));
  EXPECT_TRUE(table.deregister_region(keys.lkey));
  EXPECT_FALSE(table.deregister_region(other.lkey));
}

TEST_F(KeyWindows, a_type_2_window_takes_the_consumers_tag_and_one_queue_pair) {
  const auto fresh = window(WindowType::kType2);
  const auto bound = table.bind(bind_of(fresh, keys.lkey, base, 8, kAllRemote, 0xAB));
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->value, (fresh.value & ~0xFFU) | 0xAB);
  EXPECT_TRUE(remote(*bound, write_of(base, 8)));
  auto other_queue_pair = write_of(base, 8);
  other_queue_pair.qpn = kOtherQpn;
  EXPECT_EQ(refused(*bound, other_queue_pair), AccessError::kWrongQueuePair);
  auto other_domain = write_of(base, 8);
  other_domain.pd = kOtherPd;
  EXPECT_EQ(refused(*bound, other_domain), AccessError::kWrongDomain);
}

TEST_F(KeyWindows, a_bound_type_2_window_is_invalidated_before_the_next_bind) {
  const auto bound =
      *table.bind(bind_of(window(WindowType::kType2), keys.lkey, base, 8, kAllRemote, 1));
  EXPECT_EQ(why_not(bind_of(bound, keys.lkey, base, 8, kAllRemote, 2)), Errc::kInvalidState);
  EXPECT_EQ(why_not(bind_of(bound, LocalKey(), 0, 0)), Errc::kInvalidArgument);
  EXPECT_FALSE(table.invalidate(bound, kPd, kOtherQpn));
  EXPECT_FALSE(table.invalidate(bound, kOtherPd, kQpn));
  EXPECT_TRUE(remote(bound, write_of(base, 8)));
  EXPECT_TRUE(table.invalidate(bound, kPd, kQpn));
  EXPECT_EQ(refused(bound, write_of(base, 8)), AccessError::kNotBound);
  EXPECT_FALSE(table.invalidate(bound, kPd, kQpn));
  const auto again = table.bind(bind_of(bound, keys.lkey, base, 8, kAllRemote, 2));
  ASSERT_TRUE(again);
  EXPECT_EQ(refused(bound, write_of(base, 8)), AccessError::kStale);
  EXPECT_TRUE(remote(*again, write_of(base, 8)));
}

TEST_F(KeyWindows, a_type_1_window_cannot_be_invalidated) {
  const auto bound = *table.bind(bind_of(window(WindowType::kType1), keys.lkey, base, 8));
  const auto done = table.invalidate(bound, kPd, kQpn);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kNotPermitted);
}

TEST_F(KeyWindows, a_one_shot_binding_serves_one_operation_and_the_next_bind_another) {
  // B4.10
  const Access once = Access::kRemoteWrite | Access::kOneShot;
  const auto first = *table.bind(bind_of(window(WindowType::kType1), keys.lkey, base, 8, once));
  EXPECT_EQ(refused(first, write_of(base, 9, 1)), AccessError::kOutOfRange);
  EXPECT_TRUE(remote(first, write_of(base, 8, 2)));
  EXPECT_EQ(refused(first, write_of(base, 8, 3)), AccessError::kSpent);
  const auto second = *table.bind(bind_of(first, keys.lkey, base, 8, once));
  EXPECT_TRUE(remote(second, write_of(base, 8, 3)));
  EXPECT_EQ(refused(second, write_of(base, 8, 4)), AccessError::kSpent);
}

TEST_F(KeyWindows, a_zero_based_window_counts_from_its_first_byte) {
  const Access access = Access::kRemoteWrite | Access::kZeroBased;
  const auto bound =
      *table.bind(bind_of(window(WindowType::kType2), keys.lkey, base + 100, 8, access, 9));
  EXPECT_EQ(remote(bound, write_of(2, 6)), base + 102);
  EXPECT_EQ(refused(bound, write_of(2, 7)), AccessError::kOutOfRange);
}

TEST_F(KeyWindows, a_window_key_is_no_local_key) {
  const auto bound = *table.bind(bind_of(window(WindowType::kType1), keys.lkey, base, 8));
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    const LocalKey guess(slot << 8 | (bound.value & 0xFF));
    if (guess == keys.lkey) continue;
    EXPECT_FALSE(local(guess, base, 8, Intent::kRead));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(KeyWindows, binding_needs_no_kernel) {
  // B4.6: in a process to which the kernel grants no call but exit.
  std::memset(pages.data(), 1, pages.size());
  const auto fresh = window(WindowType::kType1);
  const pid_t child = fork();
  if (child == 0) {
    static_cast<volatile std::byte*>(pages.data())[0] = std::byte{2};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) syscall(SYS_exit, 2);
    const bool bound = table.bind(bind_of(fresh, keys.lkey, base, 8)).has_value();
    syscall(SYS_exit, bound ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "no seccomp here";
  EXPECT_TRUE(WIFEXITED(status)) << "bind made a system call";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace weft::memory
