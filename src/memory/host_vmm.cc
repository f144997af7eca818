#include "memory/host_vmm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

}  // namespace

HostVmm::HostVmm() : Vmm(true) { install_guard(); }

tl::expected<Vmm::View, Fault> HostVmm::map(std::uint64_t address, std::size_t length, Intent) {
  return View{pointer(address), length, 0};
}

void HostVmm::unmap(const View&) {}

Fault HostVmm::check(std::uint64_t address, std::size_t length, Intent intent) {
  if (length == 0 || address == 0 || length - 1 > ~address) return Fault::kUnmapped;
  guard::prepare_thread();
  const std::uint64_t last = address + (length - 1);
  const std::uint64_t page = page_size();
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
