// Hints to the processor's cache. They change nothing that a program can see but the time it takes.
#pragma once

namespace weft::base {

/// The line at this address is going to be written soon: it begins its way here now, while the
/// caller still decides. An address that is not mapped does no harm.
inline void fetch_for_write(const void* at) {
#if defined(__x86_64__)
  // Not the compiler's builtin, which asks for a line to read unless it is told the processor's
  // model. Where the instruction is not known, it does nothing.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

}  // namespace weft::base
