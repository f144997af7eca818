// What the kernel says about this process's mappings, without touching a page: they need not exist
// yet. Newer kernels (6.11) tell of one mapping at a time; the others list all, which takes longer
// the more there are. Stateless, any thread; some system calls.
#pragma once

#include <cstdint>
#include <optional>

#include "memory/vmm.h"

namespace weft::memory {

/// kList: as on kernels that tell no other way.
enum class MappingSource : std::uint8_t { kBest, kList };

/// Whether every page of [first, last] may be read or written; nothing when the kernel does not
/// tell, as where there is no /proc.
std::optional<Fault> check_mappings(std::uint64_t first, std::uint64_t last, Intent intent,
                                    MappingSource source = MappingSource::kBest);

}  // namespace weft::memory
