#include "weft/result.h"

namespace weft {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::kInvalidArgument:
      return "invalid argument";
    case Errc::kInvalidState:
      return "invalid state";
    case Errc::kNotPermitted:
      return "not permitted";
    case Errc::kBadAddress:
      return "bad address";
    case Errc::kQueueFull:
      return "queue full";
    case Errc::kOutOfMemory:
      return "out of memory";
    case Errc::kBusy:
      return "busy";
    case Errc::kNotFound:
      return "not found";
    case Errc::kNotSupported:
      return "not supported";
    case Errc::kTimedOut:
      return "timed out";
    case Errc::kSystem:
      return "system error";
  }
  return "unknown error";
}

}  // namespace weft
