#include "memory/grant.h"

#include <gtest/gtest.h>

#include <array>

#include "memory/host_vmm.h"

namespace weft::memory {
namespace {

constexpr PdId kPd{7};
constexpr Qpn kQpn{42};
constexpr Access kShared = Access::kLocalWrite | Access::kRemoteWrite | Access::kWindowBind;

class GrantTest : public ::testing::Test {
 protected:
  RegionKeys share(Access access = kShared) {
    return table_
        .register_region({.vmm = &vmm_,
                          .pd = kPd,
                          .address = reinterpret_cast<std::uint64_t>(bytes_.data()),
                          .length = bytes_.size(),
                          .access = access,
                          .iova = {}})
        .value();
  }
  Grant<RemoteKey> remote(RemoteKey key, Access need = Access::kRemoteWrite) {
    return grant_remote(table_, key, kPd, kQpn, need);
  }

  HostVmm vmm_;
  KeyTable table_{base::system_random()};
  std::array<std::byte, 64> bytes_{};
};

TEST_F(GrantTest, covers_the_region_to_the_byte_and_nothing_more) {
  // B4.9
  const RegionKeys keys = share();
  const Grant<RemoteKey> grant = remote(keys.rkey);
  EXPECT_TRUE(grant.covers(keys.rkey, keys.iova, 64));
  EXPECT_TRUE(grant.covers(keys.rkey, keys.iova + 63, 1));
  EXPECT_FALSE(grant.covers(keys.rkey, keys.iova, 65));
  EXPECT_FALSE(grant.covers(keys.rkey, keys.iova + 57, 8));
  EXPECT_FALSE(grant.covers(keys.rkey, keys.iova - 1, 8));
  EXPECT_FALSE(grant.covers(keys.rkey, keys.iova, ~std::uint64_t{0}));
  EXPECT_FALSE(grant.covers(keys.rkey, ~std::uint64_t{0} - 3, 8));
  EXPECT_FALSE(grant.covers(RemoteKey(keys.rkey.value ^ 1), keys.iova, 8));
  EXPECT_TRUE(grant.holds());
  EXPECT_EQ(grant.at(keys.iova + 8), bytes_.data() + 8);
}

TEST_F(GrantTest, an_empty_one_covers_nothing) {
  const Grant<RemoteKey> grant;
  EXPECT_FALSE(grant.covers(RemoteKey(), 0, 0));
  EXPECT_FALSE(grant.covers(RemoteKey(), 1, 0));
  EXPECT_FALSE(grant.covers(RemoteKey(), 0, 1));
}

TEST_F(GrantTest, ends_with_the_registration) {
  // B4.9
  const RegionKeys keys = share();
  const Grant<RemoteKey> theirs = remote(keys.rkey);
  const Grant<LocalKey> ours = grant_local(table_, keys.lkey, kPd, Intent::kRead);
  ASSERT_TRUE(theirs.holds() && ours.holds());
  ASSERT_TRUE(table_.deregister_region(keys.lkey));
  EXPECT_FALSE(theirs.holds());
  EXPECT_FALSE(ours.holds());
}

TEST_F(GrantTest, ends_when_a_window_is_bound_elsewhere_under_the_same_key) {
  // B4.8: the tag is the program's choice, so the key alone does not tell old from new.
  const RegionKeys keys = share();
  const RemoteKey window = table_.allocate_window(kPd, WindowType::kType2).value();
  const auto bind = [&](RemoteKey present, std::uint64_t offset) {
    return table_
        .bind({.window = present,
               .new_tag = 9,
               .region = keys.lkey,
               .address = keys.iova + offset,
               .length = 8,
               .access = Access::kRemoteWrite,
               .pd = kPd,
               .qpn = kQpn})
        .value();
  };
  const RemoteKey first = bind(window, 0);
  const Grant<RemoteKey> grant = remote(first);
  ASSERT_TRUE(grant.is_fenced(first) && grant.holds());
  EXPECT_FALSE(grant.covers(first, keys.iova, 8)) << "without a fence nothing is known";
  ASSERT_TRUE(table_.invalidate(first, kPd, kQpn));
  EXPECT_FALSE(grant.holds());
  const RemoteKey second = bind(first, 16);
  ASSERT_EQ(second, first);
  EXPECT_FALSE(grant.holds());
}

TEST_F(GrantTest, is_not_given_where_the_check_would_refuse) {
  const RegionKeys keys = share();
  EXPECT_FALSE(remote(keys.rkey, Access::kRemoteRead).covers(keys.rkey, keys.iova, 1));
  EXPECT_FALSE(remote(RemoteKey(keys.rkey.value ^ 1)).covers(keys.rkey, keys.iova, 1));
  const auto other_domain = grant_remote(table_, keys.rkey, PdId(8), kQpn, Access::kRemoteWrite);
  EXPECT_FALSE(other_domain.covers(keys.rkey, keys.iova, 1));
  const auto read_only = share(Access::kRemoteRead);
  const auto write = grant_local(table_, read_only.lkey, kPd, Intent::kWrite);
  EXPECT_FALSE(write.covers(read_only.lkey, read_only.iova, 1));
}

TEST_F(GrantTest, is_not_given_for_a_one_shot_key_and_does_not_use_it_up) {
  // B4.10
  const RegionKeys keys = share(kShared | Access::kOneShot);
  EXPECT_FALSE(remote(keys.rkey).covers(keys.rkey, keys.iova, 1));
  EXPECT_TRUE(table_.check_remote(keys.rkey, {kPd, kQpn, keys.iova, 8, Access::kRemoteWrite, 1}));
  Flight::clear(Hold::kRemote);
}

TEST_F(GrantTest, revoking_a_region_takes_its_windows_along) {
  // B4.8
  const RegionKeys keys = share();
  const RemoteKey window = table_.allocate_window(kPd, WindowType::kType1).value();
  const RemoteKey bound = table_
                              .bind({.window = window,
                                     .new_tag = 0,
                                     .region = keys.lkey,
                                     .address = keys.iova,
                                     .length = 8,
                                     .access = Access::kRemoteWrite,
                                     .pd = kPd,
                                     .qpn = kQpn})
                              .value();
  EXPECT_EQ(bound, KeyTable::next_key(window));
  ASSERT_FALSE(table_.deregister_region(keys.lkey));
  table_.revoke_region(keys.lkey);
  EXPECT_EQ(table_.live_regions(), 0u);
  EXPECT_EQ(table_.check_remote(bound, {kPd, kQpn, keys.iova, 8, Access::kRemoteWrite, 1}).error(),
            AccessError::kNotBound);
  table_.revoke_window(window);  // by a key that it had before
  EXPECT_EQ(table_.live_windows(), 0u);
}

}  // namespace
}  // namespace weft::memory
