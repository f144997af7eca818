// What a program can ask of verbs_tracer.cc, if that is loaded before the device: to be told of
// each call by which memory is registered, revoked, mapped or given back, and of each work request,
// at the moment in which it is made. Weak: null without it. The callback runs in whichever thread
// calls.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace weft::test {

struct TracedCall {
  enum Kind : std::uint8_t {
    kRegister,    ///< after it has succeeded
    kDeregister,  ///< before
    kMap,         ///< anonymous memory, by the program itself; after
    kGiveBack,    ///< unmapped, or pages given to the system, by the program itself; after
    kPost         ///< before
  } kind;
  const void* pd;
  std::uint64_t address;  ///< of the memory; of work: where it writes to
  std::uint64_t length;
  std::uint32_t local_key, remote_key;
  int access;  ///< of a registration
};

}  // namespace weft::test

extern "C" [[gnu::weak]] void weft_test_on_call(void (*callback)(const weft::test::TracedCall&));
