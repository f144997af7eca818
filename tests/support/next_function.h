// For libraries that tests preload before others: the function of the same name that comes next.
// Any thread.
#pragma once

#include <dlfcn.h>

#include <cstdlib>

namespace weft::test {

/// next<int(int)>("close")(7). There is one, or the program ends.
template <class Function>
Function* next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

}  // namespace weft::test
