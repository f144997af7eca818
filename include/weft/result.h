// What a call that can be misused gives back: a value, or an error that names what was wrong with
// which argument. Values, freely copied; no exception crosses weft's interfaces. Who asks a result
// for a value that it has not got (value()) gets one that says why there is none.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace weft {

/// Kinds of misuse and of refusal, for programs; the message is for people.
enum class Errc {
  kInvalidArgument,  ///< an argument is out of range or contradicts another
  kInvalidState,     ///< the object is not in a state that allows this call
  kNotPermitted,     ///< protection domain, access rights or ownership forbid it
  kBadAddress,       ///< memory that the caller itself may not touch
  kQueueFull,        ///< the work or completion queue has no room
  kOutOfMemory,      ///< memory, slots or another bounded resource is used up
  kBusy,             ///< something still depends on the object
  kNotFound,         ///< no such device, address or object
  kNotSupported,     ///< this service or device does not offer it
  kTimedOut,         ///< the deadline passed
  kSystem,           ///< the operating system refused; the message carries its reason
};

std::string_view to_string(Errc code);

struct Error {
  Errc code = Errc::kInvalidArgument;
  std::string message;
};

}  // namespace weft

/// The library's own says "Bad expected access", and not what went wrong.
template <>
class tl::bad_expected_access<weft::Error> : public std::exception {
 public:
  explicit bad_expected_access(weft::Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  const weft::Error& error() const& { return error_; }
  weft::Error&& error() && { return std::move(error_); }

 private:
  weft::Error error_;
};

namespace weft {

template <class T>
using Result = tl::expected<T, Error>;

/// Shorthand for `return fail(Errc::kInvalidArgument, "sge[2].lkey: ...")`. Without memory for the
/// message it is a shorter one.
inline tl::unexpected<Error> fail(Errc code, const char* message) {
  Error error{code, {}};
  try {
    error.message = message;
  } catch (const std::bad_alloc&) {
    error.message = "out of memory";
  }
  return tl::unexpected<Error>(std::move(error));
}
inline tl::unexpected<Error> fail(Errc code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace weft
