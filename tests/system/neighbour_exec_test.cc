// exec in the middle of a copy: a neighbour that has checked a key and is about to copy never
// writes into the program that takes the process over. The moment between the two is held open by a
// supervisor of the initiator's system calls.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "support/kernel_filters.h"
#include "support/neighbour_side.h"

namespace weft::test {
namespace {

constexpr std::size_t kBytes = 65'536;
constexpr auto kUntouched = std::byte{0x5A};
constexpr const char* kRole = "WEFT_TEST_NEW_PROGRAM";

/// The same address in the old and in the new program.
std::byte* chosen_place() {
  void* const wanted = reinterpret_cast<void*>(0x3000'0000'0000);
  void* const got = mmap(wanted, kBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  require(got == wanted, "memory at the chosen address");
  return static_cast<std::byte*>(got);
}

/// This binary, started again by exec, before anything of the test framework runs.
const bool was_new_program = [] {
  const char* const fd = std::getenv(kRole);
  if (fd == nullptr) return false;
  std::byte* const memory = chosen_place();
  std::fill_n(memory, kBytes, kUntouched);
  const Wire wire(std::atoi(fd));
  wire.put('n');
  wire.get<char>();
  const bool same =
      std::all_of(memory, memory + kBytes, [](std::byte byte) { return byte == kUntouched; });
  _exit(same ? 0 : 5);
}();

void be_target(const Wire& wire) {
  std::byte* const memory = chosen_place();
  Side side;
  auto region = side.pd.register_memory(memory, kBytes, kAllAccess);
  WEFT_REQUIRE(region);
  side.connect(wire);
  wire.put(region->remote());
  wire.get<char>();
  setenv(kRole, std::to_string(wire.fd()).c_str(), 1);
  WEFT_REQUIRE(fcntl(wire.fd(), F_SETFD, 0) == 0);
  // First one that fails: nothing is lost by trying.
  char name[] = "test";
  char* const arguments[] = {name, nullptr};
  WEFT_REQUIRE(execv("/nowhere", arguments) == -1 && errno == ENOENT);
  execv("/proc/self/exe", arguments);
  WEFT_REQUIRE(!"exec");
}

/// From now on a supervisor is asked about the call; its fd, or -1 where the kernel has none.
int supervise(unsigned call) {
  std::array program{sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                     sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                     sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                     sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{program.size(), program.data()};
  WEFT_REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  return static_cast<int>(
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

TEST(NeighbourExec, is_not_followed_by_a_write_into_the_new_program) {
  WEFT_NEEDS_KERNEL_FILTERS();
  // B4.10
  Partner target(be_target);
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side, kBytes);
    side.connect(wire);
    const auto remote = wire.get<RemoteAddress>();
    WEFT_REQUIRE(side.succeeds(side.qp.post_write(worker.out_region.sge(), remote)));
    std::thread writer;
    int supervisor = -1;
    std::atomic<bool> supervised{false};
    writer = std::thread([&] {
      supervisor = supervise(SYS_process_vm_writev);
      supervised = true;
      if (supervisor < 0) return;
      // This one is held between check and copy; how it ends does not matter.
      static_cast<void>(side.qp.post_write(worker.out_region.sge(), remote));
    });
    while (!supervised) std::this_thread::yield();
    if (supervisor < 0) {
      std::printf("note: this machine has no supervised system calls; only the end is tested\n");
    } else {
      seccomp_notif held{};
      WEFT_REQUIRE(ioctl(supervisor, SECCOMP_IOCTL_NOTIF_RECV, &held) == 0);
      wire.sync();  // the target may exec now
      std::this_thread::sleep_for(300ms);
      seccomp_notif_resp go_on{};
      go_on.id = held.id;
      go_on.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
      WEFT_REQUIRE(ioctl(supervisor, SECCOMP_IOCTL_NOTIF_SEND, &go_on) == 0);
      close(supervisor);
    }
    writer.join();
    if (supervisor < 0) wire.sync();
    // The old program has gone, and is known to have gone.
    for (bool failed = false; !failed;) {
      failed = !side.qp.post_read(worker.in_region.sge(), remote) || !side.wait().ok();
    }
    wire.put('f');
  });
  introduce(target.wire(), initiator.wire());
  initiator.wire().put(target.wire().get<RemoteAddress>());
  initiator.wire().get<char>();
  target.wire().put('e');
  initiator.wire().put('x');
  char said = 0;
  EXPECT_TRUE(target.wire().get(&said)) << "the new program does not run";
  EXPECT_EQ(said, 'n');
  EXPECT_TRUE(initiator.wire().get(&said));
  target.wire().put('c');
  EXPECT_EQ(target.join(), 0) << "5: a write landed in the new program";
  EXPECT_EQ(initiator.join(), 0);
}

}  // namespace
}  // namespace weft::test
