// Another user on this host, who takes the names that weft is going to need: a process of nobody,
// which lives as long as the object. Only root can be two users; tests skip themselves otherwise.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "host/own_names.h"
#include "support/partner.h"
#include "support/sandbox.h"

namespace weft::test {

/// How a name is held.
enum class NameHold {
  kBound,      ///< nobody can connect
  kListening,  ///< whoever connects waits to be accepted
  kFull,       ///< and too many do already
};

struct RawName {
  sockaddr_un address{};
  socklen_t size = 0;

  explicit RawName(const std::string& text) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, text.data(), text.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* generic() const {
    const void* const any = &address;
    return static_cast<const sockaddr*>(any);
  }
};

/// The socket; less than 0: somebody has the name.
inline int hold_name(const std::string& text, NameHold how, int type = SOCK_SEQPACKET) {
  const RawName name(text);
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  require(fd >= 0, "a socket");
  if (bind(fd, name.generic(), name.size) != 0) {
    close(fd);
    return -1;
  }
  if (type == SOCK_DGRAM || how == NameHold::kBound) return fd;
  require(listen(fd, how == NameHold::kFull ? 0 : 64) == 0, "listen");
  if (how != NameHold::kFull) return fd;
  // Who has hung up waits to be accepted all the same.
  for (bool full = false; !full;) {
    const int caller = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    full = connect(caller, name.generic(), name.size) != 0;
    close(caller);
  }
  return fd;
}

inline bool can_be_two_users() { return geteuid() == 0; }

/// First in a test of what holds where the kernel tells who holds a name
/// (docs/threat-model.md).
#define WEFT_NEEDS_OWNERS_OF_NAMES()                                                   \
  if (weft::host::own_names("weft-none"); !weft::host::owners_are_told()) {            \
    GTEST_SKIP() << "this kernel does not tell who holds a name: it has no unix_diag"; \
  }

class NameTaker {
 public:
  /// Does the work as another user, then holds what it has until the object is gone.
  explicit NameTaker(const std::function<void()>& work)
      : partner_([work](const Wire& wire) {
          rlimit many{};
          getrlimit(RLIMIT_NOFILE, &many);
          many.rlim_cur = many.rlim_max;
          setrlimit(RLIMIT_NOFILE, &many);
          require(become(kNobody), "to be another user");
          work();
          wire.put('t');
          char more = 0;
          while (read(wire.fd(), &more, 1) > 0) continue;
        }) {
    char taken = 0;
    ready_ = partner_.wire().get(&taken);
  }
  NameTaker(const std::vector<std::string>& names, NameHold how, int type = SOCK_SEQPACKET)
      : NameTaker([=] {
          for (const std::string& name : names) hold_name(name, how, type);
        }) {}

  bool ready() const { return ready_; }

 private:
  Partner partner_;
  bool ready_ = false;
};

}  // namespace weft::test
