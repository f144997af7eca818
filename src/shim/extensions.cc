// What channels, and other programs that know weft, can ask for beyond libibverbs.
#include "weft/extensions.h"

#include <new>

#include "shim/objects.h"
#include "weft/arena.h"

namespace {

void* arena_create(std::size_t bytes, void** memory) {
  auto made = weft::Arena::create(bytes);
  if (!made) return nullptr;
  auto* arena = new (std::nothrow) weft::Arena(std::move(*made));
  if (arena != nullptr) *memory = arena->memory().data();
  return arena;
}

void arena_destroy(void* arena) { delete static_cast<weft::Arena*>(arena); }

bool is_weft_device(const ibv_context* context) { return weft::shim::is_ours(context); }

constexpr weft_extensions kTable{sizeof(weft_extensions), arena_create, arena_destroy,
                                 is_weft_device};

}  // namespace

extern "C" [[gnu::visibility("default")]] const weft_extensions* weft_get_extensions() {
  return &kTable;
}
