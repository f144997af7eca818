// A process number that is used again is never taken for the process that had it before: in a pid
// namespace of its own, where the test decides about numbers.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "support/neighbour_side.h"
#include "support/sandbox.h"

namespace weft::test {
namespace {

constexpr pid_t kNumber = 300;
constexpr std::size_t kTargetBytes = 65'536;
constexpr auto kUntouched = std::byte{0x5A};

/// The next process of this namespace gets the number. False: not allowed here.
bool choose_next(pid_t number) {
  std::ofstream file("/proc/sys/kernel/ns_last_pid");
  file << number - 1;
  file.flush();
  return file.good();
}

/// A process with the chosen number, if the machine lets us choose. It runs `work` and ends.
pid_t start(const std::function<void()>& work) {
  if (!choose_next(kNumber)) note_refusal("the choice of a process number");
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(30);
  work();
  _exit(0);
}

/// Memory at one address in both programs, as it would be for two runs of the same binary.
std::byte* chosen_place() {
  void* const wanted = reinterpret_cast<void*>(0x3000'0000'0000);
  void* const got = mmap(wanted, kTargetBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  require(got == wanted, "memory at the chosen address");
  return static_cast<std::byte*>(got);
}

void be_target(const Wire& to_initiator) {
  std::byte* const memory = chosen_place();
  Side side;
  auto region = side.pd.register_memory(memory, kTargetBytes, kAllAccess);
  WEFT_REQUIRE(region);
  to_initiator.put(side.qp.endpoint());
  WEFT_REQUIRE(side.qp.connect(to_initiator.get<verbs::Endpoint>()));
  to_initiator.put(region->remote());
  for (;;) pause();
}

void be_initiator(const Wire& to_target) {
  Side side;
  Worker worker(side, kTargetBytes);
  to_target.put(side.qp.endpoint());
  WEFT_REQUIRE(side.qp.connect(to_target.get<verbs::Endpoint>()));
  const auto remote = to_target.get<RemoteAddress>();
  WEFT_REQUIRE(side.succeeds(side.qp.post_write(worker.out_region.sge(), remote)));
  kill(getpid(), SIGSTOP);
  // Now the number is another's, and this process had no chance to notice.
  const auto posted = side.qp.post_write(worker.out_region.sge(), remote);
  WEFT_REQUIRE(!posted || !side.wait().ok());
  WEFT_REQUIRE(!side.qp.post_read(worker.in_region.sge(), remote) || !side.wait().ok());
  WEFT_REQUIRE(worker.in[0] != kUntouched);
}

void be_stranger(const Wire& wire) {
  std::byte* const memory = chosen_place();
  std::fill_n(memory, kTargetBytes, kUntouched);
  wire.sync();
  WEFT_REQUIRE(
      std::all_of(memory, memory + kTargetBytes, [](std::byte b) { return b == kUntouched; }));
}

struct Ends {
  Ends() {
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) == 0, "ends");
  }
  std::array<int, 2> fds{};
};

/// The first process of the namespace tells the story; it opens nothing of weft.
void tell_story() {
  const Ends link, watch;
  const pid_t target = start([&] { be_target(Wire(link.fds[0])); });
  const pid_t initiator = fork();
  if (initiator == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    be_initiator(Wire(link.fds[1]));
    _exit(0);
  }
  int status = 0;
  WEFT_REQUIRE(waitpid(initiator, &status, WUNTRACED) == initiator && WIFSTOPPED(status));
  kill(target, SIGKILL);
  WEFT_REQUIRE(waitpid(target, nullptr, 0) == target);
  const pid_t stranger = start([&] { be_stranger(Wire(watch.fds[0])); });
  WEFT_REQUIRE(stranger == target || target != kNumber);
  const Wire to_stranger(watch.fds[1]);
  to_stranger.get<char>();
  kill(initiator, SIGCONT);
  WEFT_REQUIRE(waitpid(initiator, &status, 0) == initiator && status == 0);
  to_stranger.put('x');
  WEFT_REQUIRE(waitpid(stranger, &status, 0) == stranger && status == 0);
}

TEST(NeighbourNumbers, used_again_are_not_taken_for_the_old_process) {
  // Both in one namespace, so that the initiator knows its target by number.
  Partner family([](const Wire&) { in_pid_namespace(false, tell_story); });
  EXPECT_EQ(family.join(), 0);
}

}  // namespace
}  // namespace weft::test
