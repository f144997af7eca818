// For libraries that tests preload: tells calls of the program itself from those of libraries, by
// the address that they return to. Any thread.
#pragma once

#include <link.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace weft::test {

/// Whether code of the program lies there, and not of a library.
inline bool is_of_program(const void* code) {
  using Ranges = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;
  static const Ranges ranges = [] {
    Ranges found;
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* out) {
          for (int i = 0; i < object->dlpi_phnum; ++i) {
            const auto& part = object->dlpi_phdr[i];
            const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
            if (part.p_type != PT_LOAD) continue;
            static_cast<Ranges*>(out)->emplace_back(begin, begin + part.p_memsz);
          }
          return 1;  // the first is the program
        },
        &found);
    return found;
  }();
  const auto at = reinterpret_cast<std::uintptr_t>(code);
  for (const auto& [begin, end] : ranges) {
    if (at >= begin && at < end) return true;
  }
  return false;
}

}  // namespace weft::test
