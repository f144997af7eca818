#include "memory/guard.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <thread>

#include "unit/memory/pages.h"

namespace weft::memory {
namespace {

using test::page_bytes;
using test::Pages;

class Guard : public testing::Test {
 protected:
  Guard() { install_guard(); }
};

TEST_F(Guard, tells_that_a_leaf_went_through) {
  int done = 0;
  EXPECT_TRUE(guarded([&] { done = 1; }));
  EXPECT_EQ(done, 1);
}

TEST_F(Guard, turns_a_touch_of_unmapped_memory_into_a_result) {
  const Pages pages(1);
  std::byte target{};
  pages.unmap(0);
  for (int i = 0; i < 3; ++i) {  // more than once: the signal must not stay blocked
    EXPECT_EQ(guarded_fault([&] { std::memcpy(&target, pages.data(), 1); }), Fault::kUnmapped);
  }
}

TEST_F(Guard, turns_a_write_to_read_only_memory_into_a_result) {
  const Pages pages(1);
  pages.protect(0, PROT_READ);
  EXPECT_EQ(guarded_fault([&] { std::memset(pages.data(), 1, 64); }), Fault::kProtection);
}

TEST_F(Guard, turns_the_end_of_a_truncated_file_into_a_result) {
  const test::TruncatedFile file;
  EXPECT_EQ(guarded_fault([&] { std::memset(file.pages().page(1), 1, 64); }), Fault::kUnmapped);
}

TEST_F(Guard, catches_an_address_that_no_process_can_have) {
  auto* nowhere = reinterpret_cast<std::byte*>(0x8000'0000'0000'0010);
  const std::array<std::byte, 8> word{};
  EXPECT_NE(guarded_copy(nowhere, word.data(), 8), Fault::kNone);
}

TEST_F(Guard, nests) {
  const Pages pages(1);
  pages.unmap(0);
  bool inner = true, after = false;
  EXPECT_FALSE(guarded([&] {
    inner = guarded([&] { std::memset(pages.data(), 1, 16); });
    after = true;
    std::memset(pages.data(), 1, 16);
    ADD_FAILURE() << "the outer guard did not see its own fault";
  }));
  EXPECT_FALSE(inner);
  EXPECT_TRUE(after);
}

TEST_F(Guard, probes_without_changing_a_byte) {
  const Pages pages(2);
  pages.data()[5] = std::byte{0xA5};
  EXPECT_EQ(guarded_probe(pages.data() + 5, Intent::kRead), Fault::kNone);
  EXPECT_EQ(guarded_probe(pages.data() + 5, Intent::kWrite), Fault::kNone);
  EXPECT_EQ(pages.data()[5], std::byte{0xA5});
  pages.protect(0, PROT_READ);
  EXPECT_EQ(guarded_probe(pages.data() + 5, Intent::kRead), Fault::kNone);
  EXPECT_EQ(guarded_probe(pages.data() + 5, Intent::kWrite), Fault::kProtection);
  pages.unmap(1);
  EXPECT_EQ(guarded_probe(pages.page(1), Intent::kRead), Fault::kUnmapped);
}

TEST_F(Guard, works_for_a_thread_on_an_alternate_signal_stack) {
  const Pages pages(1), stack(16);
  pages.unmap(0);
  bool first = true, second = true;
  std::thread([&] {
    stack_t alternate{};
    alternate.ss_sp = stack.data();
    alternate.ss_size = stack.size();
    stack_t before{};
    ASSERT_EQ(sigaltstack(&alternate, &before), 0);
    first = guarded([&] { std::memset(pages.data(), 1, 64); });
    second = guarded([&] { std::memset(pages.data(), 1, 64); });
    sigaltstack(&before, nullptr);
  }).join();
  EXPECT_FALSE(first);
  EXPECT_FALSE(second);
}

TEST(ThreadsGuard, faults_of_one_thread_do_not_reach_another) {
  install_guard();
  const Pages gone(1);
  gone.unmap(0);
  std::array<int, 4> caught{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < caught.size(); ++t) {
    threads.emplace_back([&, t] {
      std::array<std::byte, 64> mine{};
      for (int i = 0; i < 500; ++i) {
        caught[t] += guarded([&] { std::memset(mine.data(), i, 64); }) ? 0 : 1000;
        caught[t] += guarded([&] { std::memset(gone.data(), i, 64); }) ? 0 : 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const int n : caught) EXPECT_EQ(n, 500);
}

}  // namespace
}  // namespace weft::memory
