// Which of the program's descriptors are open character devices of ours. The interposed calls ask
// here: whether any is open is one load, so that the writes of the program's own files cost nothing
// more. Each number that the program has is a duplicate of the object's own descriptor; the object
// goes with the last of them, once no write is under way. Any thread; a child after fork keeps the
// numbers, a child after vfork, which shares the memory, changes nothing here.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>

#include "files/char_device.h"

namespace weft::files {

namespace detail {
inline constinit std::atomic<unsigned> open_char_files{0};
}

/// May be one of ours: then find() says.
inline bool may_be_char_file(int fd) {
  // relaxed: a program that uses a number has got it by synchronised ways from whoever opened it.
  return detail::open_char_files.load(std::memory_order_relaxed) != 0 && fd >= 0;
}

struct OpenCharDevice {
  std::shared_ptr<CharFile> file;
  dev_t number = 0;
};

/// nullopt: not ours, or not any more.
std::optional<OpenCharDevice> find_char_file(int fd);

/// The number of an emulated device, by its path.
std::optional<dev_t> emulated_number(std::string_view path);
/// Opens it for the program. nullopt: no such device. Less than 0: errno tells why.
std::optional<int> open_emulated(std::string_view path, int flags);

/// The program has closed these, or is about to.
void forget_char_files(int first, int last);
/// The program has duplicated one: `to` is the same file as `from`.
void share_char_file(int from, int to);

}  // namespace weft::files
