// Cases of what becomes of the memory of rings, and in which order: see channel_cases.cc. Run on a
// weft device, on one that pins (pinning_device.cc), and some of them with a tracer of its calls
// (verbs_tracer.cc).
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <mutex>

#include "channel/layout.h"
#include "system/channel_case_kit.h"
#include "system/verbs_tracer.h"

namespace weft::test {
namespace {

/// Bytes that are nowhere alike.
std::string pattern(std::size_t bytes, std::uint32_t seed) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    seed = seed * 1664525 + 1013904223;
    text[i] = static_cast<char>(seed >> 24);
  }
  return text;
}

/// Rounds until both have shrunk, and the slabs have been trimmed some times since.
void come_to_rest(Two& two, Channel& a, Channel& b) {
  const auto deadline = channel::in(30s);
  auto rested = channel::in(500ms);
  while (std::chrono::steady_clock::now() < rested) {
    two.here.progress();
    two.there.progress();
    HOLDS(!must(a.try_receive()) && !must(b.try_receive()));
    if (a.statistics().send_phase + b.statistics().send_phase > 0) rested = channel::in(500ms);
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
}

void grow_and_shrink(const Settings& settings) {
  ContextOptions options;
  options.settings = settings;
  options.settings.shrink_after_ns = 5'000'000;
  Two two(options, options);
  auto [a, b] = two.open();
  for (std::uint32_t round = 0; round < 3; ++round) {
    // Through small and large rings, in pieces or read in place.
    for (const std::size_t bytes : {12'000u, 300u, 16'000u, 300'000u, 7'000u, 40'000u}) {
      const auto seed = round * 1'000'000 + static_cast<std::uint32_t>(bytes);
      const std::string there = pattern(bytes, seed), back = pattern(bytes, seed + 1);
      HOLDS(pass(two, a, b, there) == there);
      HOLDS(pass(two, b, a, back) == back);
    }
    HOLDS(a.statistics().grows > round && b.statistics().grows > round);
    come_to_rest(two, a, b);
    HOLDS(a.statistics().shrinks > round && b.statistics().shrinks > round);
  }
}

void memory_is_given_back_and_used_again() { grow_and_shrink({}); }

void strict_memory_is_given_back_and_used_again() {
  Settings settings;
  settings.strict = true;
  grow_and_shrink(settings);
}

/// Rounds until nothing is kept for who may grow next: a device that pins has all its pages.
void let_spare_rings_go(Two& two, Channel& a, Channel& b) {
  const auto deadline = channel::in(30s);
  while (two.here.figures().used_bytes != a.statistics().registered_bytes ||
         two.there.figures().used_bytes != b.statistics().registered_bytes) {
    two.here.progress();
    two.there.progress();
    HOLDS(std::chrono::steady_clock::now() < deadline);
  }
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

/// Two rings of a mebibyte each, every byte of which was used, and then nobody needs them.
void memory_leaves_the_resident_size(bool strict) {
  constexpr std::uint32_t kSlots = 64;
  ContextOptions options;
  options.settings.strict = strict;
  options.settings.phases = {{512, 3}, {16384, kSlots}};
  options.settings.shrink_after_ns = 200'000'000;
  Two two(options, options);
  auto [a, b] = two.open();
  for (int cycle = 0; cycle < 2; ++cycle) {
    const std::string text = pattern(16'384, 7);
    for (std::uint32_t i = 0; i < 2 * kSlots; ++i) HOLDS(pass(two, a, b, text) == text);
    const std::size_t grown = resident_bytes();
    HOLDS(two.here.figures().used_bytes + two.there.figures().used_bytes > 2u << 20);
    come_to_rest(two, a, b);
    let_spare_rings_go(two, a, b);
    const std::size_t rest = resident_bytes();
    std::printf("resident: %zu KiB grown, %zu KiB at rest\n", grown / 1024, rest / 1024);
    HOLDS(grown > rest && grown - rest > 1'500'000);
  }
}

void freed_memory_leaves_the_resident_size() { memory_leaves_the_resident_size(false); }
void strict_freed_memory_leaves_the_resident_size() { memory_leaves_the_resident_size(true); }

// ---- the order of calls -----------------------------------------------------------------------

constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

std::mutex calls_lock;
std::vector<TracedCall> calls;
/// Rings that must not be touched any more once they have been given back.
std::vector<TracedCall> watched;
std::vector<std::pair<void*, std::size_t>> closed;

bool covers(const TracedCall& whole, const TracedCall& part) {
  return whole.address <= part.address &&
         whole.address + whole.length >= part.address + part.length;
}

void note_call(const TracedCall& call) {
  const std::lock_guard guard(calls_lock);
  calls.push_back(call);
  if (call.kind != TracedCall::kGiveBack) return;
  for (const TracedCall& ring : watched) {
    if (!covers(call, ring)) continue;
    auto* const begin = reinterpret_cast<void*>(call.address);
    mprotect(begin, call.length, PROT_NONE);
    closed.emplace_back(begin, call.length);
  }
}

/// The first call of this kind from `from` on; it has to be there.
template <class Is>
std::size_t find_call(const std::vector<TracedCall>& in, std::size_t from, TracedCall::Kind kind,
                      Is is, int line = __builtin_LINE()) {
  for (std::size_t i = from; i < in.size(); ++i) {
    if (in[i].kind == kind && is(in[i])) return i;
  }
  std::printf("line %d: no such call\n", line);
  for (const TracedCall& call : in) {
    std::printf("  %d pd %p address %lx length %lu keys %x %x access %d\n", call.kind, call.pd,
                call.address, call.length, call.local_key, call.remote_key, call.access);
  }
  std::fflush(stdout);
  _exit(1);
}

/// Blocks 455 to 459 and 682 to 684, by the calls that a device sees; from the moment in which the
/// small receive ring is given back, a look at it would be the end of this program: the receiver
/// has switched (683) before it answers.
void the_order_of_the_figures() {
  HOLDS(weft_test_on_call != nullptr);
  ContextOptions options;
  options.settings.strict = true;
  options.settings.phases = {{2000, 16}, {16384, 8}};
  options.settings.shrink_after_ns = 0;
  const std::uint64_t small_bytes = 16 * channel::slot_bytes_of(2000),
                      large_bytes = 8 * channel::slot_bytes_of(16384);
  Two two(options, options);
  weft_test_on_call(note_call);
  auto [a, b] = two.open();
  HOLDS(pass(two, a, b, "small") == "small");
  // From the start each end has a ring to send from, which nobody else can reach, and one to
  // receive.
  std::vector<TracedCall> sends, receives;
  {
    const std::lock_guard guard(calls_lock);
    for (const TracedCall& call : calls) {
      if (call.kind != TracedCall::kRegister || call.length != small_bytes) continue;
      (call.access == kWritable ? receives : sends).push_back(call);
    }
    HOLDS(sends.size() == 2 && receives.size() == 2);
    calls.clear();
  }
  const auto one_of = [](const std::vector<TracedCall>& rings) {
    return [&rings](const TracedCall& call) {
      return std::any_of(rings.begin(), rings.end(), [&](const TracedCall& ring) {
        return ring.pd == call.pd && ring.local_key == call.local_key;
      });
    };
  };
  watched = receives;  // where a ring was sent from, the next one may come to lie
  const std::string text = pattern(5000, 1);
  for (int i = 0; i < 20; ++i) HOLDS(pass(two, a, b, text) == text);
  weft_test_on_call(nullptr);
  for (const auto& [begin, bytes] : closed) mprotect(begin, bytes, PROT_READ | PROT_WRITE);
  HOLDS(closed.size() == 1);
  const auto is_in_ring = [](const TracedCall& ring) {
    return [&ring](const TracedCall& call) { return covers(call, ring); };
  };

  // The receiver: its small ring is unregistered and freed, the large one made, then it answers.
  const std::size_t revoked = find_call(calls, 0, TracedCall::kDeregister, one_of(receives));
  const TracedCall small = calls[revoked];
  const std::size_t freed = find_call(calls, revoked, TracedCall::kGiveBack, is_in_ring(small));
  const auto is_large = [&](const void* pd, int access) {
    return [=](const TracedCall& call) {
      return call.pd == pd && call.length == large_bytes && call.access == access;
    };
  };
  const std::size_t made =
      find_call(calls, 0, TracedCall::kRegister, is_large(small.pd, kWritable));
  HOLDS(freed < made);
  const TracedCall large = calls[made];
  const std::size_t answered = find_call(calls, 0, TracedCall::kPost, [&](const TracedCall& call) {
    return call.pd == small.pd && call.length == channel::kAcknowledgementBytes;
  });
  HOLDS(made < answered);

  // The sender: with the answer it unregisters (455), frees (456), allocates and registers (457,
  // 458), and writes to the address and by the key that it was told (459).
  const std::size_t sent_all = find_call(calls, 0, TracedCall::kDeregister, one_of(sends));
  HOLDS(answered < sent_all);
  const TracedCall own = calls[sent_all];
  HOLDS(own.pd != small.pd);
  const std::size_t own_freed = find_call(calls, sent_all, TracedCall::kGiveBack, is_in_ring(own));
  const std::size_t own_made = find_call(calls, 0, TracedCall::kRegister, is_large(own.pd, 0));
  HOLDS(own_freed < own_made);
  const std::uint32_t key = calls[own_made].local_key;
  const std::size_t written =
      find_call(calls, own_made, TracedCall::kPost,
                [&](const TracedCall& call) { return call.local_key == key; });
  HOLDS(calls[written].remote_key == large.remote_key && covers(large, calls[written]));
  for (const TracedCall& call : calls) {  // and by the old ones nothing more
    const bool old = call.remote_key == small.remote_key && call.pd == own.pd;
    HOLDS(call.kind != TracedCall::kPost || !old || &call < &calls[revoked]);
  }
}

}  // namespace

const Cases kMemoryCases{
    {"the_order_of_the_figures", the_order_of_the_figures},
    {"freed_memory_leaves_the_resident_size", freed_memory_leaves_the_resident_size},
    {"strict_freed_memory_leaves_the_resident_size", strict_freed_memory_leaves_the_resident_size},
    {"memory_is_given_back_and_used_again", memory_is_given_back_and_used_again},
    {"strict_memory_is_given_back_and_used_again", strict_memory_is_given_back_and_used_again},
};

}  // namespace weft::test
