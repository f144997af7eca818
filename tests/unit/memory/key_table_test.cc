#include "memory/key_table.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <unordered_set>

#include "unit/memory/key_fixture.h"

namespace weft::memory {
namespace {

using test::kAllRemote;
using test::kEverything;

class KeyTableTest : public test::Keys {
 protected:
  Errc why_not(const RegionSpec& spec) {
    const auto keys = table.register_region(spec);
    EXPECT_FALSE(keys) << "registered";
    return keys ? Errc{} : keys.error().code;
  }
};

TEST_F(KeyTableTest, grants_the_whole_region_and_says_where_it_is) {
  const auto keys = region();
  EXPECT_EQ(keys.iova, pages.address());
  EXPECT_EQ(remote(keys.rkey, write_of(pages.address(), pages.size())), pages.address());
  EXPECT_EQ(remote(keys.rkey, write_of(pages.address() + 11, 5)), pages.address() + 11);
  EXPECT_EQ(local(keys.lkey, pages.address() + 3, 9, Intent::kWrite), pages.address() + 3);
  EXPECT_EQ(table.live_regions(), 1U);
}

TEST_F(KeyTableTest, protects_to_the_byte) {
  // B4.5, B4.9: any size, any alignment; one byte outside refuses all of it.
  auto odd = spec();
  odd.address += 13;
  odd.length = 1001;
  const auto keys = *table.register_region(odd);
  const std::uint64_t first = odd.address, end = odd.address + odd.length;
  EXPECT_TRUE(remote(keys.rkey, write_of(first, 1001)));
  EXPECT_TRUE(remote(keys.rkey, write_of(end - 1, 1)));
  EXPECT_EQ(refused(keys.rkey, write_of(first, 1002)), AccessError::kOutOfRange);
  EXPECT_EQ(refused(keys.rkey, write_of(first - 1, 2)), AccessError::kOutOfRange);
  EXPECT_EQ(refused(keys.rkey, write_of(first - 1, 1)), AccessError::kOutOfRange);
  EXPECT_EQ(refused(keys.rkey, write_of(end, 1)), AccessError::kOutOfRange);
  EXPECT_EQ(local(keys.lkey, first, 1002, Intent::kRead).error(), AccessError::kOutOfRange);
  EXPECT_EQ(local(keys.lkey, first - 1, 1, Intent::kRead).error(), AccessError::kOutOfRange);
}

TEST_F(KeyTableTest, is_not_fooled_by_ranges_that_wrap) {
  // B4.9: whatever the peer sends.
  const auto keys = region();
  const std::uint64_t most = ~std::uint64_t{0};
  for (const std::uint64_t length : {most, most - 1, most - pages.address(), most / 2 + 1}) {
    EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), length)), AccessError::kOutOfRange);
    EXPECT_EQ(refused(keys.rkey, write_of(pages.address() + 8, length)), AccessError::kOutOfRange);
    EXPECT_EQ(refused(keys.rkey, write_of(most - 7, length)), AccessError::kOutOfRange);
    EXPECT_EQ(refused(keys.rkey, write_of(0, length)), AccessError::kOutOfRange);
  }
}

TEST_F(KeyTableTest, survives_any_key_that_a_peer_makes_up) {
  // B4.9: the key must be live and belong to this address space.
  const auto keys = region();
  base::SeededRandom guesses(9);
  for (int i = 0; i < 200'000; ++i) {
    const RemoteKey guess(static_cast<std::uint32_t>(guesses.next()));
    if (guess == keys.rkey) continue;
    ASSERT_FALSE(remote(guess, write_of(pages.address(), 8))) << std::hex << guess.value;
  }
  for (std::uint32_t tag = 0; tag < 256; ++tag) {
    const RemoteKey guess((keys.rkey.value & ~0xFFU) | tag);
    EXPECT_EQ(remote(guess, write_of(pages.address(), 8)).has_value(), guess == keys.rkey);
  }
}

TEST_F(KeyTableTest, refuses_another_protection_domain) {
  const auto keys = region();
  auto access = write_of(pages.address(), 8);
  access.pd = kOtherPd;
  EXPECT_EQ(refused(keys.rkey, access), AccessError::kWrongDomain);
  EXPECT_EQ(local(keys.lkey, pages.address(), 8, Intent::kRead, kOtherPd).error(),
            AccessError::kWrongDomain);
}

TEST_F(KeyTableTest, serves_all_queue_pairs_of_the_domain) {
  // B4.8: one key, any number of queue pairs and remote nodes.
  const auto keys = region();
  for (std::uint32_t qpn = 1; qpn < 100; ++qpn) {
    auto access = write_of(pages.address(), 8);
    access.qpn = Qpn(qpn);
    EXPECT_TRUE(remote(keys.rkey, access));
  }
}

