// The same small mixed traffic between two processes of one host, in environments that take
// something away: rights, system calls, namespaces, room, processors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include <thread>

#include "support/kernel_filters.h"
#include "support/neighbour_side.h"
#include "support/sandbox.h"

namespace weft::test {
namespace {

constexpr std::size_t kMegabyte = 1'048'576;
constexpr const char* kRingNotice = "its memory cannot be reached from here";

/// Messages, writes and reads of a megabyte in heap and arena memory, atomics.
void run_initiator(const Wire& wire, unsigned rounds = 3) {
  Side side;
  Worker worker(side, kMegabyte);
  side.connect(wire);
  const auto offer = wire.get<Offer>();
  for (unsigned seed = 0; seed < rounds; ++seed) WEFT_REQUIRE(worker.round(offer, seed));
  leave_last(wire);
}

/// Two partners, each in its environment; everything arrives.
void expect_traffic(const std::function<void()>& target_enters,
                    const std::function<void()>& initiator_enters, int ring_notices = 0) {
  Partner target([&](const Wire& wire) {
    target_enters();
    run_target(wire);
  });
  Partner initiator([&](const Wire& wire) {
    initiator_enters();
    const CaughtErrors errors;
    run_initiator(wire);
    WEFT_REQUIRE(errors.count(kRingNotice) == ring_notices);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  finish(target, initiator);
}
void expect_traffic(const std::function<void()>& both_enter, int ring_notices = 0) {
  expect_traffic(both_enter, both_enter, ring_notices);
}

void refuse_copies(int error) {
  refuse_calls({SYS_process_vm_readv, SYS_process_vm_writev}, error);
}

TEST(NeighbourEnvironments, as_they_come) {
  expect_traffic([] {});
}

TEST(NeighbourEnvironments, unprivileged_user) {
  expect_traffic([] { become(kNobody); });
}

TEST(NeighbourEnvironments, copying_calls_not_permitted) {
  WEFT_NEEDS_KERNEL_FILTERS();
  expect_traffic([] { refuse_copies(EPERM); }, 1);
}

TEST(NeighbourEnvironments, copying_calls_unknown) {
  WEFT_NEEDS_KERNEL_FILTERS();
  expect_traffic(
      [] {
        become(kNobody);
        refuse_copies(ENOSYS);
      },
      1);
}

TEST(NeighbourEnvironments, target_that_nobody_may_look_into) {
  // The initiator's calls are refused by the kernel itself, as Yama does.
  expect_traffic(
      [] {
        become(kNobody);
        WEFT_REQUIRE(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
      },
      [] { become(kNobody); }, 1);
}

TEST(NeighbourEnvironments, initiator_with_fewer_capabilities) {
  // The same user, but the kernel protects who may do more: the target copies.
  expect_traffic([] {},
                 [] {
                   __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
                   std::array<__user_cap_data_struct, 2> none{};
                   WEFT_REQUIRE(syscall(SYS_capset, &header, none.data()) == 0);
                 },
                 geteuid() == 0 ? 1 : 0);
}

TEST(NeighbourEnvironments, membarrier_refused_from_the_start_of_weft) {
  WEFT_NEEDS_KERNEL_FILTERS();
  for (const int error : {EPERM, ENOSYS}) {
    expect_traffic([error] { refuse_calls({SYS_membarrier}, error); });
  }
}

TEST(NeighbourEnvironments, membarrier_refused_to_one_of_two) {
  WEFT_NEEDS_KERNEL_FILTERS();
  const auto refuse = [] { refuse_calls({SYS_membarrier}, EPERM); };
  expect_traffic(refuse, [] {});
  expect_traffic([] {}, refuse);
}

TEST(NeighbourEnvironments, membarrier_refused_in_the_middle) {
  WEFT_NEEDS_KERNEL_FILTERS();
  Partner target(run_target);
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    WEFT_REQUIRE(worker.round(offer, 1));
    refuse_calls({SYS_membarrier}, EPERM);  // of this thread; the helper's goes on
    WEFT_REQUIRE(worker.round(offer, 2));
    for (int i = 0; i < 10; ++i) {
      auto region = side.pd.register_memory(worker.in, kAllAccess);
      WEFT_REQUIRE(region && region->deregister());
    }
    WEFT_REQUIRE(worker.round(offer, 3));
    leave_last(wire);
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  finish(target, initiator);
}

TEST(NeighbourEnvironments, small_shared_memory_file_system) {
  expect_traffic([] {
    struct statvfs room {};
    if (!enter_namespaces(CLONE_NEWNS, false) ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0) {
      return note_refusal("a small /dev/shm");
    }
    WEFT_REQUIRE(statvfs("/dev/shm", &room) == 0 && room.f_blocks * room.f_frsize == 65'536);
  });
}

class PidNamespaces : public testing::TestWithParam<bool> {};

TEST_P(PidNamespaces, hide_process_numbers) {
  // Neither process has a number in the other's namespace.
  const bool own_user = GetParam();
  Partner target(
      [own_user](const Wire& wire) { in_pid_namespace(own_user, [&] { run_target(wire); }); });
  Partner initiator(
      [own_user](const Wire& wire) { in_pid_namespace(own_user, [&] { run_initiator(wire); }); });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<Offer>());
  finish(target, initiator);
}
INSTANTIATE_TEST_SUITE_P(NeighbourEnvironments, PidNamespaces, testing::Bool(),
                         [](const auto& own) {
                           return own.param ? "of_user_namespaces" : "of_one_user_namespace";
                         });

TEST(NeighbourEnvironments, two_users_are_kept_apart) {
  // B1.1: the user is the boundary; who is turned away is told why, and at once.
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  Partner target([](const Wire& wire) {
    WEFT_REQUIRE(become(kNobody));
    Side side;
    wire.put(side.qp.endpoint());
    wire.get<char>();
  });
  Partner initiator([](const Wire& wire) {
    WEFT_REQUIRE(become(kNobody - 1));
    Side side;
    const auto peer = wire.get<verbs::Endpoint>();
    const std::int64_t before = now_ms();
    const auto connected = side.qp.connect(peer);
    WEFT_REQUIRE(now_ms() - before < 1000 * kSlowness);
    WEFT_REQUIRE(!connected && connected.error().code == Errc::kNotPermitted);
    WEFT_REQUIRE(connected.error().message.find("65534") != std::string::npos);
  });
  initiator.wire().put(target.wire().get<verbs::Endpoint>());
  EXPECT_EQ(initiator.join(), 0);
  target.wire().put('d');
  EXPECT_EQ(target.join(), 0);
}

TEST(NeighbourEnvironments, four_busy_processes_on_two_processors) {
  const auto squeeze = [] {
    cpu_set_t all, two;
    WEFT_REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&two);
    for (int cpu = 0, n = 0; cpu < CPU_SETSIZE && n < 2; ++cpu) {
      if (!CPU_ISSET(cpu, &all)) continue;
      CPU_SET(cpu, &two);
      ++n;
    }
    WEFT_REQUIRE(sched_setaffinity(0, sizeof two, &two) == 0);
  };
  const auto serve = [&](const Wire& wire) {
    squeeze();
    run_target(wire);
  };
  const auto work = [&](const Wire& wire) {
    squeeze();
    run_initiator(wire, 20);
  };
  const std::int64_t began = now_ms();
  Partner first_target(serve), first(work), second_target(serve), second(work);
  introduce(first_target.wire(), first.wire());
  introduce(second_target.wire(), second.wire());
  first.wire().put(first_target.wire().get<Offer>());
  second.wire().put(second_target.wire().get<Offer>());
  finish(first_target, first);
  finish(second_target, second);
  EXPECT_LT(now_ms() - began, 10'000 * kSlowness);
}

/// Whether this process asked that others may trace it: one that must not ask dies of it.
void die_of_ptracer_wish() {
  std::array program{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PTRACER, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{program.size(), program.data()};
  WEFT_REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  WEFT_REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0);
}

TEST(NeighbourEnvironments, tracing_by_others_is_allowed_unless_the_user_says_no) {
  WEFT_NEEDS_KERNEL_FILTERS();
  const auto open = [](const Wire& wire) {
    die_of_ptracer_wish();
    wire.get<char>();
    const Side side;
  };
  Partner silent([&](const Wire& wire) {
    setenv("WEFT_PTRACER", "off", 1);
    open(wire);
  });
  Partner asking([&](const Wire& wire) {
    unsetenv("WEFT_PTRACER");
    open(wire);
  });
  silent.wire().put('g');
  asking.wire().put('g');
  EXPECT_EQ(silent.join(), 0);
  EXPECT_EQ(asking.join(), -1) << "it was to be killed by its wish";
}

}  // namespace
}  // namespace weft::test
