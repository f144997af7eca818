#include "weft/arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "base/random.h"
#include "host/arena_object.h"
#include "host/arena_registry.h"
#include "host/shared_memory.h"
#include "unit/host/host_kit.h"

namespace weft::host {
namespace {

using test::Child;
using test::open_fds;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSize = 64 * kPage;

std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

bool inside(const Arena& arena, const void* block, std::size_t bytes) {
  const auto memory = arena.memory();
  return number_of(block) >= number_of(memory.data()) &&
         number_of(block) + bytes <= number_of(memory.data()) + memory.size();
}

/// Random work on an arena, beside what a plain list of blocks says about it.
class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {}

  void allocate() {
    const std::size_t most = random_.chance_ppm(50'000) ? kSize : 3000;
    const std::size_t bytes = random_.below(most);
    const std::size_t alignment = std::size_t{1} << random_.below(13);
    void* const block = arena_.allocate(bytes, alignment);
    if (block == nullptr) {
      ++refused_;
      ASSERT_FALSE(has_room(bytes, alignment));
      return;
    }
    ASSERT_TRUE(inside(arena_, block, bytes));
    ASSERT_EQ(number_of(block) % alignment, 0U);
    const auto after = blocks_.lower_bound(number_of(block));
    if (after != blocks_.end()) {
      ASSERT_LE(number_of(block) + bytes, after->first);
      ASSERT_LT(number_of(block), after->first);
    }
    if (after != blocks_.begin()) {
      const auto& [start, before] = *std::prev(after);
      ASSERT_LE(start + before.bytes, number_of(block));
    }
    const auto mark = static_cast<unsigned char>(random_.next());
    std::memset(block, mark, bytes);
    blocks_.emplace(number_of(block), Block{bytes, mark});
  }

  void free_one() {
    if (blocks_.empty()) return;
    auto found = blocks_.begin();
    std::advance(found, random_.below(blocks_.size()));
    auto* const block = reinterpret_cast<unsigned char*>(found->first);
    for (std::size_t i = 0; i < found->second.bytes; ++i) ASSERT_EQ(block[i], found->second.mark);
    arena_.deallocate(block);
    blocks_.erase(found);
  }

  void run() {
    for (int step = 0; step < 3000 && !testing::Test::HasFatalFailure(); ++step) {
      // Tides: sometimes the arena fills, sometimes it empties.
      if (random_.below(100) < ((step / 500) % 2 == 0 ? 60U : 40U)) {
        allocate();
      } else {
        free_one();
      }
    }
    while (!blocks_.empty() && !testing::Test::HasFatalFailure()) free_one();
  }

  std::size_t refused() const { return refused_; }
  Arena& arena() { return arena_; }

 private:
  /// Whether a gap between the blocks would have done; blocks have whole cache lines.
  bool has_room(std::size_t bytes, std::size_t alignment) const {
    const auto fits = [&](std::uintptr_t from, std::uintptr_t to) {
      from = (from + alignment - 1) / alignment * alignment;
      return from <= to && lines(bytes) <= to - from;
    };
    std::uintptr_t end = number_of(arena_.memory().data());
    for (const auto& [start, block] : blocks_) {
      if (fits(end, start)) return true;
      end = start + lines(block.bytes);
    }
    return fits(end, number_of(arena_.memory().data()) + kSize);
  }

  static std::size_t lines(std::size_t bytes) { return bytes == 0 ? 64 : (bytes + 63) / 64 * 64; }

  struct Block {
    std::size_t bytes;
    unsigned char mark;
  };
  base::SeededRandom random_;
  std::size_t refused_ = 0;
  Arena arena_ = Arena::create(kSize).value();
  std::map<std::uintptr_t, Block> blocks_;
};

TEST(Arena, gives_blocks_that_do_not_overlap_and_all_memory_returns) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed);
    model.run();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_GT(model.refused(), 0U);  // it was full at times
    EXPECT_EQ(model.arena().free_bytes(), kSize);
    EXPECT_EQ(model.arena().allocate(kSize), model.arena().memory().data());  // in one piece
  }
}

TEST(Arena, uses_every_stretch_that_is_large_enough) {
  auto arena = Arena::create(kSize).value();
  std::vector<void*> blocks;
  while (void* const block = arena.allocate(kPage)) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), kSize / kPage);
  EXPECT_EQ(arena.free_bytes(), 0U);
  EXPECT_EQ(arena.allocate(1), nullptr);
  arena.deallocate(blocks[7]);
  arena.deallocate(blocks[9]);
  EXPECT_EQ(arena.allocate(kPage + 1), nullptr);  // not adjacent
  arena.deallocate(blocks[8]);
  EXPECT_EQ(arena.allocate(3 * kPage, kPage), blocks[7]);
}

