// Address translation of one process, as the controller sees it. Two implementations: HostVmm (the
// process that weft runs in; addresses are pointers) and the simulated node's processes. A Vmm
// is owned by whoever made it and outlives every region that names it; HostVmm may be called from
// any thread, the model only from its simulation's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

namespace weft::memory {

/// Why memory could not be touched.
enum class Fault : std::uint8_t {
  kNone,
  kNoSegment,   ///< the process's segment table has no valid entry
  kUnmapped,    ///< nothing behind the address, or no frame could be found for it
  kProtection,  ///< mapped, but not for this
};
std::string_view to_string(Fault fault);

enum class Intent : std::uint8_t { kRead, kWrite };

class Vmm {
 public:
  /// A stretch of real memory behind some addresses; it stays put until unmap().
  struct View {
    std::byte* data;
    std::size_t size;
    std::uint64_t hold;  ///< the implementation's own note
  };

  virtual ~Vmm() = default;
  Vmm(const Vmm&) = delete;
  Vmm& operator=(const Vmm&) = delete;

  /// A view of a prefix (at least one byte) of the range; `length` > 0.
  virtual tl::expected<View, Fault> map(std::uint64_t address, std::size_t length,
                                        Intent intent) = 0;
  virtual void unmap(const View& view) = 0;
  /// May the owner touch all of it? Asked at registration and at bind.
  virtual Fault check(std::uint64_t address, std::size_t length, Intent intent) = 0;
  /// The same at this moment, of memory that may still come: asked when a copy has failed, to know
  /// whose fault that was.
  virtual Fault check_now(std::uint64_t address, std::size_t length, Intent intent) {
    return check(address, length, intent);
  }
  /// Advice: the range will be used soon. Tells, as check() does, whether it can be.
  virtual Fault prefetch(std::uint64_t address, std::size_t length, Intent intent) {
    return check(address, length, intent);
  }

  /// True: an address is a pointer in this process; map() need not be called, and the memory is
  /// touched only under a guard (memory/guard.h).
  bool identity() const { return identity_; }

 protected:
  explicit Vmm(bool identity) : identity_(identity) {}

 private:
  const bool identity_;
};

/// An address together with the one who can translate it.
struct Place {
  Vmm* vmm;
  std::uint64_t address;
};

}  // namespace weft::memory
