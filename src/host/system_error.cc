#include "host/system_error.h"

#include <cerrno>
#include <system_error>

namespace weft::host {

tl::unexpected<Error> system_error(const std::string& what, int error_number) {
  const std::string text =
      what + ": " + std::error_code(error_number, std::generic_category()).message();
  switch (error_number) {
    case EMFILE:
      return fail(Errc::kOutOfMemory,
                  text +
                      "; this process has as many files open as RLIMIT_NOFILE allows: close "
                      "some, or raise the limit (ulimit -n)");
    case ENFILE:
      return fail(Errc::kOutOfMemory,
                  text + "; the machine has as many files open as fs.file-max allows: raise it");
    case ETOOMANYREFS:
      return fail(Errc::kOutOfMemory,
                  text +
                      "; this user's processes have sent more descriptors than RLIMIT_NOFILE "
                      "that nobody received yet: raise the limit (ulimit -n)");
    case ENOMEM:
    case ENOSPC:
    case ENOBUFS:
      return fail(Errc::kOutOfMemory,
                  text +
                      "; free memory, ask for less, or raise the limit (ulimit -v, or that of "
                      "the container)");
    case EACCES:
    case EPERM:
      return fail(Errc::kNotPermitted, text + "; a security policy forbids it");
    case ENOSYS:
      return fail(Errc::kNotSupported,
                  text + "; the kernel or a sandbox's filter of system calls does not offer it");
    default:
      return fail(Errc::kSystem, text);
  }
}

}  // namespace weft::host
