// One region for all memory of the process, over every path: what was never registered by itself is
// sent, received, read, written and bound; what is not there is an error for whoever wants it.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "memory/key_table.h"
#include "support/path_suite.h"

namespace weft::test {
namespace {

/// Three pages, of which the last can be taken away or protected; nobody has registered them.
class LoosePages {
 public:
  LoosePages() {
    void* at =
        mmap(nullptr, 3 * size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no pages");
    at_ = static_cast<std::byte*>(at);
  }
  ~LoosePages() { munmap(at_, 3 * size()); }
  LoosePages(const LoosePages&) = delete;
  LoosePages& operator=(const LoosePages&) = delete;

  static std::size_t size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  std::byte* data() const { return at_; }
  std::byte* last() const { return at_ + 2 * size(); }
  void protect_last(int rights) const { ASSERT_EQ(mprotect(last(), size(), rights), 0); }
  /// Nothing is behind its addresses any more; they stay taken, so that nothing else comes there.
  void take_last_away() const { protect_last(PROT_NONE); }

 private:
  std::byte* at_;
};

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

class PathImplicit : public PathSuite {
 protected:
  struct Bytes : std::vector<std::byte> {
    explicit Bytes(std::size_t n, std::optional<std::uint32_t> seed = {}) : vector(n) {
      if (seed) fill(*seed);
    }
    void fill(std::uint32_t seed) {
      for (std::size_t i = 0; i < size(); ++i) (*this)[i] = pattern(seed, i);
    }
  };
  static Sge part(const MemoryRegion& space, const void* at, std::size_t n) {
    return space.sge(number(at), static_cast<std::uint32_t>(n));
  }
  static Sge part(const MemoryRegion& space, Bytes& bytes) {
    return part(space, bytes.data(), bytes.size());
  }
  static RemoteAddress at(const MemoryRegion& space, const void* where) {
    return space.remote(number(where));
  }
  CompletionStatus run(SendOp op, const RemoteAddress& remote, const Sge& sge) {
    Link link = connect();
    post(link.a, {.wr_id = 1, .op = op, .remote = remote}, {sge});
    return next(a.sends).status;
  }
  CompletionStatus bind(Link& owner, MemoryWindow& window, const void* from, std::uint64_t n,
                        Access access = Access::kRemoteWrite | Access::kRemoteRead) {
    must(owner.b.post_send(window.bind_request(all_b, number(from), n, access)));
    return next(b.sends).status;
  }