TEST(Arena, refuses_what_it_does_not_have) {
  auto arena = Arena::create(1).value();
  EXPECT_EQ(arena.memory().size(), kPage);
  EXPECT_EQ(arena.allocate(kPage + 1), nullptr);
  EXPECT_EQ(arena.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(arena.allocate(8, 0), nullptr);
  EXPECT_EQ(arena.allocate(8, 48), nullptr);
  EXPECT_EQ(arena.allocate(8, 2 * kPage), nullptr);
  EXPECT_EQ(arena.free_bytes(), kPage);
  EXPECT_EQ(Arena::create(0).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(Arena::create(std::size_t{1} << 60).error().code, Errc::kOutOfMemory);
}

TEST(Arena, blocks_of_no_bytes_are_different) {
  auto arena = Arena::create(kPage).value();
  void* const first = arena.allocate(0);
  void* const second = arena.allocate(0);
  EXPECT_NE(first, second);
  arena.deallocate(first);
  arena.deallocate(second);
  arena.deallocate(nullptr);
  EXPECT_EQ(arena.free_bytes(), kPage);
}

TEST(ArenaDeathTest, stops_a_program_that_gives_back_what_is_no_block) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto arena = Arena::create(kPage).value();
  auto* const block = static_cast<std::byte*>(arena.allocate(256));
  int other = 0;
  EXPECT_DEATH(arena.deallocate(&other), "given back once");
  EXPECT_DEATH(arena.deallocate(block + 64), "given back once");
  EXPECT_DEATH(arena.deallocate(block + 512), "given back once");
  EXPECT_DEATH(
      {
        arena.deallocate(block);
        arena.deallocate(block);
      },
      "given back once");
}

TEST(Arena, is_a_memory_resource) {
  auto arena = Arena::create(kSize).value();
  {
    std::pmr::vector<std::uint64_t> numbers(arena.resource());
    for (std::uint64_t i = 0; i < 10'000; ++i) numbers.push_back(i);
    EXPECT_TRUE(inside(arena, numbers.data(), numbers.size() * 8));
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0}), 49'995'000U);
    EXPECT_LE(arena.free_bytes(), kSize - 80'000);
    EXPECT_THROW(numbers.resize(kSize), std::bad_alloc);
    EXPECT_EQ(numbers[9'999], 9'999U);
  }
  EXPECT_EQ(arena.free_bytes(), kSize);
  auto other = Arena::create(kPage).value();
  EXPECT_FALSE(arena.resource()->is_equal(*other.resource()));
}

TEST(Arena, is_found_by_address) {
  auto first = Arena::create(kSize).value();
  auto second = Arena::create(kSize).value();
  const auto all = first.memory();
  const auto place = find_in_arena(all.data(), all.size());
  EXPECT_NE(place.arena, 0U);
  EXPECT_EQ(place.offset, 0U);
  EXPECT_NE(find_in_arena(second.memory().data(), 1).arena, place.arena);
  EXPECT_EQ(find_in_arena(all.data() + 100, all.size() - 100).offset, 100U);
  EXPECT_EQ(find_in_arena(all.data() + 100, all.size() - 100).arena, place.arena);
  EXPECT_EQ(find_in_arena(all.data() + 100, all.size() - 99).arena, 0U);  // one byte too far
  EXPECT_EQ(find_in_arena(all.data() + 100, SIZE_MAX - 50).arena, 0U);
  EXPECT_NE(find_in_arena(all.data() - 1, 1).arena, place.arena);
  EXPECT_NE(find_in_arena(all.data() + all.size(), 0).arena, place.arena);
  int local = 0;
  EXPECT_EQ(find_in_arena(&local, sizeof local).arena, 0U);
  EXPECT_EQ(find_in_arena(nullptr, 0).arena, 0U);
}

TEST(Arena, can_be_mapped_by_whoever_gets_its_descriptor) {
  auto arena = Arena::create(kSize).value();
  auto* const word = static_cast<std::uint64_t*>(arena.allocate(8));
  const auto place = find_in_arena(word, 8);
  std::size_t bytes = 0;
  std::shared_ptr<ArenaObject> keep;
  const int fd = arena_fd(place.arena, &bytes, &keep);
  ASSERT_EQ(bytes, kSize);
  const auto peer =
      SharedMemory::receive(dup(fd), bytes, bytes, SharedMemory::Peers::kWrite).value();
  const std::uint64_t sent = 0x1234'5678'9ABC'DEF0;
  std::memcpy(peer.data() + place.offset, &sent, sizeof sent);
  EXPECT_EQ(*word, sent);
}

TEST(Arena, lives_until_the_last_who_holds_it) {
  const std::size_t before = open_fds();
  std::optional<Arena> arena(Arena::create(kSize).value());
  const auto memory = arena->memory();
  const std::uint32_t number = find_in_arena(memory.data(), 1).arena;
  auto held = hold_arena(number);
  arena.reset();
  memory[5] = std::byte{1};
  EXPECT_EQ(find_in_arena(memory.data(), 1).arena, number);
  held.reset();
  EXPECT_EQ(find_in_arena(memory.data(), 1).arena, 0U);
  EXPECT_EQ(hold_arena(number), nullptr);
  EXPECT_EQ(hold_arena(0), nullptr);
  std::size_t bytes = 0;
  EXPECT_EQ(arena_fd(number, &bytes, &held), -1);
  EXPECT_EQ(open_fds(), before);
  const auto next = Arena::create(kSize).value();
  EXPECT_NE(find_in_arena(next.memory().data(), 1).arena, number);  // numbers are not given twice
}

TEST(Arena, of_the_parent_is_plain_memory_in_a_child) {
  auto arena = Arena::create(kSize).value();
  auto* const word = static_cast<std::uint64_t*>(arena.allocate(8));
  *word = 7;
  std::atomic<bool> stop{false};
  // Busy, so that many a child is made while the arena's lock is held.
  std::thread busy([&arena, &stop] {
    while (!stop.load(std::memory_order_relaxed)) {
      arena.deallocate(arena.allocate(64));
      static_cast<void>(find_in_arena(&stop, 1));
    }
  });
  int bad = 0;
  for (int i = 0; i < 100 && bad == 0; ++i) {
    Child child([&] {
      if (*word != 0 || find_in_arena(word, 8).arena != 0) return 1;
      *word = 8;
      if (arena.allocate(8) != nullptr || arena.free_bytes() != 0) return 2;
      arena.deallocate(word);
      auto own = Arena::create(kPage).value();
      return find_in_arena(own.allocate(8), 8).arena != 0 ? 0 : 3;
    });
    bad = child.exit_code();
  }
  stop.store(true, std::memory_order_relaxed);
  busy.join();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(*word, 7U);
}

}  // namespace
}  // namespace weft::host
