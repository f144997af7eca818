#include "host/abstract_name.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace weft::host {

Result<AbstractName> AbstractName::make(std::string_view text) {
  if (text.empty() || text.size() > kMaxNameBytes) {
    return fail(Errc::kInvalidArgument, "name of a local socket: " + std::to_string(text.size()) +
                                            " bytes; 1 to " + std::to_string(kMaxNameBytes) +
                                            " are possible");
  }
  AbstractName name;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

Fd make_local_socket() {
  const ForkHold hold;
  return Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int connect_now(int socket, const AbstractName& name) {
  int result = 0;
  do {
    result = ::connect(socket, name.generic(), name.size);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

}  // namespace weft::host
