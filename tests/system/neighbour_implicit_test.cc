// A region of the whole address space, used from another process: by the kernel's copying calls,
// through the ring where those are refused, and by an owner that does all itself.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "support/kernel_filters.h"
#include "support/mailbox.h"
#include "support/neighbour_side.h"
#include "support/sandbox.h"

namespace weft::test {
namespace {

enum class Setting : std::uint8_t { kAsItComes, kCopiesRefused, kOwnerChecks };

void enter(Setting setting) {
  if (setting == Setting::kCopiesRefused) {
    refuse_calls({SYS_process_vm_readv, SYS_process_vm_writev}, EPERM);
  } else if (setting == Setting::kOwnerChecks) {
    setenv("WEFT_OWNER_CHECKS", "on", 1);
  }
}

std::uint64_t number_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

constexpr std::size_t kLoose = 256 * 1024;

/// Memory that nobody registers, with a hole behind it.
std::byte* map_loose() {
  void* at = mmap(nullptr, 2 * kLoose, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WEFT_REQUIRE(at != MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(at);
  WEFT_REQUIRE(mprotect(bytes + kLoose, kLoose, PROT_NONE) == 0);
  return bytes;
}

struct ImplicitOffer {
  RemoteAddress memory, window;
};

struct Attempt {
  std::uint64_t address;
  SendOp op;
};

/// Nothing is there, whatever an initiator asks for.
template <class Do>
void for_each_attempt(std::uint64_t hole, Do work) {
  constexpr std::uint64_t kLast = ~std::uint64_t{0};
  for (const std::uint64_t address :
       {std::uint64_t{0}, hole, hole - 8, std::uint64_t{1} << 47, std::uint64_t{1} << 63,
        std::uint64_t{0xFFFF'8000'0000'0000}, kLast - 4095, kLast - 15, kLast - 7}) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead, SendOp::kFetchAdd}) {
      if (op == SendOp::kFetchAdd && address == hole - 8) continue;  // 8 bytes are still there
      work(Attempt{address, op});
    }
  }
}

void meet(const Wire& wire, verbs::QueuePair& qp) {
  wire.put(qp.endpoint());
  WEFT_REQUIRE(qp.connect(wire.get<verbs::Endpoint>()));
  wire.sync();
}

void run_implicit_target(const Wire& wire, Setting setting) {
  enter(setting);
  Side side;
  const auto all = *side.pd.register_address_space(kAllAccess);
  const auto unshared = *side.pd.register_address_space(Access::kLocalWrite | Access::kWindowBind);
  auto window = *side.pd.allocate_window(verbs::WindowType::kType1);
  side.connect(wire);
  std::byte* loose = map_loose();
  WEFT_REQUIRE(side.qp.post_send(window.bind_request(unshared, number_of(loose) + 64, 4096,
                                                     Access::kRemoteWrite | Access::kRemoteRead)));
  WEFT_REQUIRE(side.wait().ok());
  wire.put(ImplicitOffer{all.remote(number_of(loose)), {number_of(loose) + 64, window.rkey()}});
  for_each_attempt(number_of(loose) + kLoose, [&](const Attempt&) {
    auto qp = *side.pd.create_queue_pair(side.cq, side.cq);
    meet(wire, qp);
    while (!said_something(wire)) side.cq.poll({});
    wire.get<char>();
  });
  while (!said_something(wire)) side.cq.poll({});
  wire.get<char>();
  for (std::size_t i = 0; i < kLoose; ++i) {
    const auto want = i >= 64 && i < 64 + 4096 ? std::byte{0x22} : std::byte{0x11};
    WEFT_REQUIRE(loose[i] == want);
  }
  wire.put('k');
}

void run_implicit_initiator(const Wire& wire, Setting setting) {
  enter(setting);
  Side side;
  const auto all = *side.pd.register_address_space(kAllAccess);
  side.connect(wire);
  const auto offer = wire.get<ImplicitOffer>();
  std::byte* own = map_loose();
  const auto part = [&](std::uint32_t n) { return all.sge(number_of(own), n); };
  // All that there is, and back.
  std::memset(own, 0x11, kLoose);
  WEFT_REQUIRE(side.succeeds(side.qp.post_write(part(kLoose), offer.memory)));
  std::memset(own, 0, kLoose);
  WEFT_REQUIRE(side.succeeds(side.qp.post_read(part(kLoose), offer.memory)));
  for (std::size_t i = 0; i < kLoose; ++i) WEFT_REQUIRE(own[i] == std::byte{0x11});
  // By the window, again and again.
  std::memset(own, 0x22, kLoose);
  for (int i = 0; i < 5; ++i) {
    WEFT_REQUIRE(side.succeeds(side.qp.post_write(part(64), offer.window)));
  }
  WEFT_REQUIRE(side.succeeds(side.qp.post_write(part(4096), offer.window)));
  for_each_attempt(offer.memory.address + kLoose, [&](const Attempt& attempt) {
    auto qp = *side.pd.create_queue_pair(side.cq, side.cq);
    meet(wire, qp);
    const Sge sge = attempt.op == SendOp::kFetchAdd ? part(8) : part(16);
    SendRequest request;
    request.op = attempt.op;
    request.remote = {attempt.address, offer.memory.key};
    request.sges = {&sge, 1};
    // The bytes in front of the hole get what they have.
    std::memset(own, 0x11, kLoose);
    WEFT_REQUIRE(qp.post_send(request));
    wire.put(side.wait().status);
  });
  WEFT_REQUIRE(side.succeeds(side.qp.post_read(part(64), offer.window)));
  WEFT_REQUIRE(own[0] == std::byte{0x22});
  leave_last(wire);
}

class NeighbourImplicit : public testing::TestWithParam<Setting> {};

TEST_P(NeighbourImplicit, memory_is_used_and_bound_without_registration) {
  // B4.13, B4.9: and what is not there is an error for the initiator; the owner goes on.
  if (GetParam() == Setting::kCopiesRefused) WEFT_NEEDS_KERNEL_FILTERS();
  Partner target([](const Wire& wire) { run_implicit_target(wire, GetParam()); });
  Partner initiator([](const Wire& wire) { run_implicit_initiator(wire, GetParam()); });
  introduce(target.wire(), initiator.wire());
  const auto offer = target.wire().get<ImplicitOffer>();
  initiator.wire().put(offer);
  for_each_attempt(offer.memory.address + kLoose, [&](const Attempt& attempt) {
    if (HasFailure()) return;
    SCOPED_TRACE(std::to_string(attempt.address) + " " + std::string(to_string(attempt.op)));
    introduce(target.wire(), initiator.wire());
    CompletionStatus status{};
    ASSERT_TRUE(initiator.wire().get(&status));
    EXPECT_EQ(to_string(status), to_string(CompletionStatus::kRemoteAccessError));
    target.wire().put('n');
  });
  if (HasFailure()) return;
  char said = 0;
  ASSERT_TRUE(initiator.wire().get(&said)) << "the initiator failed";
  target.wire().put('d');
  ASSERT_TRUE(target.wire().get(&said)) << "the target failed";
  EXPECT_EQ(target.join(), 0);
  initiator.wire().put('d');
  EXPECT_EQ(initiator.join(), 0);
}
std::string name_of_setting(const testing::TestParamInfo<Setting>& info) {
  constexpr std::array kNames{"as_it_comes", "copies_refused", "owner_checks"};
  return kNames[static_cast<std::size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Neighbours, NeighbourImplicit,
                         testing::Values(Setting::kAsItComes, Setting::kCopiesRefused,
                                         Setting::kOwnerChecks),
                         name_of_setting);

}  // namespace
}  // namespace weft::test
