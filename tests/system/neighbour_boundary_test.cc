// Who gets at a process's memory, and at which of it: not another user, whatever number it seems to
// have; not by a descriptor of all of it; not where the owner has made pages read-only.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "support/intruder.h"
#include "support/kernel_filters.h"
#include "support/neighbour_side.h"
#include "support/sandbox.h"

namespace weft::test {
namespace {

std::string path_of(int fd) {
  std::array<char, 256> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = readlink(link.c_str(), name.data(), name.size() - 1);
  return n > 0 ? std::string(name.data(), static_cast<std::size_t>(n)) : "";
}

/// Opens a device, says where it is and where a secret lies, and waits.
struct Victim {
  verbs::Endpoint end;
  std::uint64_t secret_at = 0;
};
constexpr std::uint64_t kSecret = 0x0123'4567'89AB'CDEF;

void be_victim(const Wire& wire) {
  const volatile std::uint64_t secret = kSecret;
  const Side side;
  wire.put(Victim{side.qp.endpoint(), reinterpret_cast<std::uint64_t>(&secret)});
  wire.get<char>();
}

// ---- descriptors of everything ----------------------------------------------------------------

class NeighbourMemory : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(WithTracing, NeighbourMemory, testing::Values("on", "off"),
                         [](const auto& wish) { return std::string(wish.param); });

TEST_P(NeighbourMemory, no_caller_is_given_all_of_the_memory) {
  Partner victim([&](const Wire& wire) {
    setenv("WEFT_PTRACER", GetParam(), 1);
    be_victim(wire);
  });
  Partner caller([](const Wire& wire) {
    const auto [end, secret_at] = wire.get<Victim>();
    // Of the same user, but the kernel would not let it trace one who may do more.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> none{};
    WEFT_REQUIRE(syscall(SYS_capset, &header, none.data()) == 0);
    Intruder intruder(end);
    WEFT_REQUIRE(intruder.is_welcome());
    for (const host::Message& message : intruder.received) {
      for (const auto& fd : message.fds) {
        std::uint64_t seen = 0;
        WEFT_REQUIRE(!path_of(fd.get()).ends_with("/mem"));
        const auto n = pread(fd.get(), &seen, sizeof seen, static_cast<off_t>(secret_at));
        WEFT_REQUIRE(n != sizeof seen || seen != kSecret);
      }
    }
  });
  caller.wire().put(victim.wire().get<Victim>());
  EXPECT_EQ(caller.join(), 0);
  victim.wire().put('d');
  EXPECT_EQ(victim.join(), 0);
}

// ---- who is the same user ---------------------------------------------------------------------

/// A caller that must be turned away before it is told anything.
void expect_hang_up(const Wire& wire) {
  Intruder intruder(wire.get<Victim>().end);
  WEFT_REQUIRE(!intruder.is_welcome());
}

TEST(NeighbourBoundary, who_has_no_number_here_is_not_the_same_user) {
  // Both the victim and all strangers read as the overflow uid in its namespace.
  Partner victim([](const Wire& wire) {
    become(kNobody - 2);
    if (unshare(CLONE_NEWUSER) != 0) {
      wire.put(Victim{});
      return;
    }
    be_victim(wire);
  });
  const auto where = victim.wire().get<Victim>();
  if (where.secret_at == 0) GTEST_SKIP() << "no user namespaces here";
  Partner caller([](const Wire& wire) {
    become(kNobody - 1);
    expect_hang_up(wire);
  });
  caller.wire().put(where);
  EXPECT_EQ(caller.join(), 0);
  victim.wire().put('d');
  EXPECT_EQ(victim.join(), 0);
}

/// Of a peer, by its socket: newer kernels do. Else nobody of a namespace is known to be the same.
bool kernel_shows_namespaces_of_peers() {
  constexpr int kPeerPidfd = 77;
  constexpr unsigned long kGetUserNamespace = _IO(0xFF, 9);
  std::array<int, 2> ends{};
  WEFT_REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const host::Fd here(ends[0]), there(ends[1]);
  int found = -1;
  socklen_t size = sizeof found;
  if (getsockopt(here.get(), SOL_SOCKET, kPeerPidfd, &found, &size) != 0) return false;
  const host::Fd peer(found);
  const host::Fd space(ioctl(peer.get(), kGetUserNamespace, 0));
  return bool(space);
}

/// Two that really are nobody: they are the same user.
void expect_two_nobodies_to_talk() {
  Partner target([](const Wire& to) {
    WEFT_REQUIRE(become(kNobody));
    run_target(to);
  });
  Partner initiator([](const Wire& to) {
    WEFT_REQUIRE(become(kNobody));
    Side side;
    Worker worker(side);
    side.connect(to);
    WEFT_REQUIRE(worker.round(to.get<Offer>(), 1));
    leave_last(to);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  char said = 0;
  WEFT_REQUIRE(initiator.wire().get(&said));
  target.wire().put('d');
  WEFT_REQUIRE(target.join() == 0);
  initiator.wire().put('d');
  WEFT_REQUIRE(initiator.join() == 0);
}

TEST(NeighbourBoundary, nobody_of_a_namespace_is_told_apart_from_who_has_no_number_there) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be several users";
  constexpr uid_t kOutside = 70'000;
  Partner inside([](const Wire& wire) {
    WEFT_REQUIRE(unshare(CLONE_NEWUSER) == 0);
    wire.put('n');
    wire.get<char>();  // the maps are written by one who may
    if (kernel_shows_namespaces_of_peers()) expect_two_nobodies_to_talk();
    WEFT_REQUIRE(become(kNobody));
    be_victim(wire);
  });
  inside.wire().get<char>();
  const std::string proc = "/proc/" + std::to_string(inside.pid());
  write_file((proc + "/uid_map").c_str(), "0 0 65535");
  write_file((proc + "/gid_map").c_str(), "0 0 65535");
  inside.wire().put('g');
  const auto where = inside.wire().get<Victim>();
  Partner caller([](const Wire& wire) {
    WEFT_REQUIRE(become(kOutside));
    expect_hang_up(wire);
  });
  caller.wire().put(where);
  EXPECT_EQ(caller.join(), 0);
  inside.wire().put('d');
  EXPECT_EQ(inside.join(), 0);
}

// ---- page protection --------------------------------------------------------------------------

struct Pages {
  static constexpr std::size_t kPage = 4096, kCount = 4;
  explicit Pages(bool in_arena)
      : arena(*Arena::create(kPage * kCount)),
        bytes(in_arena ? arena.memory()
                       : std::span(static_cast<std::byte*>(
                                       mmap(nullptr, kPage * kCount, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
                                   kPage * kCount)) {
    std::fill(bytes.begin(), bytes.end(), std::byte{7});
  }
  bool untouched() const {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{7}; });
  }
  Arena arena;
  std::span<std::byte> bytes;
};

/// The owner takes the right to write from its pages; a peer's write is refused.
void expect_page_protection(bool in_arena, const std::function<void()>& both_enter) {
  Partner target([&](const Wire& wire) {
    both_enter();
    Side side;
    const Pages pages(in_arena);
    const auto region = *side.pd.register_memory(pages.bytes, kAllAccess);
    side.connect(wire);
    WEFT_REQUIRE(mprotect(pages.bytes.data(), pages.bytes.size(), PROT_READ) == 0);
    wire.put(region.remote());
    wire.get<char>();
    WEFT_REQUIRE(pages.untouched());
    wire.put('u');
    wire.get<char>();
  });
  Partner initiator([&](const Wire& wire) {
    both_enter();
    Side side;
    Worker worker(side, Pages::kPage);
    fill(worker.out, 3);
    side.connect(wire);
    const auto remote = wire.get<RemoteAddress>();
    WEFT_REQUIRE(side.qp.post_write(worker.out_region.sge(), remote));
    const auto status = side.wait().status;
    wire.put(status);
    wire.get<char>();
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<RemoteAddress>());
  CompletionStatus status{};
  char said = 0;
  EXPECT_TRUE(initiator.wire().get(&status));
  EXPECT_EQ(status, CompletionStatus::kRemoteAccessError);
  target.wire().put('d');
  EXPECT_TRUE(target.wire().get(&said)) << "a peer wrote what the owner may only read";
  target.wire().put('d');
  EXPECT_EQ(target.join(), 0);
  initiator.wire().put('d');
  EXPECT_EQ(initiator.join(), 0);
}

TEST(NeighbourBoundary, pages_that_the_owner_made_read_only_are_not_written) {
  // B4.14
  expect_page_protection(false, [] {});
}

TEST(NeighbourBoundary, nor_where_the_kernel_refuses_to_copy) {
  WEFT_NEEDS_KERNEL_FILTERS();
  // B4.14
  expect_page_protection(false, [] {
    refuse_calls({SYS_process_vm_readv, SYS_process_vm_writev}, EPERM);
  });
}

TEST(NeighbourBoundary, nor_in_an_arena_when_the_owner_checks) {
  // B4.14
  expect_page_protection(true, [] { setenv("WEFT_OWNER_CHECKS", "on", 1); });
}

// ---- owner checks -----------------------------------------------------------------------------

bool maps_an_arena(pid_t process) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("weft-arena") != std::string::npos) return true;
  }
  return false;
}

/// All traffic passes while neither process has the other's memory.
void expect_checked_traffic(const std::function<void()>& target_enters,
                            const std::function<void()>& initiator_enters) {
  Partner target([&](const Wire& wire) {
    target_enters();
    run_target(wire);
  });
  Partner initiator([&](const Wire& wire) {
    initiator_enters();
    // Whoever tried to reach the target's memory by system call would not succeed.
    refuse_calls({SYS_process_vm_readv, SYS_process_vm_writev}, EFAULT);
    Side side;
    Worker worker(side, 300'000);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    for (unsigned seed = 0; seed < 3; ++seed) WEFT_REQUIRE(worker.round(offer, seed));
    WEFT_REQUIRE(!maps_an_arena(getpid()));
    leave_last(wire);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  finish(target, initiator);
}

void check() { setenv("WEFT_OWNER_CHECKS", "on", 1); }

TEST(NeighbourBoundary, an_owner_that_checks_gives_no_memory_away_and_serves_all) {
  WEFT_NEEDS_KERNEL_FILTERS();
  expect_checked_traffic(check, [] {});
}

TEST(NeighbourBoundary, an_initiator_that_wants_owners_to_check_takes_no_memory) {
  WEFT_NEEDS_KERNEL_FILTERS();
  expect_checked_traffic([] {}, check);
}

TEST(NeighbourBoundary, an_owner_that_checks_shows_a_hostile_caller_no_keys) {
  Partner victim([](const Wire& wire) {
    check();
    Side side;
    const Served served(side);
    wire.put(Victim{side.qp.endpoint(), 1});
    wire.get<char>();
  });
  Partner caller([](const Wire& wire) {
    Intruder intruder(wire.get<Victim>().end);
    WEFT_REQUIRE(intruder.is_welcome());
    WEFT_REQUIRE(intruder.received.size() == 1);  // the welcome, and no arena
    host::Message& welcome = intruder.received.front();
    WEFT_REQUIRE(host::parse_handshake(welcome)->owner_checks);
    auto tables = host::SharedMemory::receive(welcome.fds[1].release(), 1, ~std::size_t{0} >> 1,
                                              host::SharedMemory::Peers::kRead);
    WEFT_REQUIRE(tables);
    const auto keys = tables->bytes().subspan(host::PublicLayout::kKeysAt, 1 << 20);
    WEFT_REQUIRE(std::all_of(keys.begin(), keys.end(), [](auto b) { return b == std::byte{0}; }));
  });
  caller.wire().put(victim.wire().get<Victim>());
  EXPECT_EQ(caller.join(), 0);
  victim.wire().put('d');
  EXPECT_EQ(victim.join(), 0);
}

TEST(NeighbourBoundary, a_key_is_refused_by_an_owner_that_checks_as_by_any) {
  Partner target([](const Wire& wire) {
    check();
    run_bereaved_target(wire);
  });
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    Offer offer = wire.get<Offer>();
    WEFT_REQUIRE(worker.round(offer, 1));
    offer.heap.key.value ^= 1;
    WEFT_REQUIRE(side.qp.post_write(worker.out_region.sge(), offer.heap));
    WEFT_REQUIRE(side.wait().status == CompletionStatus::kRemoteAccessError);
    wire.put('o');
    wire.get<char>();
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  char said = 0;
  std::int64_t failed = 0;
  EXPECT_TRUE(initiator.wire().get(&said));
  target.wire().put('d');
  EXPECT_TRUE(target.wire().get(&failed));
  EXPECT_GT(failed, 0);
  EXPECT_EQ(target.join(), 0);
  initiator.wire().put('d');
  EXPECT_EQ(initiator.join(), 0);
}

}  // namespace
}  // namespace weft::test
