// A library for tests, to be preloaded before weft's device: makes of it one that pins memory, as
// every network card and Linux's rxe do. What is registered stays, for the device, the pages that
// it was at that moment: a program that gives pages of a live registration back to the system and
// uses them again finds that the device still reads and writes the old ones.
//
// How: memory that the program itself maps lies in one file, and a registration maps the same pages
// of that file a second time, for the device. Pages that are given back become others of the file
// in the program's mapping alone. Such a device has no arenas, so weft's word for them is absent.
// Other memory (the heap) is registered as ever: there nothing is given back by hand.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "support/next_function.h"
#include "support/program_code.h"

#undef ibv_reg_mr

// A symbol whose address is null: what a program finds that asks for a weak one which nobody has.
asm(".globl weft_get_extensions\n.set weft_get_extensions, 0");

namespace {

using weft::test::is_of_program;
using weft::test::next;
constexpr std::size_t kPage = 4096, kTrackedLeast = 16 * kPage;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

void* map(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  return next<void*(void*, std::size_t, int, int, int, off_t)>("mmap")(at, bytes, protection, flags,
                                                                       file, offset);
}

void check(bool good) {
  if (!good) std::abort();
}

/// Physical memory, by offsets in a file; each page is known by the program, by registrations, or
/// by both, and goes when nobody knows it any more.
class Memory {
 public:
  /// Fresh pages, at `at` if that is given.
  void* give(void* at, std::size_t bytes) {
    const off_t offset = end_;
    end_ += static_cast<off_t>(bytes);
    if (file_ < 0) file_ = memfd_create("pinning device", MFD_CLOEXEC);
    check(file_ >= 0 && ftruncate(file_, end_) == 0);
    void* const memory = map(at, bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | (at != nullptr ? MAP_FIXED : 0), file_, offset);
    check(memory != MAP_FAILED);
    for (std::size_t i = 0; i < bytes; i += kPage) {
      const off_t page = offset + static_cast<off_t>(i);
      program_[number(memory) + i] = page;
      known_[page] = 1;
    }
    return memory;
  }
  bool has(std::uintptr_t page) const { return program_.contains(page); }
  void take(std::uintptr_t page) {
    const auto found = program_.find(page);
    if (found == program_.end()) return;
    forget(found->second);
    program_.erase(found);
  }

  /// The pages of the range a second time, for the device; null: not all of them are ours.
  std::byte* pin(std::uintptr_t begin, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += kPage) {
      if (!has(begin + i)) return nullptr;
    }
    auto* const pinned =
        static_cast<std::byte*>(map(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    check(pinned != MAP_FAILED);
    std::vector<off_t>& pages = pinned_[pinned];
    for (std::size_t i = 0; i < bytes; i += kPage) {
      pages.push_back(program_[begin + i]);
      ++known_[pages.back()];
    }
    for (std::size_t first = 0, last = 0; first < pages.size(); first = last) {
      for (last = first + 1; last < pages.size(); ++last) {
        if (pages[last] != pages[last - 1] + static_cast<off_t>(kPage)) break;
      }
      check(map(pinned + first * kPage, (last - first) * kPage, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_FIXED, file_, pages[first]) != MAP_FAILED);
    }
    return pinned;
  }
  void unpin(std::byte* pinned) {
    const auto found = pinned_.find(pinned);
    check(found != pinned_.end());
    check(next<int(void*, std::size_t)>("munmap")(pinned, found->second.size() * kPage) == 0);
    for (const off_t page : found->second) forget(page);
    pinned_.erase(found);
  }

 private:
  void forget(off_t page) {
    if (--known_[page] > 0) return;
    known_.erase(page);
    check(fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page, kPage) == 0);
  }

  int file_ = -1;
  off_t end_ = 0;
  std::map<std::uintptr_t, off_t> program_;
  std::map<off_t, int> known_;
  std::map<std::byte*, std::vector<off_t>> pinned_;
};

std::recursive_mutex lock;
Memory& memory() {
  static auto* const one = new Memory;  // as long as the process
  return *one;
}
std::map<ibv_mr*, std::byte*>& registrations() {
  static auto* const all = new std::map<ibv_mr*, std::byte*>;
  return *all;
}

ibv_mr* register_pinned(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
  const std::lock_guard guard(lock);
  const std::uintptr_t begin = number(address) / kPage * kPage,
                       end = (number(address) + length + kPage - 1) / kPage * kPage;
  std::byte* const pinned = memory().pin(begin, end - begin);
  void* const seen = pinned != nullptr ? pinned + (number(address) - begin) : address;
  ibv_mr* const region = next<ibv_mr*(ibv_pd*, void*, std::size_t, std::uint64_t, int)>(
      "ibv_reg_mr_iova")(pd, seen, length, iova, access);
  if (region != nullptr) region->addr = address;
  if (pinned != nullptr && region == nullptr) memory().unpin(pinned);
  if (pinned != nullptr && region != nullptr) registrations()[region] = pinned;
  return region;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void* mmap(void* at, std::size_t bytes, int protection, int flags,
                                          int file, off_t offset) noexcept {
  if (at == nullptr && flags == (MAP_PRIVATE | MAP_ANONYMOUS) && bytes >= kTrackedLeast &&
      protection == (PROT_READ | PROT_WRITE) && is_of_program(__builtin_return_address(0))) {
    const std::lock_guard guard(lock);
    return memory().give(nullptr, (bytes + kPage - 1) / kPage * kPage);
  }
  return map(at, bytes, protection, flags, file, offset);
}

[[gnu::visibility("default")]] int munmap(void* begin, std::size_t bytes) noexcept {
  if (is_of_program(__builtin_return_address(0))) {
    const std::lock_guard guard(lock);
    for (std::size_t i = 0; i < bytes; i += kPage) memory().take(number(begin) + i);
  }
  return next<int(void*, std::size_t)>("munmap")(begin, bytes);
}

[[gnu::visibility("default")]] int madvise(void* begin, std::size_t bytes, int advice) noexcept {
  const bool gives_back = advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE;
  if (gives_back && is_of_program(__builtin_return_address(0))) {
    const std::lock_guard guard(lock);
    if (memory().has(number(begin))) {
      for (std::size_t i = 0; i < bytes; i += kPage) memory().take(number(begin) + i);
      memory().give(begin, bytes);
      return 0;
    }
  }
  return next<int(void*, std::size_t, int)>("madvise")(begin, bytes, advice);
}

[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length,
                                                  int access) {
  return register_pinned(pd, address, length, number(address), access);
}

[[gnu::visibility("default")]] ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address,
                                                        std::size_t length, std::uint64_t iova,
                                                        unsigned access) {
  return register_pinned(pd, address, length, iova, static_cast<int>(access));
}

[[gnu::visibility("default")]] int ibv_dereg_mr(ibv_mr* region) {
  const int result = next<int(ibv_mr*)>("ibv_dereg_mr")(region);
  const std::lock_guard guard(lock);
  const auto found = registrations().find(region);
  if (result != 0 || found == registrations().end()) return result;
  memory().unpin(found->second);
  registrations().erase(found);
  return 0;
}
}
