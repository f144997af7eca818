// The two roles of a test between processes, each in a partner of its own: a target that serves
// heap and arena memory and receives messages, and an initiator that does a bit of everything and
// checks it. The test process itself opens nothing of weft; it introduces the two and judges.
#pragma once

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "support/partner.h"
#include "weft/arena.h"
#include "weft/verbs.h"

namespace weft::test {

using namespace std::chrono_literals;

#if defined(__SANITIZE_ADDRESS__)
inline constexpr int kSlowness = 4;
#else
inline constexpr int kSlowness = 1;
#endif
/// In this time a partner's end must be known: 70 ms where nothing else runs, more on a busy
/// machine. Without a look at the partner it would never be.
inline constexpr std::int64_t kNotice_ms = 5000 * kSlowness;

inline constexpr Access kAllAccess = Access::kLocalWrite | Access::kRemoteWrite |
                                     Access::kRemoteRead | Access::kRemoteAtomic |
                                     Access::kWindowBind;

inline std::int64_t now_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1'000'000;
}

inline void fill(std::span<std::byte> bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 2654435761u + seed * 97u + 1u) >> 7);
  }
}
inline bool is_filled(std::span<const std::byte> bytes, unsigned seed) {
  std::vector<std::byte> expected(bytes.size());
  fill(expected, seed);
  return std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
}

/// Everything for one connection, in one process.
struct Side {
  explicit Side(const verbs::QueuePairOptions& options = {},
                const verbs::DeviceOptions& device_options = {})
      : device(open(device_options)),
        pd(*device.allocate_pd()),
        cq(*device.create_cq(4096)),
        qp(*pd.create_queue_pair(cq, cq, options)) {}

  static verbs::Device open(const verbs::DeviceOptions& options = {}) {
    auto device = verbs::Device::open(options);
    require(device.has_value(), device ? "" : device.error().message.c_str());
    return std::move(*device);
  }
  /// The test process is asked to introduce(); see there.
  void connect(const Wire& wire) {
    wire.put(qp.endpoint());
    const auto ok = qp.connect(wire.get<verbs::Endpoint>());
    require(ok.has_value(), ok ? "" : ok.error().message.c_str());
    wire.sync();
  }
  Completion wait() {
    const auto completion = cq.wait(10s);
    require(completion.has_value(), "a completion in time");
    return *completion;
  }
  bool succeeds(const Result<void>& posted) { return posted && wait().ok(); }

  verbs::Device device;
  verbs::ProtectionDomain pd;
  verbs::CompletionQueue cq;
  verbs::QueuePair qp;
};

/// In the test process: makes two sides that call connect() known to each other.
inline void introduce(const Wire& a, const Wire& b) {
  const auto a_end = a.get<verbs::Endpoint>();
  const auto b_end = b.get<verbs::Endpoint>();
  a.put(b_end);
  b.put(a_end);
  a.get<char>();
  b.get<char>();
  a.put('x');
  b.put('x');
}

/// What a target tells an initiator.
struct Offer {
  RemoteAddress heap, arena;
};

/// Memory that a target serves: as much of the heap as of an arena, and buffers for messages.
struct Served {
  static constexpr std::size_t kBytes = 1'048'576 + 64;
  static constexpr std::uint32_t kMessageBytes = 64;
  static constexpr std::uint32_t kMessages = 128;

  explicit Served(Side& owner)
      : side(owner),
        heap(kBytes),
        arena(*Arena::create(kBytes + 4096)),
        arena_bytes(static_cast<std::byte*>(arena.allocate(kBytes)), kBytes),
        inbox(std::size_t{kMessages} * kMessageBytes),
        heap_region(*side.pd.register_memory(heap, kAllAccess)),
        arena_region(*side.pd.register_memory(arena_bytes, kAllAccess)),
        inbox_region(*side.pd.register_memory(inbox, kAllAccess)) {}

  Offer offer() const { return {heap_region.remote(), arena_region.remote()}; }
  void post_receive(std::uint64_t i) {
    const auto ok = side.qp.post_receive(inbox_region.sge(i * kMessageBytes, kMessageBytes), i);
    require(ok.has_value(), ok ? "" : ok.error().message.c_str());
  }
  void post_all() {
    for (std::uint64_t i = 0; i < kMessages; ++i) post_receive(i);
  }
  /// Receives messages until the test process says something, which is returned; each buffer is
  /// used again. `*failed` gets the time of the first completion that was an error.
  char receive(const Wire& wire, std::int64_t* failed = nullptr) {
    for (unsigned turn = 0;; ++turn) {
      while (const auto completion = side.cq.poll()) {
        if (completion->ok()) {
          ++received;
          post_receive(completion->wr_id);
        } else {
          require(failed != nullptr, "no error");
          if (*failed == 0) *failed = now_ms();
        }
      }
      if (turn % 64 != 0) continue;
      pollfd said{wire.fd(), POLLIN, 0};
      if (::poll(&said, 1, 0) == 1) return wire.get<char>();
    }
  }

