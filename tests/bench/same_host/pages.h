// Heap memory that begins on a page: where a buffer lies in its pages decides how many of them the
// kernel has to find, and so all contestants get the same.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace weft::bench {

class Pages {
 public:
  Pages() = default;
  Pages(std::size_t bytes, std::byte with)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))),
        bytes_(bytes) {
    if (memory_ == nullptr) throw std::bad_alloc();
    for (std::byte& byte : std::span(memory_.get(), bytes)) byte = with;
  }

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace weft::bench
