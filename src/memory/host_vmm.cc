#include "memory/host_vmm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "memory/guard.h"
#include "memory/guard_signals.h"
#include "memory/mappings.h"

namespace weft::memory {
namespace {

std::uint64_t page_size() {
  static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

#ifndef MADV_POPULATE_READ  // since Linux 5.14; the headers may be older
constexpr int MADV_POPULATE_READ = 22, MADV_POPULATE_WRITE = 23;
#endif

std::byte* pointer(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

/// Asks the kernel whether something is mapped at every page of [first, last].
bool all_mapped(std::uint64_t first, std::uint64_t last) {
  std::array<unsigned char, 4096> residency;
  const std::uint64_t page = page_size();
  first &= ~(page - 1);
  std::uint64_t pages = (last - first) / page + 1;
  while (pages > 0) {
    const auto now = std::min<std::uint64_t>(pages, residency.size());
    int rc = 0;
    do {
      rc = mincore(pointer(first), now * page, residency.data());
    } while (rc != 0 && errno == EAGAIN);
    if (rc != 0) return false;
    first += now * page, pages -= now;
  }
  return true;
}

/// Memcheck reports each touch of memory that is not there, also one that is meant to tell.
bool is_watched_by_valgrind() {
  static const bool is = [] {
    const char* const preloaded = std::getenv("LD_PRELOAD");  // it adds its own library
    return preloaded != nullptr && std::strstr(preloaded, "/vgpreload_") != nullptr;
  }();
  return is;
}

}  // namespace

HostVmm::HostVmm() : Vmm(true) { install_guard(); }

tl::expected<Vmm::View, Fault> HostVmm::map(std::uint64_t address, std::size_t length, Intent) {
  return View{pointer(address), length, 0};
}

void HostVmm::unmap(const View&) {}

Fault HostVmm::prefetch(std::uint64_t address, std::size_t length, Intent intent) {
  const Fault fault = check(address, length, intent);
  if (fault != Fault::kNone) return fault;
  const std::uint64_t page = page_size();
  const std::uint64_t first = address & ~(page - 1), last = address + (length - 1);
  const int advice = intent == Intent::kWrite ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  if (madvise(pointer(first), (last | (page - 1)) - first + 1, advice) == 0) return Fault::kNone;
  for (std::uint64_t at = first;;
       at += page) {  // an older kernel, or memory that changes meanwhile
    const Fault touched = guarded_probe(pointer(std::max(at, address)), intent);
    if (touched != Fault::kNone || last - at < page) return touched;
  }
}

Fault HostVmm::check(std::uint64_t address, std::size_t length, Intent intent) {
  if (length == 0 || address == 0 || length - 1 > ~address) return Fault::kUnmapped;
  guard::prepare_thread();
  const std::uint64_t last = address + (length - 1);
  const std::uint64_t page = page_size();
  if (is_watched_by_valgrind() && !all_mapped(address, last)) return Fault::kUnmapped;
  std::optional<Fault> listed;
  if ((last / page) - (address / page) >= kProbedPages) {
    // Who may only read is told by each access if it may not even do that; that is quicker to ask.
    listed = intent == Intent::kWrite    ? check_mappings(address, last, intent)
             : all_mapped(address, last) ? Fault::kNone
                                         : Fault::kUnmapped;
    if (listed && *listed != Fault::kNone) return *listed;
  }
  if (!listed) {
    for (std::uint64_t at = (address | (page - 1)) + 1; at != 0 && at <= last; at += page) {
      const Fault fault = guarded_probe(pointer(at), intent);
      if (fault != Fault::kNone) return fault;
    }
  }
  const Fault fault = guarded_probe(pointer(address), intent);
  return fault != Fault::kNone ? fault : guarded_probe(pointer(last), intent);
}

}  // namespace weft::memory