  Side& side;
  std::vector<std::byte> heap;
  Arena arena;
  std::span<std::byte> arena_bytes;
  std::vector<std::byte> inbox;
  verbs::MemoryRegion heap_region, arena_region, inbox_region;
  std::uint64_t received = 0;
};

/// The initiator's own memory, and its work.
struct Worker {
  explicit Worker(Side& owner, std::size_t bytes = 4096)
      : side(owner),
        out(bytes),
        in(bytes),
        out_region(*side.pd.register_memory(out, kAllAccess)),
        in_region(*side.pd.register_memory(in, kAllAccess)) {}

  /// One of everything; false as soon as something fails or what comes back is wrong.
  bool round(const Offer& offer, unsigned seed) {
    fill(out, seed);
    if (!side.succeeds(side.qp.post_send(out_region.sge(0, Served::kMessageBytes)))) return false;
    for (const RemoteAddress& remote : {offer.heap, offer.arena}) {
      std::fill(in.begin(), in.end(), std::byte{0});
      if (!side.succeeds(side.qp.post_write(out_region.sge(), remote))) return false;
      if (!side.succeeds(side.qp.post_read(in_region.sge(), remote)) || in != out) return false;
      if (!adds(remote)) return false;
    }
    return true;
  }
  bool adds(const RemoteAddress& remote) {
    std::uint64_t before = 0, old = 0;
    std::memcpy(&before, out.data(), 8);
    const Sge result = in_region.sge(0, 8);
    SendRequest add;
    add.op = SendOp::kFetchAdd;
    add.operand = 3;
    add.remote = remote;
    add.sges = {&result, 1};
    if (!side.succeeds(side.qp.post_send(add))) return false;
    std::memcpy(&old, in.data(), 8);
    if (old != before) return false;
    add.op = SendOp::kCompareSwap;
    add.compare = before + 3;
    add.operand = before;
    if (!side.succeeds(side.qp.post_send(add))) return false;
    std::memcpy(&old, in.data(), 8);
    return old == before + 3;
  }
  /// Rounds until something fails; the time when it did.
  std::int64_t rounds_until_failure(const Offer& offer) {
    for (unsigned seed = 0; round(offer, seed); ++seed) {
    }
    return now_ms();
  }

  Side& side;
  std::vector<std::byte> out, in;
  verbs::MemoryRegion out_region, in_region;
};

/// The end of an initiator whose target is to see no error: the target goes first.
inline void leave_last(const Wire& wire) {
  wire.put('o');
  wire.get<char>();
}
/// In the test process: lets both end in that order.
inline void finish(Partner& target, Partner& initiator) {
  char said = 0;
  EXPECT_TRUE(initiator.wire().get(&said)) << "the initiator failed";
  target.wire().put('d');
  EXPECT_EQ(target.join(), 0);
  initiator.wire().put('d');
  EXPECT_EQ(initiator.join(), 0);
}

/// A target for introduce(): offers its memory, receives until told 'd'.
inline void run_target(const Wire& wire) {
  Side side;
  Served served(side);
  side.connect(wire);
  served.post_all();
  wire.put(served.offer());
  while (served.receive(wire) != 'd') {
  }
}

/// A target that expects its initiator to die: tells when it noticed. Its receives alone would not
/// tell it: it asks.
inline void run_bereaved_target(const Wire& wire) {
  Side side;
  Served served(side);
  side.connect(wire);
  served.post_all();
  wire.put(served.offer());
  std::int64_t failed = 0;
  while (served.receive(wire, &failed) != 'd') {
  }
  if (failed == 0) static_cast<void>(side.qp.post_send(served.inbox_region.sge(0, 8)));
  for (const std::int64_t give_up = now_ms() + 5000; failed == 0 && now_ms() < give_up;) {
    while (const auto completion = side.cq.poll()) {
      if (!completion->ok() && failed == 0) failed = now_ms();
    }
  }
  wire.put(failed);
}

/// The helper thread of a process; 0 if it has none.
inline pid_t helper_of(pid_t process) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "weft-helper") return std::stoi(task.path().filename());
  }
  return 0;
}

/// What a thread has used so far.
struct Usage {
  std::int64_t cpu_us = 0;
  std::int64_t voluntary_switches = 0;
};
inline Usage usage_of(pid_t process, pid_t thread) {
  const std::string task =
      "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/";
  Usage usage;
  std::int64_t cpu_ns = 0;
  std::ifstream(task + "schedstat") >> cpu_ns;
  usage.cpu_us = cpu_ns / 1000;
  std::ifstream status(task + "status");
  for (std::string word; status >> word;) {
    if (word == "voluntary_ctxt_switches:") status >> usage.voluntary_switches;
  }
  return usage;
}

}  // namespace weft::test
