#include "host/public_tables.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "host/arena_object.h"
#include "host/arena_registry.h"
#include "memory/host_vmm.h"
#include "weft/arena.h"

namespace weft::host {
namespace {

using memory::KeyEntry;
using memory::KeyTable;
using Peers = SharedMemory::Peers;

constexpr PdId kPd{4};
constexpr std::uint32_t kTag = 0x1234567;

/// A key table that shows its keys, and the view that a neighbour has of them.
class PublicTablesTest : public testing::Test, public memory::KeyPublisher {
 public:
  PublicTablesTest() { keys.set_publisher(this); }

  bool prepare(std::uint32_t slot) override { return tables->prepare_key(slot); }
  void show(std::uint32_t slot, const KeyTable::Entry& entry) override {
    last_arena = tables->show_key(slot, entry);
  }
  void drain(std::uint32_t slot, bool fenced) override {
    drained.push_back(slot);
    drained_fenced.push_back(fenced);
    tables->forget_arena(slot);
  }

  memory::RegionKeys expose(std::span<std::byte> bytes, Access access) {
    return keys
        .register_region({&vmm, kPd, reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size(),
                          access, std::nullopt})
        .value();
  }
  /// What a neighbour asks first: is there such a key, with this tag, alive?
  static bool is_live(const PublicKey* entry, RemoteKey rkey) {
    constexpr std::uint32_t kMask = KeyEntry::kRemoteLive | KeyEntry::kTagMask;
    return entry != nullptr && (entry->control.load() & kMask) ==
                                   (KeyEntry::kRemoteLive | (rkey.value & KeyEntry::kTagMask));
  }
  const PublicKey* look_up(RemoteKey rkey) {
    std::uint32_t slot = 0;
    return view.key(rkey, &slot);
  }

