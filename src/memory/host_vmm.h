// The address translation of the process that weft runs in: an address is a pointer. Stateless, any
// thread; lives as long as the regions that name it. Its constructor installs the guard.
#pragma once

#include "memory/vmm.h"

namespace weft::memory {

class HostVmm final : public Vmm {
 public:
  HostVmm();

  tl::expected<View, Fault> map(std::uint64_t address, std::size_t length, Intent intent) override;
  void unmap(const View& view) override;
  /// Every page of the range is there and, for writing, may be written. Up to kProbedPages it tries
  /// each, without the kernel's help; above, it asks the kernel, which brings no page into memory,
  /// and tries the two ends. Where the kernel does not tell it tries all of them.
  Fault check(std::uint64_t address, std::size_t length, Intent intent) override;
  /// Brings all pages in.
  Fault prefetch(std::uint64_t address, std::size_t length, Intent intent) override;

  static constexpr std::size_t kProbedPages = 64;
};

}  // namespace weft::memory
