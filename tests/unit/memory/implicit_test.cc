// Regions of the whole address space: what their keys and windows reach, to the last byte.
#include <gtest/gtest.h>

#include "unit/memory/key_fixture.h"

namespace weft::memory {
namespace {

class ImplicitRegion : public test::Keys {
 protected:
  RegionSpec whole(Access access = test::kEverything) {
    return RegionSpec::whole_space(&vmm, kPd, access);
  }
};

TEST_F(ImplicitRegion, covers_every_address_but_the_last_and_no_range_that_goes_round) {
  // B4.13, B4.9
  const auto keys = *table.register_region(whole());
  EXPECT_EQ(keys.iova, 0u);
  EXPECT_EQ(remote(keys.rkey, write_of(pages.address(), 8)), pages.address());
  EXPECT_EQ(remote(keys.rkey, write_of(kWholeSpace - 8, 8)), kWholeSpace - 8);
  EXPECT_EQ(refused(keys.rkey, write_of(kWholeSpace - 7, 8)), AccessError::kOutOfRange);
  EXPECT_EQ(refused(keys.rkey, write_of(kWholeSpace, 1)), AccessError::kOutOfRange);
  EXPECT_EQ(refused(keys.rkey, write_of(kWholeSpace, kWholeSpace)), AccessError::kOutOfRange);
  EXPECT_EQ(refused(keys.rkey, write_of(2, kWholeSpace - 1)), AccessError::kOutOfRange);
  EXPECT_EQ(local(keys.lkey, pages.address(), 8, Intent::kWrite), pages.address());
}

TEST_F(ImplicitRegion, is_the_whole_space_under_its_own_addresses_or_refused) {
  RegionSpec wrong = whole();
  wrong.address = 4096;
  EXPECT_FALSE(table.register_region(wrong));
  wrong = whole();
  wrong.length = kWholeSpace - 1;
  EXPECT_FALSE(table.register_region(wrong));
  wrong = whole();
  wrong.iova = 8;
  EXPECT_FALSE(table.register_region(wrong));
  EXPECT_FALSE(table.register_region(whole(test::kEverything | Access::kOpaqueAddress)));
  EXPECT_FALSE(table.register_region(whole(Access::kRemoteWrite))) << "needs local write";
  // Without the word for it, so much memory has to be there.
  RegionSpec plain = spec();
  plain.address = 0, plain.length = kWholeSpace;
  EXPECT_FALSE(table.register_region(plain));
}

TEST_F(ImplicitRegion, binds_what_is_there_and_looks_at_every_page) {
  // B4.13, B4.7
  const auto keys = *table.register_region(whole(Access::kLocalWrite | Access::kWindowBind));
  auto window = *table.allocate_window(kPd, WindowType::kType1);
  window = *table.bind(bind_of(window, keys.lkey, pages.address() + 3, 70));
  EXPECT_EQ(remote(window, write_of(pages.address() + 3, 70)), pages.address() + 3);
  EXPECT_EQ(refused(window, write_of(pages.address() + 2, 70)), AccessError::kOutOfRange);
  pages.protect(1, PROT_NONE);
  const std::size_t three = 3 * test::page_bytes();
  EXPECT_FALSE(table.bind(bind_of(window, keys.lkey, pages.address(), three)))
      << "the ends are there, the middle is not";
  pages.protect(1, PROT_READ);
  EXPECT_FALSE(table.bind(bind_of(window, keys.lkey, pages.address(), three)));
  EXPECT_TRUE(table.bind(bind_of(window, keys.lkey, pages.address(), three, Access::kRemoteRead)));
}

TEST_F(ImplicitRegion, stays_what_it_is_when_its_rights_are_changed) {
  const auto keys = *table.register_region(whole());
  ASSERT_TRUE(table.reregister_region(keys.lkey, whole(Access::kRemoteRead)));
  EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), 8)), AccessError::kNoRights);
  RemoteAccess read = write_of(pages.address(), 8);
  read.need = Access::kRemoteRead;
  EXPECT_TRUE(remote(keys.rkey, read));
}

}  // namespace
}  // namespace weft::memory
