#include "shim/real.h"

#include <dlfcn.h>

namespace weft::shim {

void* real_symbol(const char* name) {
  if (void* next = dlsym(RTLD_NEXT, name)) return next;
  // The program has opened the library by hand, out of the global scope, or not at all.
  static void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace weft::shim
