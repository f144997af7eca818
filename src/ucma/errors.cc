#include "ucma/errors.h"

#include <cerrno>

namespace weft::ucma {

int errno_of(const Result<void>& result) {
  if (result) return 0;
  switch (result.error().code) {
    case Errc::kBusy:
      return EADDRINUSE;
    case Errc::kNotFound:
      return EADDRNOTAVAIL;
    case Errc::kOutOfMemory:
      return ENOMEM;
    case Errc::kSystem:
      return EMFILE;
    default:
      return EINVAL;
  }
}

}  // namespace weft::ucma