  MemoryRegion all_a = must(a.pd.register_address_space(kEverything));
  MemoryRegion all_b = must(b.pd.register_address_space(kEverything));
};
INSTANTIATE_TEST_SUITE_P(Over, PathImplicit, testing::ValuesIn(all_ways()), way_name);

TEST_P(PathImplicit, memory_that_was_never_registered_is_sent_received_written_and_read) {
  // B4.13
  for (const std::size_t n : {std::size_t{8}, std::size_t{1000}, std::size_t{300'000}}) {
    Link link = connect();
    Bytes out(n, 1), in(n), far(n), inbox(n);
    post_receive(link.b, 50, {part(all_b, inbox)});
    post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {part(all_a, out)});
    EXPECT_TRUE(is_done(next(b.receives), 50, CompletionOp::kReceive, n));
    EXPECT_TRUE(is_done(next(a.sends), 1, CompletionOp::kSend, n));
    EXPECT_EQ(inbox, out);
    for (int again = 0; again < 3; ++again) {  // by keys that are known, too
      out.fill(10 + static_cast<std::uint32_t>(again));
      post(link.a, {.wr_id = 2, .op = SendOp::kWrite, .remote = at(all_b, far.data())},
           {part(all_a, out)});
      EXPECT_TRUE(is_done(next(a.sends), 2, CompletionOp::kWrite, n));
      EXPECT_EQ(far, out);
      post(link.a, {.wr_id = 3, .op = SendOp::kRead, .remote = at(all_b, far.data())},
           {part(all_a, in)});
      EXPECT_TRUE(is_done(next(a.sends), 3, CompletionOp::kRead, n));
      EXPECT_EQ(in, out);
    }
  }
  Link link = connect();
  alignas(8) std::uint64_t counter = 40, old = 0;
  post(link.a, {.wr_id = 4, .op = SendOp::kFetchAdd, .remote = at(all_b, &counter), .operand = 2},
       {part(all_a, &old, 8)});
  EXPECT_TRUE(is_done(next(a.sends), 4, CompletionOp::kFetchAdd, 8));
  EXPECT_EQ(counter, 42u);
  EXPECT_EQ(old, 40u);
}

TEST_P(PathImplicit, memory_that_is_mapped_later_belongs_to_it) {
  // B4.13
  const LoosePages far;
  Bytes out(100, 3);
  far.take_last_away();
  EXPECT_EQ(run(SendOp::kWrite, at(all_b, far.last()), part(all_a, out)), kRefused);
  far.protect_last(PROT_READ | PROT_WRITE);
  EXPECT_EQ(run(SendOp::kWrite, at(all_b, far.last()), part(all_a, out)), kDone);
  EXPECT_EQ(std::memcmp(far.last(), out.data(), 100), 0);
}

TEST_P(PathImplicit, windows_are_bound_to_any_memory_of_the_process) {
  // B4.13: the region itself lets no peer in.
  const MemoryRegion unshared =
      must(b.pd.register_address_space(Access::kLocalWrite | Access::kWindowBind));
  for (const WindowType type : {WindowType::kType1, WindowType::kType2}) {
    Link link = connect();
    Bytes far(600);
    MemoryWindow window = must(b.pd.allocate_window(type));
    must(link.b.post_send(window.bind_request(unshared, number(far.data()) + 13, 500,
                                              Access::kRemoteWrite | Access::kRemoteRead)));
    EXPECT_EQ(next(b.sends).status, kDone);
    Bytes out(500, 4);
    const std::uint64_t base = number(far.data()) + 13;
    const auto write = [&](std::uint64_t to, RemoteKey key) {
      post(link.a, {.wr_id = 1, .op = SendOp::kWrite, .remote = {to, key}}, {part(all_a, out)});
      return next(a.sends).status;
    };
    EXPECT_EQ(write(base, window.rkey()), kDone);
    EXPECT_EQ(std::memcmp(far.data() + 13, out.data(), 500), 0);
    EXPECT_EQ(write(base + 1, window.rkey()), kRefused);
    EXPECT_EQ(far[513], std::byte{0});
    EXPECT_EQ(run(SendOp::kWrite, {base, unshared.rkey()}, part(all_a, out)), kRefused);
  }
}

TEST_P(PathImplicit, memory_that_the_process_may_not_touch_is_not_bound) {
  // B4.13, B4.7: and a bind for reading needs no right to write.
  for (const int rights : {PROT_NONE, PROT_READ}) {
    const LoosePages far;
    far.protect_last(rights);
    for (const WindowType type : {WindowType::kType1, WindowType::kType2}) {
      MemoryWindow window = must(b.pd.allocate_window(type));
      Link bad = connect(), good = connect();
      EXPECT_EQ(bind(bad, window, far.data(), 2 * LoosePages::size() + 1),
                CompletionStatus::kWindowBindError);
      MemoryWindow other = must(b.pd.allocate_window(type));
      EXPECT_EQ(bind(good, other, far.data(), 2 * LoosePages::size()), kDone);
      MemoryWindow reads = must(b.pd.allocate_window(type));
      EXPECT_EQ(bind(good, reads, far.last(), 8, Access::kRemoteRead),
                rights == PROT_READ ? kDone : CompletionStatus::kWindowBindError);
    }
  }
}

TEST_P(PathImplicit, memory_that_is_not_there_is_an_error_and_nobody_crashes) {
  // B4.13, B4.9
  const LoosePages near, far;
  near.take_last_away();
  far.take_last_away();
  Bytes own(64, 5);
  for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
    EXPECT_EQ(run(op, at(all_b, far.last()), part(all_a, own)), kRefused);
    EXPECT_EQ(run(op, at(all_b, far.last() - 32), part(all_a, own)), kRefused);
    EXPECT_EQ(run(op, at(all_b, far.data()), part(all_a, near.last(), 64)),
              CompletionStatus::kLocalProtectionError);
  }
  EXPECT_EQ(run(SendOp::kFetchAdd, at(all_b, far.last()), part(all_a, own.data(), 8)), kRefused);
  Link link = connect();
  post_receive(link.b, 50, {part(all_b, far.last(), 64)});
  post(link.a, {.wr_id = 1, .op = SendOp::kSend}, {part(all_a, own)});
  EXPECT_TRUE(has_failed(next(a.sends), 1, CompletionStatus::kRemoteOperationError));
  EXPECT_TRUE(has_failed(next(b.receives), 50, CompletionStatus::kLocalProtectionError));
}

TEST_P(PathImplicit, what_the_owner_made_read_only_is_read_and_not_written) {
  // B4.13, B4.14
  const LoosePages far;
  std::memset(far.data(), 0x11, 3 * LoosePages::size());
  far.protect_last(PROT_READ);
  Bytes own(64, 6);
  EXPECT_EQ(run(SendOp::kWrite, at(all_b, far.last()), part(all_a, own)), kRefused);
  EXPECT_EQ(run(SendOp::kRead, at(all_b, far.last()), part(all_a, own)), kDone);
  EXPECT_EQ(own, std::vector<std::byte>(64, std::byte{0x11}));
}

TEST_P(PathImplicit, addresses_at_the_ends_of_the_address_space_are_refused) {
  // B4.13, B4.9: whatever a peer asks for. Not canonical, the kernel's, the first and the last
  // bytes, and ranges that go round.
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  constexpr std::array<std::uint64_t, 9> kAddresses{
      0,          8,         1ull << 47, 1ull << 63, 0xFFFF'8000'0000'0000, kLast - 4095,
      kLast - 63, kLast - 7, kLast};
  Bytes own(64, 7);
  for (const std::uint64_t address : kAddresses) {
    SCOPED_TRACE(address);
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
      EXPECT_EQ(run(op, {address, all_b.rkey()}, part(all_a, own)), kRefused);
    }
    EXPECT_EQ(run(SendOp::kRead, at(all_b, own.data()), {address, 8, all_a.lkey()}),
              CompletionStatus::kLocalProtectionError);
    MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
    Link link = connect();
    EXPECT_EQ(bind(link, window, reinterpret_cast<const void*>(address), 64),
              CompletionStatus::kWindowBindError);
  }
  MemoryWindow window = must(b.pd.allocate_window(WindowType::kType1));
  Link link = connect();
  EXPECT_EQ(bind(link, window, own.data(), kLast - 8), CompletionStatus::kWindowBindError);
}

TEST_P(PathImplicit, it_ends_with_its_deregistration) {
  // B4.13
  Bytes far(64), own(64, 8);
  const RemoteAddress remote = at(all_b, far.data());
  EXPECT_EQ(run(SendOp::kWrite, remote, part(all_a, own)), kDone);
  must(all_b.deregister());
  own.fill(9);
  EXPECT_EQ(run(SendOp::kWrite, remote, part(all_a, own)), kRefused);
  EXPECT_EQ(far, Bytes(64, 8));
}

TEST_P(PathImplicit, other_keys_and_rights_hold_beside_it) {
  // B4.13: a region of the whole space opens no more than its own rights, for its own domain.
  const MemoryRegion reads = must(b.pd.register_address_space(Access::kRemoteRead));
  const ProtectionDomain other = must(b.device.allocate_pd());
  const MemoryRegion foreign = must(other.register_address_space(kEverything));
  Bytes far(64, 1), own(64, 2);
  EXPECT_EQ(run(SendOp::kWrite, at(reads, far.data()), part(all_a, own)), kRefused);
  EXPECT_EQ(run(SendOp::kWrite, at(foreign, far.data()), part(all_a, own)), kRefused);
  EXPECT_EQ(far, Bytes(64, 1));
  EXPECT_EQ(run(SendOp::kRead, at(reads, far.data()), part(all_a, own)), kDone);
  EXPECT_EQ(own, far);
}

TEST_P(PathImplicit, its_parts_are_brought_in_on_advice) {
  // B4.13
  const LoosePages far;
  const std::size_t page = LoosePages::size();
  std::array<unsigned char, 3> present{};
  must(b.pd.prefetch(part(all_b, far.data() + 1, 2 * page), true));
  ASSERT_EQ(mincore(far.data(), 3 * page, present.data()), 0);
  EXPECT_EQ(present[0] & present[1] & present[2] & 1, 1);
  far.protect_last(PROT_READ);
  EXPECT_TRUE(b.pd.prefetch(part(all_b, far.last(), 8), false));
  EXPECT_EQ(b.pd.prefetch(part(all_b, far.last(), 8), true).error().code, Errc::kBadAddress);
  far.take_last_away();
  EXPECT_EQ(b.pd.prefetch(part(all_b, far.last(), 8), false).error().code, Errc::kBadAddress);
  EXPECT_EQ(b.pd.prefetch({number(far.data()), 8, LocalKey(0)}, false).error().code,
            Errc::kBadAddress);
}

}  // namespace
}  // namespace weft::test
