// Random programs of verbs calls, for the oracle: a list of steps over a few connections, made from
// a seed, printed as text, and independent of how the two sides reach each other. A program is so
// made that its outcome does not depend on timing:
//
//  - each connection (a lane) has memory, keys and windows of its own;
//  - one side of a lane acts at a time; the other side has posted its receive buffers before;
//  - what follows a read or an atomic is fenced, unless it is a read too;
//  - what changes keys comes first in a burst: whether it is still executed behind a request that
//    fails is promised nowhere;
//  - so does a request whose own memory is bad: behind one that fails it may be looked at or not;
//  - a request has one fault at most: which of several is told is nowhere promised;
//  - at the end of a burst (kSync) everything that can complete does so.
//
// Values only. One thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/random.h"
#include "weft/work.h"

namespace weft::test {

/// Of each side of a lane. One region's memory has been unmapped; one has the receive buffers, each
/// in a slot of its own, since what a message that failed leaves in its buffer is promised nowhere.
inline constexpr unsigned kRegions = 4, kVanishedRegion = 2, kReceiveRegion = 3, kWindows = 2;
inline constexpr std::uint32_t kRegionBytes = 20'000;
inline constexpr std::uint32_t kSlotBytes = 9100, kSlots = 128;
constexpr std::uint32_t region_bytes(unsigned index) {
  return index == kReceiveRegion ? kSlots * kSlotBytes : kRegionBytes;
}
/// Two reliable, one unreliable, one of datagrams, one of reliable datagrams.
inline constexpr std::uint32_t kLanes = 5;

enum class Act : std::uint8_t {
  kSend,       ///< post a request
  kReceive,    ///< post a receive buffer, on the side that does not act
  kRegister,   ///< deregister a region and register it again, under other keys
  kKill,       ///< to the error state
  kReconnect,  ///< both sides begin anew
  kSync,       ///< wait until the lane has nothing under way
};

/// A key of the other side (or, for a bind and an invalidation, of one's own).
struct KeyChoice {
  bool window = false;
  unsigned index = 0;
  bool stale = false;  ///< the one before the last
};

struct ProgramStep {
  Act act = Act::kSync;
  unsigned lane = 0;
  unsigned side = 0;  ///< who acts; for kReceive, whose buffer it is
  // kSend
  SendOp op = SendOp::kSend;
  SendFlags flags = SendFlags::kSignaled;
  unsigned region = 0;       ///< of the gather or scatter list
  std::uint32_t offset = 0;  ///< in it
  std::uint32_t length = 0;  ///< of the request, the buffer or the binding
  unsigned pieces = 1;       ///< of the list
  bool bad_local_key = false;
  KeyChoice key = {};  ///< remote, invalidated, or the window to bind
  std::int32_t remote_offset = 0;
  std::uint32_t value = 0;  ///< immediate, operand
  bool bad_qkey = false;    ///< datagrams
};

inline std::string text_of(const KeyChoice& key) {
  return fmt::format("{}{}{}", key.window ? "window" : "region", key.index,
                     key.stale ? " (stale key)" : "");
}

inline std::string text_of(const ProgramStep& step) {
  const std::string who = fmt::format("lane {} side {}", step.lane, "ab"[step.side]);
  switch (step.act) {
    case Act::kSend:
      return fmt::format("{}: {} of {} at region{}+{}{}, {} pieces, flags {}, {} at {}, value {}{}",
                         who, to_string(step.op), step.length, step.region, step.offset,
                         step.bad_local_key ? " (bad key)" : "", step.pieces,
                         static_cast<int>(step.flags), text_of(step.key), step.remote_offset,
                         step.value, step.bad_qkey ? ", bad Q_Key" : "");
    case Act::kReceive:
      return fmt::format("{}: receive buffer of {} at region{}+{}{}", who, step.length, step.region,
                         step.offset, step.bad_local_key ? " (bad key)" : "");
    case Act::kRegister:
      return fmt::format("{}: register region{} again", who, step.region);
    case Act::kKill:
      return who + ": to the error state";
    case Act::kReconnect:
      return fmt::format("lane {}: reconnect", step.lane);
    case Act::kSync:
      return fmt::format("lane {}: sync", step.lane);
  }
  return {};
}

using Program = std::vector<ProgramStep>;

inline std::string text_of(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.size(); ++i) {
    text += fmt::format("  {:3} {}\n", i, text_of(program[i]));
  }
  return text;
}

