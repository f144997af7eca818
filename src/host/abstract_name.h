// The address of a local socket with an abstract name: a zero, then the name; scoped to the network
// namespace, gone with the socket. Anybody may take any name that is free. Plain value, any thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string_view>

#include "host/fd.h"
#include "weft/result.h"

namespace weft::host {

inline constexpr std::size_t kMaxNameBytes = sizeof(sockaddr_un::sun_path) - 1;

struct AbstractName {
  sockaddr_un address{};
  socklen_t size = 0;

  /// 1 to kMaxNameBytes bytes.
  static Result<AbstractName> make(std::string_view text);
  const sockaddr* generic() const {
    const void* const any = &address;
    return static_cast<const sockaddr*>(any);
  }
};

/// Messages with whole boundaries, close-on-exec, non-blocking: no call on it ever waits.
Fd make_local_socket();

/// 0, or the errno value: EAGAIN when too many wait to be accepted there. Never waits.
int connect_now(int socket, const AbstractName& name);

}  // namespace weft::host