TEST_F(KeyTableTest, grants_only_the_registered_rights) {
  const Access kinds[] = {Access::kRemoteRead, Access::kRemoteWrite, Access::kRemoteAtomic};
  for (const Access granted : kinds) {
    const auto keys = region(Access::kLocalWrite | granted);
    for (const Access wanted : kinds) {
      auto access = write_of(pages.address(), 8);
      access.need = wanted;
      const auto place = remote(keys.rkey, access);
      EXPECT_EQ(place.has_value(), wanted == granted);
      if (!place) {
        EXPECT_EQ(place.error(), AccessError::kNoRights);
      }
    }
  }
  const auto read_only = region(Access::kNone);
  EXPECT_TRUE(local(read_only.lkey, pages.address(), 8, Intent::kRead));
  EXPECT_EQ(local(read_only.lkey, pages.address(), 8, Intent::kWrite).error(),
            AccessError::kNoRights);
}

TEST_F(KeyTableTest, refuses_contradictory_registrations) {
  auto empty = spec();
  empty.length = 0;
  EXPECT_EQ(why_not(empty), Errc::kInvalidArgument);
  auto wrapping = spec();
  wrapping.length = ~std::uint64_t{0} - 5;
  EXPECT_EQ(why_not(wrapping), Errc::kInvalidArgument);
  auto wrapping_iova = spec();
  wrapping_iova.iova = ~std::uint64_t{0} - 5;
  EXPECT_EQ(why_not(wrapping_iova), Errc::kInvalidArgument);
  EXPECT_EQ(why_not(spec(Access::kRemoteWrite)), Errc::kInvalidArgument);
  EXPECT_EQ(why_not(spec(Access::kRemoteAtomic)), Errc::kInvalidArgument);
  EXPECT_EQ(why_not(spec(Access::kOpaqueAddress | Access::kZeroBased)), Errc::kInvalidArgument);
  EXPECT_EQ(table.live_regions(), 0U);
}

TEST_F(KeyTableTest, refuses_memory_that_the_owner_may_not_touch) {
  // B4.1
  pages.protect(1, PROT_READ);
  EXPECT_EQ(why_not(spec()), Errc::kBadAddress);
  EXPECT_TRUE(table.register_region(spec(Access::kRemoteRead)));
  pages.unmap(2);
  EXPECT_EQ(why_not(spec(Access::kRemoteRead)), Errc::kBadAddress);
}

TEST_F(KeyTableTest, says_no_when_all_keys_are_taken) {
  KeyTable small(random, 2);
  const auto first = small.register_region(spec());
  ASSERT_TRUE(first);
  ASSERT_TRUE(small.register_region(spec()));
  const auto third = small.register_region(spec());
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Errc::kOutOfMemory);
  EXPECT_TRUE(small.deregister_region(first->lkey));
  EXPECT_TRUE(small.register_region(spec()));
}

TEST_F(KeyTableTest, a_deregistered_key_is_stale_for_good) {
  const auto keys = region();
  EXPECT_TRUE(table.deregister_region(keys.lkey));
  EXPECT_EQ(table.live_regions(), 0U);
  EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), 8)), AccessError::kStale);
  EXPECT_EQ(local(keys.lkey, pages.address(), 8, Intent::kRead).error(), AccessError::kStale);
  EXPECT_FALSE(table.deregister_region(keys.lkey));
  // Some ten thousand later registrations do not bring it back.
  for (int i = 0; i < 10'000; ++i) {
    const auto next = region();
    ASSERT_NE(next.rkey, keys.rkey);
    ASSERT_TRUE(table.deregister_region(next.lkey));
  }
  EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), 8)), AccessError::kStale);
}

TEST_F(KeyTableTest, remote_keys_do_not_show_their_slots_and_are_never_zero) {
  std::set<std::uint32_t> distances;
  std::uint32_t before = 0;
  for (int i = 0; i < 300; ++i) {
    const auto keys = region();
    EXPECT_NE(keys.rkey.value, 0U);
    EXPECT_NE(keys.lkey.value, 0U);
    EXPECT_NE(keys.rkey.value, keys.lkey.value);
    distances.insert(keys.rkey.value - before);
    before = keys.rkey.value;
  }
  EXPECT_GT(distances.size(), 290U);
}

TEST_F(KeyTableTest, translates_a_chosen_and_a_zero_base) {
  auto chosen = spec();
  chosen.iova = 0x1000;
  const auto keys = *table.register_region(chosen);
  EXPECT_EQ(keys.iova, 0x1000U);
  EXPECT_EQ(remote(keys.rkey, write_of(0x1010, 8)), pages.address() + 0x10);
  EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), 8)), AccessError::kOutOfRange);
  const auto zero = region(kEverything | Access::kZeroBased);
  EXPECT_EQ(zero.iova, 0U);
  EXPECT_EQ(remote(zero.rkey, write_of(0, pages.size())), pages.address());
}

