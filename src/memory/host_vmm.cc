#include "memory/host_vmm.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "memory/guard.h"
#include "memory/guard_signals.h"

namespace weft::memory {
namespace {

std::uint64_t page_size() {
  static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::byte* pointer(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

/// One line of /proc/self/maps: "start-end rwxp ...", numbers in hexadecimal.
struct Mapping {
  std::uint64_t start = 0, end = 0;
  bool readable = false, writable = false;

  bool allows(Intent intent) const { return intent == Intent::kRead ? readable : writable; }
};

std::optional<Mapping> parse_mapping(const char* line, const char* end) {
  Mapping mapping;
  auto next = std::from_chars(line, end, mapping.start, 16);
  if (next.ec != std::errc() || next.ptr == end || *next.ptr != '-') return {};
  next = std::from_chars(next.ptr + 1, end, mapping.end, 16);
  if (next.ec != std::errc() || end - next.ptr < 3) return {};
  mapping.readable = next.ptr[1] == 'r';
  mapping.writable = next.ptr[2] == 'w';
  return mapping;
}

/// Calls visit(line, end) for each line of the file until it says no. False: it cannot be read.
template <class Visit>
bool for_each_line(const char* path, Visit visit) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 8192> text;  // no line is longer: a path has at most 4096 bytes
  std::size_t filled = 0;
  ssize_t n = 0;
  bool more = true;
  while (more && (n = ::read(file, text.data() + filled, text.size() - filled)) > 0) {
    const char* line = text.data();
    const char* const end = line + filled + static_cast<std::size_t>(n);
    for (const char* stop = nullptr; more && (stop = std::find(line, end, '\n')) != end;) {
      more = visit(line, stop);
      line = stop + 1;
    }
    filled = static_cast<std::size_t>(end - line);
    std::memmove(text.data(), line, filled);
  }
  ::close(file);
  return n >= 0;
}

/// Whether every page of [first, last] may be touched, as the kernel's list of mappings says;
/// nothing when there is no list. It touches no page: they need not exist yet.
std::optional<Fault> check_mappings(std::uint64_t first, std::uint64_t last, Intent intent) {
  std::uint64_t next = first;  // all before it is good
  Fault fault = Fault::kUnmapped;
  const bool listed = for_each_line("/proc/self/maps", [&](const char* line, const char* end) {
    const auto mapping = parse_mapping(line, end);
    if (!mapping || mapping->start > next) return false;
    if (mapping->end <= next) return true;
    if (!mapping->allows(intent)) {
      fault = Fault::kProtection;
      return false;
    }
    next = mapping->end;
    if (next > last) fault = Fault::kNone;
    return next <= last;
  });
  if (!listed) return {};
  return fault;
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
    listed = check_mappings(address, last, intent);
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
