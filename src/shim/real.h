// The library that ours stands before: what is not about a weft object goes there. Any thread.
#pragma once

namespace weft::shim {

/// The function of that name in libibverbs itself; null when there is no such library or function.
void* real_symbol(const char* name);

/// real(&ibv_dealloc_pd, "ibv_dealloc_pd"): typed, null as above.
template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(real_symbol(name));
}

}  // namespace weft::shim

/// The object is not ours: the same call to the real library. Without one, `otherwise`.
#define WEFT_PASS_ON(function, otherwise, ...)                               \
  do {                                                                       \
    static auto* const passed_on = ::weft::shim::real(&function, #function); \
    return passed_on != nullptr ? passed_on(__VA_ARGS__) : (otherwise);      \
  } while (false)