  base::SeededRandom random{11};
  memory::HostVmm vmm;
  KeyTable keys{random};
  std::unique_ptr<PublicTables> tables = PublicTables::create(kTag, keys.hidden()).value();
  PublicView view = PublicView::receive(dup(tables->fd())).value();
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  std::uint32_t last_arena = 0;
  std::vector<std::uint32_t> drained;
  std::vector<bool> drained_fenced;
};

// ---- keys -----------------------------------------------------------------------------------

TEST_F(PublicTablesTest, key_is_found_with_all_that_its_check_needs) {
  // B4.9
  const Access access = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead;
  const auto region = expose(std::span(memory).subspan(100, 1000), access);
  const PublicKey* entry = look_up(region.rkey);
  ASSERT_TRUE(is_live(entry, region.rkey));
  EXPECT_EQ(entry->pd, kPd);
  EXPECT_EQ(entry->access, access);
  EXPECT_EQ(entry->base, region.iova);
  EXPECT_EQ(entry->length, 1000u);
  EXPECT_EQ(entry->target, reinterpret_cast<std::uint64_t>(memory.data() + 100));
  EXPECT_EQ(entry->qpn, KeyEntry::kAnyQueuePair);
  EXPECT_EQ(entry->arena, 0u);
  EXPECT_EQ(view.tag(), kTag);
}

TEST_F(PublicTablesTest, key_is_dead_and_drained_when_it_was_deregistered) {
  const auto region = expose(memory, Access::kLocalWrite | Access::kRemoteWrite);
  std::uint32_t slot = 0;
  const PublicKey* entry = view.key(region.rkey, &slot);
  const std::uint32_t version = entry->version.load();
  ASSERT_TRUE(keys.deregister_region(region.lkey));
  EXPECT_FALSE(is_live(entry, region.rkey));
  EXPECT_NE(entry->version.load(), version) << "whoever remembers the key must find out";
  EXPECT_EQ(drained, std::vector{slot});
}

TEST_F(PublicTablesTest, stale_key_does_not_open_the_slots_next_one) {
  const auto old = expose(memory, Access::kLocalWrite | Access::kRemoteWrite);
  ASSERT_TRUE(keys.deregister_region(old.lkey));
  std::uint32_t old_slot = 0, slot = ~0u;
  static_cast<void>(view.key(old.rkey, &old_slot));
  // Slots are used first in, first out: go on until it is this one's turn again.
  std::optional<memory::RegionKeys> next;
  for (int i = 0; i < 100'000 && slot != old_slot; ++i) {
    if (next) {
      ASSERT_TRUE(keys.deregister_region(next->lkey));
    }
    next = expose(memory, Access::kLocalWrite | Access::kRemoteWrite);
    static_cast<void>(view.key(next->rkey, &slot));
  }
  ASSERT_EQ(slot, old_slot);
  EXPECT_TRUE(is_live(look_up(next->rkey), next->rkey));
  EXPECT_FALSE(is_live(look_up(old.rkey), old.rkey));
}

TEST_F(PublicTablesTest, every_key_of_many_is_found_in_its_own_entry) {
  std::vector<memory::RegionKeys> regions;
  for (std::size_t i = 0; i < 3000; ++i) {
    regions.push_back(expose(std::span(memory).subspan(i, 1), Access::kRemoteRead));
  }
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const PublicKey* entry = look_up(regions[i].rkey);
    ASSERT_TRUE(is_live(entry, regions[i].rkey));
    ASSERT_EQ(entry->target, reinterpret_cast<std::uint64_t>(memory.data() + i));
  }
}

TEST_F(PublicTablesTest, guessed_keys_are_dead_and_cost_no_memory) {
  const auto region = expose(memory, Access::kRemoteRead);
  const auto blocks = [&] {
    struct stat status {};
    EXPECT_EQ(fstat(tables->fd(), &status), 0);
    return status.st_blocks;
  };
  const auto before = blocks();
  base::SeededRandom guesses(3);
  for (int i = 0; i < 20'000; ++i) {
    const RemoteKey guess(guesses.draw<std::uint32_t>());
    if (guess == region.rkey) continue;
    const PublicKey* entry = look_up(guess);
    ASSERT_FALSE(is_live(entry, guess));
  }
  EXPECT_EQ(blocks(), before);
}

TEST_F(PublicTablesTest, window_shows_the_queue_pair_that_it_is_bound_for) {
  const auto region = expose(memory, Access::kLocalWrite | Access::kWindowBind);
  const auto window = keys.allocate_window(kPd, memory::WindowType::kType2).value();
  EXPECT_FALSE(is_live(look_up(window), window));
  const auto bound = keys.bind(
      {window, 7, region.lkey, region.iova + 8, 16, Access::kRemoteWrite, kPd, Qpn(0x55)});
  ASSERT_TRUE(bound);
  const PublicKey* entry = look_up(*bound);
  ASSERT_TRUE(is_live(entry, *bound));
  EXPECT_EQ(entry->qpn, Qpn(0x55));
  EXPECT_EQ(entry->length, 16u);
  EXPECT_EQ(entry->target, reinterpret_cast<std::uint64_t>(memory.data() + 8));
  ASSERT_TRUE(keys.invalidate(*bound, kPd, Qpn(0x55)));
  EXPECT_FALSE(is_live(look_up(*bound), *bound));
}

// Whoever checks such a key fences, because the mark says so; whoever revokes it needs no barrier.
TEST_F(PublicTablesTest, windows_and_local_memory_are_marked_and_revoked_as_fenced) {
  // B4.6: what work of a send queue takes back needs no barrier.
  const auto is_marked = [&](RemoteKey rkey) {
    return (look_up(rkey)->control.load() & KeyEntry::kFenced) != 0;
  };
  const auto local = expose(memory, Access::kLocalWrite | Access::kWindowBind);
  const auto open = expose(memory, Access::kRemoteRead);
  EXPECT_TRUE(is_marked(local.rkey));
  EXPECT_FALSE(is_marked(open.rkey)) << "used often, revoked seldom";
  const auto once = expose(memory, Access::kRemoteRead | Access::kOneShot);
  EXPECT_TRUE(is_marked(once.rkey));
  drained_fenced.clear();
  ASSERT_TRUE(keys.invalidate(once.rkey, kPd, Qpn(9)));
  EXPECT_EQ(drained_fenced, std::vector{true});
  for (const auto type : {memory::WindowType::kType1, memory::WindowType::kType2}) {
    const bool type2 = type == memory::WindowType::kType2;
    const auto window = keys.allocate_window(kPd, type).value();
    const auto bound =
        keys.bind({window, 7, local.lkey, local.iova, 16, Access::kRemoteRead, kPd, Qpn(9)})
            .value();
    EXPECT_TRUE(is_marked(bound));
    drained_fenced.clear();
    ASSERT_TRUE(type2 ? keys.invalidate(bound, kPd, Qpn(9)) : keys.deallocate_window(bound));
    EXPECT_EQ(drained_fenced, std::vector{true});
    EXPECT_FALSE(is_marked(bound));
  }
  drained_fenced.clear();
  ASSERT_TRUE(keys.deregister_region(local.lkey));
  ASSERT_TRUE(keys.deregister_region(open.lkey));
  EXPECT_EQ(drained_fenced, (std::vector{true, false}));
}

TEST_F(PublicTablesTest, region_that_is_changed_is_revoked_as_what_it_was) {
  const auto local = expose(memory, Access::kLocalWrite);
  const memory::RegionSpec shared{&vmm,
                                  kPd,
                                  reinterpret_cast<std::uint64_t>(memory.data()),
                                  memory.size(),
                                  Access::kRemoteRead,
                                  std::nullopt};
  ASSERT_TRUE(keys.reregister_region(local.lkey, shared));
  EXPECT_EQ(look_up(local.rkey)->control.load() & KeyEntry::kFenced, 0u);
  ASSERT_TRUE(keys.deregister_region(local.lkey));
  EXPECT_EQ(drained_fenced, (std::vector{true, false}));
}

TEST_F(PublicTablesTest, key_tells_where_in_an_arena_its_memory_lies) {
  std::optional<Arena> arena = Arena::create(1 << 16).value();
  auto* bytes = static_cast<std::byte*>(arena->allocate(256));
  const auto region = expose({bytes, 256}, Access::kLocalWrite | Access::kRemoteWrite);
  const PublicKey* entry = look_up(region.rkey);
  ASSERT_TRUE(is_live(entry, region.rkey));
  ASSERT_NE(entry->arena, 0u);
  EXPECT_EQ(entry->arena, last_arena);
  EXPECT_EQ(entry->arena_offset, static_cast<std::uint64_t>(bytes - arena->memory().data()));
  // The region keeps the arena, and only the region.
  const std::uint32_t number = entry->arena;
  arena.reset();
  EXPECT_NE(hold_arena(number), nullptr);
  ASSERT_TRUE(keys.deregister_region(region.lkey));
  EXPECT_EQ(hold_arena(number), nullptr);
}

// ---- queue pairs ----------------------------------------------------------------------------

TEST_F(PublicTablesTest, queue_pairs_are_shown_by_the_block_of_their_number) {
  EXPECT_EQ(tables->queue_pair(Qpn(0x123456)), nullptr);
  EXPECT_EQ(view.queue_pair(Qpn(0x123456)), nullptr);
  EXPECT_FALSE(view.has_block(0x123));
  ASSERT_TRUE(tables->add_block(0x456));
  ASSERT_TRUE(tables->add_block(0x123));
  EXPECT_TRUE(view.has_block(0x123) && view.has_block(0x456));
  EXPECT_FALSE(view.has_block(0x124));
  PublicQueuePair* mine = tables->queue_pair(Qpn(0x123456));
  const PublicQueuePair* theirs = view.queue_pair(Qpn(0x123456));
  ASSERT_TRUE(mine != nullptr && theirs != nullptr);
  EXPECT_FALSE(theirs->ready());
  mine->remote_qpn = 99;
  mine->word.store(1 << 1 | 1);
  EXPECT_TRUE(theirs->ready());
  EXPECT_EQ(theirs->remote_qpn, 99u);
  EXPECT_FALSE(view.queue_pair(Qpn(0x123457))->ready()) << "not the one beside it";
  EXPECT_FALSE(view.queue_pair(Qpn(0x456456))->ready()) << "nor its namesake in another block";
}

TEST_F(PublicTablesTest, there_is_room_for_so_many_blocks) {
  for (std::uint32_t block = 1; block <= kMaxBlocks; ++block) ASSERT_TRUE(tables->add_block(block));
  EXPECT_FALSE(tables->add_block(kMaxBlocks + 1));
  EXPECT_EQ(tables->queue_pair(Qpn((kMaxBlocks + 1) << kBlockBits)), nullptr);
  EXPECT_NE(view.queue_pair(Qpn(kMaxBlocks << kBlockBits | 0xFFF)), nullptr);
}

// ---- the memory -----------------------------------------------------------------------------

TEST_F(PublicTablesTest, cannot_be_written_by_those_who_receive_them) {
  const int fd = tables->fd();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_LT(pwrite(fd, "x", 1, 0), 0);
  EXPECT_NE(ftruncate(fd, 0), 0);
}

TEST(PublicView, another_layout_or_size_is_refused) {
  const auto zeros =
      SharedMemory::create("weft-test", PublicLayout::kBytes, 0, Peers::kRead).value();
  EXPECT_EQ(PublicView::receive(dup(zeros.fd())).error().code, Errc::kInvalidArgument);
  const auto small =
      SharedMemory::create("weft-test", PublicLayout::kQueuePairsAt, 0, Peers::kRead).value();
  std::memcpy(small.data(), &PublicLayout::kMagic, sizeof PublicLayout::kMagic);
  EXPECT_FALSE(PublicView::receive(dup(small.fd())));
}

}  // namespace
}  // namespace weft::host
