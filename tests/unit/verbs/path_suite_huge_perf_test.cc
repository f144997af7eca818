// The longest message, 2^31 bytes, over every path. The memory behind it is small: one file of a
// few mebibytes, mapped again and again. Too slow for sanitizers, hence a perf test.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "support/path_suite.h"

namespace weft::test {
namespace {

class RepeatedPages {
 public:
  RepeatedPages() {
    const int fd = memfd_create("weft-test", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, kPiece) != 0) throw std::runtime_error("no memfd");
    void* all = mmap(nullptr, kMaxMessageBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw std::runtime_error("no room for 2 GiB of addresses");
    base_ = static_cast<std::byte*>(all);
    for (std::uint64_t at = 0; at < kMaxMessageBytes; at += kPiece) {
      if (mmap(base_ + at, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
          MAP_FAILED) {
        throw std::runtime_error("cannot map the file again");
      }
    }
    close(fd);
  }
  ~RepeatedPages() { munmap(base_, kMaxMessageBytes); }
  RepeatedPages(const RepeatedPages&) = delete;
  RepeatedPages& operator=(const RepeatedPages&) = delete;

  std::byte* base() { return base_; }

  static constexpr std::uint64_t kPiece = 4 << 20;

 private:
  std::byte* base_ = nullptr;
};

class PathHuge : public PathSuite {};
INSTANTIATE_TEST_SUITE_P(Over, PathHuge, testing::ValuesIn(two_devices()), way_name);

TEST_P(PathHuge, a_message_of_two_gibibytes_arrives_whole) {
  // B2.6
  constexpr auto kSize = static_cast<std::uint32_t>(kMaxMessageBytes);
  static_assert(kSize == kMaxMessageBytes);
  RepeatedPages near_pages, far_pages;
  const MemoryRegion near = must(a.pd.register_memory(near_pages.base(), kSize, kEverything));
  const MemoryRegion far = must(b.pd.register_memory(far_pages.base(), kSize, kEverything));
  auto [qa, qb] = connect();
  patience = std::chrono::seconds(240);
  const bool through_the_kernel = GetParam().wire == Wire::kUdp;  // slow: one kind will do
  for (const SendOp op : {SendOp::kWrite, SendOp::kSend, SendOp::kRead}) {
    if (through_the_kernel && op != SendOp::kWrite) continue;
    std::byte* source = op == SendOp::kRead ? far_pages.base() : near_pages.base();
    std::byte* sink = op == SendOp::kRead ? near_pages.base() : far_pages.base();
    for (std::size_t i = 0; i < RepeatedPages::kPiece; ++i) {
      source[i] = pattern(static_cast<std::uint32_t>(op), i);
    }
    std::memset(sink, 0, RepeatedPages::kPiece);
    if (op == SendOp::kSend) post_receive(qb, 50, {far.sge()});
    const auto start = Steady::now();
    post(qa, {.wr_id = 1, .op = op, .remote = far.remote()}, {near.sge()});
    const Completion completion = next(a.sends);
    ASSERT_TRUE(completion.ok()) << to_string(completion.status);
    EXPECT_EQ(completion.byte_count, kSize);
    if (op == SendOp::kSend) {
      EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, kSize));
    }
    const std::chrono::duration<double> took = Steady::now() - start;
    RecordProperty(std::string(to_string(op)) + "_ms", static_cast<int>(took.count() * 1000));
    EXPECT_EQ(std::memcmp(source, sink, RepeatedPages::kPiece), 0);
  }
}

TEST_P(PathHuge, a_message_of_one_byte_more_is_refused_at_the_post) {
  RepeatedPages pages;
  const MemoryRegion region =
      must(a.pd.register_memory(pages.base(), kMaxMessageBytes, kEverything));
  auto [qa, qb] = connect();
  const std::array sges{region.sge(), region.sge(0, 1)};
  const auto refused =
      qa.post_send(SendRequest{.op = SendOp::kWrite, .sges = sges, .remote = region.remote()});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace weft::test