class ProgramGenerator {
 public:
  /// `lanes`: only the first so many.
  explicit ProgramGenerator(std::uint64_t seed, std::uint32_t lanes = kLanes)
      : random_(seed), lanes_(lanes) {}

  Program make(unsigned bursts) {
    Program program;
    for (unsigned i = 0; i < bursts; ++i) add_burst(program);
    return program;
  }

 private:
  static constexpr unsigned kDatagramLane = 3, kUnreliableLane = 2, kReliableDatagramLane = 4;

  bool chance(unsigned percent) { return random_.below(100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[random_.below(from.size())];
  }
  std::uint32_t length() {
    return pick<std::uint32_t>(
        {0, 1, 7, 8, 8, 8, 40, 63, 64, 65, 200, 1000, 4095, 4096, 4097, 9000});
  }

  void add_burst(Program& program) {
    const auto lane = static_cast<unsigned>(random_.below(lanes_));
    const auto side = static_cast<unsigned>(random_.below(2));
    if (chance(8)) {
      program.push_back({.act = Act::kRegister,
                         .lane = lane,
                         .side = side,
                         .region = static_cast<unsigned>(random_.below(2))});
    }
    const unsigned most = lane == kDatagramLane ? 4 : chance(20) ? 24 : 6;
    const auto sends = static_cast<unsigned>(1 + random_.below(most));
    std::uint32_t& slots = slots_used_[lane][1 - side];
    if (slots + sends > kSlots) reconnect(program, lane);
    // Enough buffers for all of them, so that a reliable sender waits for none.
    for (unsigned i = 0; i < sends; ++i) program.push_back(receive(lane, 1 - side, slots++));
    bool reads = false;
    for (unsigned i = 0; i < sends; ++i) {
      ProgramStep step = send(lane, side, i == 0);
      const bool is_read = step.op == SendOp::kRead;
      if (reads && !is_read) step.flags = step.flags | SendFlags::kFence;
      reads = is_read || (reads && is_read) || step.op == SendOp::kCompareSwap ||
              step.op == SendOp::kFetchAdd || step.op == SendOp::kAtomicWrite;
      // Where the answer cannot be put is found out when it comes, and what follows was sent by
      // then.
      // So is, if nobody dies of it, that what is read has vanished.
      const bool alone = (has_bad_memory(step) && brings_an_answer(step.op)) ||
                         (lane == kReliableDatagramLane && step.op == SendOp::kRead &&
                          !step.key.window && step.key.index == kVanishedRegion);
      // The last one tells that all of them are done.
      if (alone || i + 1 == sends) step.flags = step.flags | SendFlags::kSignaled;
      program.push_back(step);
      if (alone) break;
    }
    program.push_back({.act = Act::kSync, .lane = lane, .side = side});
    if (chance(4)) program.push_back({.act = Act::kKill, .lane = lane, .side = side});
    // A refusal has killed it, perhaps.
    if (chance(45)) reconnect(program, lane);
  }

  /// Takes all buffers back.
  void reconnect(Program& program, unsigned lane) {
    program.push_back({.act = Act::kReconnect, .lane = lane});
    slots_used_[lane] = {};
  }

  ProgramStep receive(unsigned lane, unsigned side, std::uint32_t slot) {
    ProgramStep step{.act = Act::kReceive, .lane = lane, .side = side};
    const bool vanished = chance(2);
    step.region = vanished ? kVanishedRegion : kReceiveRegion;
    step.offset = vanished ? 0 : slot * kSlotBytes;
    step.bad_local_key = !vanished && chance(1);
    const bool good = !vanished && !step.bad_local_key;
    step.length = good && chance(8) ? static_cast<std::uint32_t>(random_.below(100)) : kSlotBytes;
    step.pieces = chance(20) ? 3 : 1;
    return step;
  }

  static bool brings_an_answer(SendOp op) {
    return op == SendOp::kRead || op == SendOp::kCompareSwap || op == SendOp::kFetchAdd;
  }
  static bool has_bad_memory(const ProgramStep& step) {
    return step.bad_local_key || step.region == kVanishedRegion;
  }

  static bool is_local(SendOp op) { return op == SendOp::kBind || op == SendOp::kLocalInvalidate; }

  SendOp operation(unsigned lane) {
    if (lane == kDatagramLane) return pick({SendOp::kSend, SendOp::kSendImmediate});
    if (lane == kUnreliableLane && !chance(4)) {
      return pick({SendOp::kSend, SendOp::kSendImmediate, SendOp::kWrite, SendOp::kWrite,
                   SendOp::kWriteImmediate, SendOp::kBind});
    }
    return pick({SendOp::kSend, SendOp::kSend, SendOp::kSend, SendOp::kSendImmediate,
                 SendOp::kSendInvalidate, SendOp::kWrite, SendOp::kWrite, SendOp::kWrite,
                 SendOp::kWriteImmediate, SendOp::kRead, SendOp::kRead, SendOp::kCompareSwap,
                 SendOp::kFetchAdd, SendOp::kAtomicWrite, SendOp::kBind, SendOp::kBind,
                 SendOp::kLocalInvalidate});
  }

  ProgramStep send(unsigned lane, unsigned side, bool first) {
    ProgramStep step{.act = Act::kSend, .lane = lane, .side = side, .op = operation(lane)};
    while (!first && is_local(step.op)) step.op = operation(lane);
    if (chance(30)) step.flags = SendFlags::kNone;
    if (chance(20)) step.flags = step.flags | SendFlags::kSolicited;
    step.value = static_cast<std::uint32_t>(random_.next());
    step.bad_qkey = chance(8);
    step.region = static_cast<unsigned>(random_.below(2));
    step.pieces = chance(15) ? 3 : 1;
    step.length = length();
    if (lane == kDatagramLane && step.length > 4096) step.length %= 4097;
    if (step.length <= 64 && chance(15)) step.flags = step.flags | SendFlags::kInline;
    choose_remote(step);
    if (first && chance(12)) fault_own_memory(step);
    return step;
  }

  /// All of the request's own memory is bad, and nothing else of it.
  void fault_own_memory(ProgramStep& step) {
    if (chance(50)) {
      step.bad_local_key = true;
    } else {
      step.region = kVanishedRegion;
    }
    step.flags = static_cast<SendFlags>(static_cast<unsigned>(step.flags) &
                                        ~static_cast<unsigned>(SendFlags::kInline));
    step.key = {};
    step.remote_offset = 0;
    step.bad_qkey = false;
  }

  /// Where the other side's memory is touched, or which key is meant.
  void choose_remote(ProgramStep& step) {
    const bool atomic = step.op == SendOp::kCompareSwap || step.op == SendOp::kFetchAdd ||
                        step.op == SendOp::kAtomicWrite;
    if (atomic) step.length = 8;
    step.offset = static_cast<std::uint32_t>(random_.below(kRegionBytes - step.length + 1));
    step.remote_offset = static_cast<std::int32_t>(random_.below(kRegionBytes - step.length + 1));
    if (atomic && !chance(5)) step.remote_offset &= ~7;
    if (chance(3)) step.remote_offset = chance(50) ? -1 : static_cast<int>(kRegionBytes - 3);
    step.key.window = chance(25);
    step.key.index = static_cast<unsigned>(step.key.window ? random_.below(kWindows)
                                           : chance(3)     ? kVanishedRegion
                                                           : (chance(6) ? 1 : 0));
    step.key.stale = chance(3);
    const bool about_window = step.op == SendOp::kBind || step.op == SendOp::kSendInvalidate ||
                              step.op == SendOp::kLocalInvalidate;
    if (about_window && !chance(5)) {
      step.key.window = true;
      step.key.index = static_cast<unsigned>(random_.below(kWindows));
    }
  }

  base::SeededRandom random_;
  const std::uint32_t lanes_;
  std::array<std::array<std::uint32_t, 2>, kLanes> slots_used_{};
};

}  // namespace weft::test
