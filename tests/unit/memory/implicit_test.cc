// Regions of the whole address space: what their keys and windows reach, to the last byte.
#include <gtest/gtest.h>

#include "memory/copy.h"
#include "unit/memory/key_fixture.h"
#include "unit/memory/model_fixture.h"

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

// On a simulated node the seed's rule holds as it stands: what a process may bind is what its
// segment table names.
class ModelImplicit : public test::Model {
 protected:
  base::SeededRandom random{5};
  KeyTable table{random};
  static constexpr PdId kPd{1};
  static constexpr Qpn kQpn{2};
};

TEST_P(ModelImplicit, a_process_binds_all_of_its_segments_and_none_of_others) {
  // B4.13, B4.1
  const auto keys = *table.register_region(
      RegionSpec::whole_space(&process, kPd, Access::kLocalWrite | Access::kWindowBind));
  const std::uint64_t ea = *process.allocate(2);  // after the registration
  ModelProcess other(node);
  const std::uint64_t theirs =
      *other.set_segment(50, node.create_segment(1, PageRights::kReadWrite));
  const auto window = *table.allocate_window(kPd, WindowType::kType1);
  const auto bind = [&](RemoteKey key, std::uint64_t address, std::uint64_t length) {
    return table.bind({key, 0, keys.lkey, address, length, Access::kRemoteWrite, kPd, kQpn});
  };
  EXPECT_EQ(bind(window, theirs, 8).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(bind(window, ea, 2 * kPageBytes + 1).error().code, Errc::kInvalidArgument);
  const auto bound = bind(window, ea + 100, kPageBytes);
  ASSERT_TRUE(bound);
  ASSERT_EQ(process.write(ea, test::bytes(2 * kPageBytes, 1)), Fault::kNone);
  ASSERT_EQ(node.evict(2), 2u);
  const auto place =
      table.check_remote(*bound, {kPd, kQpn, ea + 100, 200, Access::kRemoteWrite, 1});
  ASSERT_TRUE(place);
  EXPECT_EQ(store(*place, test::bytes(200, 2)), Fault::kNone);
  Flight::clear(Hold::kRemote);
  EXPECT_EQ(test::read(process, ea + 100, 200), test::bytes(200, 2));
}
INSTANTIATE_TEST_SUITE_P(Tables, ModelImplicit, testing::ValuesIn(test::kAllTables));

}  // namespace
}  // namespace weft::memory