TEST_F(KeyTableTest, an_opaque_address_says_nothing_about_the_real_one) {
  // B4.3: remote peers get an opaque address.
  std::set<std::uint64_t> bases;
  for (int i = 0; i < 32; ++i) {
    const auto keys = region(kEverything | Access::kOpaqueAddress);
    EXPECT_EQ(keys.iova % 4096, 0U);
    EXPECT_EQ(remote(keys.rkey, write_of(keys.iova + 5, 8)), pages.address() + 5);
    EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), 8)), AccessError::kOutOfRange);
    bases.insert(keys.iova);
  }
  EXPECT_EQ(bases.size(), 32U);
}

TEST_F(KeyTableTest, a_refused_access_leaves_nothing_published) {
  const auto keys = region();
  EXPECT_FALSE(table.check_remote(keys.rkey, write_of(0, 8)));
  EXPECT_FALSE(table.check_local(keys.lkey, kPd, 0, 8, Intent::kRead, Hold::kLocal));
  std::thread other([&] { EXPECT_TRUE(table.deregister_region(keys.lkey)); });
  other.join();  // would wait for ever for a word that nobody clears
}

TEST_F(KeyTableTest, one_shot_keys_serve_one_operation_and_its_retransmissions) {
  // B4.10
  const auto keys = region(kEverything | Access::kOneShot);
  EXPECT_TRUE(remote(keys.rkey, write_of(pages.address(), 8, 17)));
  EXPECT_TRUE(remote(keys.rkey, write_of(pages.address() + 8, 8, 17)));
  EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), 8, 18)), AccessError::kSpent);
  EXPECT_TRUE(remote(keys.rkey, write_of(pages.address(), 8, 17)));
  // The owner's own key is not a remote key and goes on.
  EXPECT_TRUE(local(keys.lkey, pages.address(), 8, Intent::kWrite));
}

TEST_F(KeyTableTest, a_refused_attempt_does_not_consume_a_one_shot_key) {
  // B4.10
  const auto keys = region(Access::kLocalWrite | Access::kRemoteWrite | Access::kOneShot);
  EXPECT_EQ(refused(keys.rkey, write_of(pages.address() + 1, pages.size(), 1)),
            AccessError::kOutOfRange);
  auto foreign = write_of(pages.address(), 8, 2);
  foreign.pd = kOtherPd;
  EXPECT_EQ(refused(keys.rkey, foreign), AccessError::kWrongDomain);
  auto read = write_of(pages.address(), 8, 3);
  read.need = Access::kRemoteRead;
  EXPECT_EQ(refused(keys.rkey, read), AccessError::kNoRights);
  EXPECT_TRUE(remote(keys.rkey, write_of(pages.address(), 8, 4)));
  EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), 8, 5)), AccessError::kSpent);
}

TEST_F(KeyTableTest, an_invalidated_one_shot_key_is_dead_and_its_region_lives) {
  const auto keys = region(kEverything | Access::kOneShot);
  EXPECT_FALSE(table.invalidate(keys.rkey, kOtherPd, kQpn));
  EXPECT_TRUE(table.invalidate(keys.rkey, kPd, kQpn));
  EXPECT_EQ(refused(keys.rkey, write_of(pages.address(), 8)), AccessError::kStale);
  EXPECT_TRUE(local(keys.lkey, pages.address(), 8, Intent::kWrite));
  EXPECT_FALSE(table.invalidate(keys.rkey, kPd, kQpn));
  EXPECT_TRUE(table.deregister_region(keys.lkey));
}

TEST_F(KeyTableTest, an_ordinary_region_is_not_invalidated_by_a_peer) {
  const auto keys = region();
  const auto done = table.invalidate(keys.rkey, kPd, kQpn);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::kNotPermitted);
  EXPECT_TRUE(remote(keys.rkey, write_of(pages.address(), 8)));
}

TEST_F(KeyTableTest, address_and_key_are_all_that_a_peer_needs) {
  // B4.11: both travel in a message as plain numbers and come back in a request.
  const auto keys = region();
  const std::uint64_t message[2] = {keys.iova, keys.rkey.value};
  const RemoteKey arrived(static_cast<std::uint32_t>(message[1]));
  const auto place = table.check_remote(arrived, write_of(message[0] + 100, 4));
  ASSERT_TRUE(place);
  Flight::Scope scope;
  scope.adopt(Hold::kRemote);
  const std::byte bytes[4] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  EXPECT_EQ(store(*place, bytes), Fault::kNone);
  EXPECT_EQ(std::memcmp(pages.data() + 100, bytes, 4), 0);
}

TEST_F(KeyTableTest, a_key_comes_back_only_when_every_slot_has_had_every_tag) {
  // The same with a table of 2^16 slots that may be worn takes 2^16 * 255 registrations.
  constexpr std::uint32_t kSlots = 512, kTags = 255;
  KeyTable small(random, kSlots);
  std::unordered_set<std::uint32_t> seen;
  std::uint32_t count = 0;
  for (;; ++count) {
    const RegionKeys keys = *small.register_region(spec());
    if (!seen.insert(keys.rkey.value).second) break;
    ASSERT_TRUE(small.deregister_region(keys.lkey));
  }
  EXPECT_EQ(count, kSlots * kTags);
}

}  // namespace
}  // namespace weft::memory
