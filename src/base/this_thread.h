// Which thread this is, in one instruction. Compares equal only for one thread of those that live.
#pragma once

namespace weft::base {

inline const void* this_thread() { return __builtin_thread_pointer(); }

}  // namespace weft::base
