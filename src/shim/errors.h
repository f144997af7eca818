// From weft's errors to the errno values that libibverbs' callers expect. Stateless.
#pragma once

#include <cerrno>

#include "weft/result.h"

namespace weft::shim {

constexpr int errno_of(Errc code) {
  switch (code) {
    case Errc::kInvalidArgument:
    case Errc::kInvalidState:
      return EINVAL;
    case Errc::kNotPermitted:
      return EPERM;
    case Errc::kBadAddress:
      return EFAULT;
    case Errc::kQueueFull:
    case Errc::kOutOfMemory:
      return ENOMEM;
    case Errc::kBusy:
      return EBUSY;
    case Errc::kNotFound:
      return ENOENT;
    case Errc::kNotSupported:
      return EOPNOTSUPP;
    case Errc::kTimedOut:
      return ETIMEDOUT;
    case Errc::kSystem:
      return EIO;
  }
  return EINVAL;
}

inline int errno_of(const Error& error) { return errno_of(error.code); }

/// For calls that give a pointer: nothing, and why.
inline std::nullptr_t refuse(int error) {
  errno = error;
  return nullptr;
}
inline std::nullptr_t refuse(const Error& error) { return refuse(errno_of(error)); }

/// For calls that give an errno value. On a device it is the kernel that refuses, so errno has the
/// value too; UCX prints it from there.
inline int fail(int error) {
  errno = error;
  return error;
}
inline int fail(const Error& error) { return fail(errno_of(error)); }

}  // namespace weft::shim
