#include "memory/vmm.h"

namespace weft::memory {

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "no fault";
    case Fault::kNoSegment:
      return "no segment";
    case Fault::kUnmapped:
      return "not mapped";
    case Fault::kProtection:
      return "protected";
  }
  return "unknown fault";
}

}  // namespace weft::memory
