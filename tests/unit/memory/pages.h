// Memory for tests that unmap, protect or truncate it. Each object owns its mapping; one thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "memory/vmm.h"

namespace weft::memory::test {

inline std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

class Pages {
 public:
  explicit Pages(std::size_t count, int fd = -1) : size_(count * page_bytes()) {
    const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* at = mmap(quiet_place(size_), size_, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED) abort();
    data_ = static_cast<std::byte*>(at);
  }
  ~Pages() { munmap(data_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() const { return data_; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  std::size_t size() const { return size_; }
  std::byte* page(std::size_t i) const { return data_ + i * page_bytes(); }
  /// The page becomes a hole.
  void unmap(std::size_t i) const { munmap(page(i), page_bytes()); }
  void protect(std::size_t i, int rights) const { mprotect(page(i), page_bytes(), rights); }

 private:
  // Far from where the kernel puts other mappings, and never twice: nobody else's memory must land
  // in a hole that a test has made. Address and thread sanitizer both allow this range.
  static void* quiet_place(std::size_t size) {
    static std::atomic<std::uint64_t> next{0x5510'0000'0000};
    return reinterpret_cast<void*>(next.fetch_add(size + page_bytes()));
  }

  std::byte* data_ = nullptr;
  std::size_t size_;
};

/// Two pages of a file that has shrunk to one: touching the second is a SIGBUS.
class TruncatedFile {
 public:
  TruncatedFile() : fd_(memfd_create("truncated", 0)), pages_(resized(fd_, 2), fd_) {
    std::memset(pages_.data(), 1, pages_.size());
    resized(fd_, 1);
  }
  ~TruncatedFile() { close(fd_); }
  const Pages& pages() const { return pages_; }

 private:
  static std::size_t resized(int fd, std::size_t pages) {
    if (ftruncate(fd, static_cast<off_t>(pages * page_bytes())) != 0) abort();
    return pages;
  }
  int fd_;
  Pages pages_;
};

inline std::byte pattern(std::size_t i) { return static_cast<std::byte>(i * 7 + i / 256 + 1); }

inline void fill_pattern(std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(i);
}

}  // namespace weft::memory::test
