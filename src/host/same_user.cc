#include "host/same_user.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "host/fork.h"
#include "host/handshake.h"

namespace weft::host {
namespace {

// Of newer kernels than the headers may be of.
constexpr int kPeerPidfd = 77;
constexpr unsigned long kGetUserNamespace = _IO(0xFF, 9);
constexpr uid_t kUsualOverflowUid = 65534;

uid_t overflow_uid() {
  static const uid_t known = [] {
    uid_t uid = kUsualOverflowUid;
    std::ifstream file("/proc/sys/kernel/overflowuid");
    return file >> uid ? uid : kUsualOverflowUid;
  }();
  return known;
}

/// The user namespace has a number for every user of the machine, as the first one has. The kernel
/// maps no user twice and only those that the parent maps too: it is enough to count them.
bool maps_every_user() {
  constexpr std::uint64_t kAllUsers = 0xFFFF'FFFF;
  std::uint64_t inside = 0, outside = 0, count = 0, sum = 0;
  for (std::ifstream file("/proc/self/uid_map"); file >> inside >> outside >> count;) sum += count;
  return sum == kAllUsers;
}

/// This process's user really has the number here. A file that this user has made is given to that
/// number: the kernel lets anybody give a file to whom it belongs to already, and lets nobody,
/// whatever its capabilities, give away a file of a user without a number.
bool has_number(uid_t number) {
  const ForkHold hold;
  const Fd file(memfd_create("weft-owner", MFD_CLOEXEC));
  return file && fchown(file.get(), number, static_cast<gid_t>(-1)) == 0;
}

bool same_namespace(const Fd& process, const Fd& other) {
  if (!process || !other) return false;
  const ForkHold hold;
  struct stat one {
  }, two{};
  const Fd first(ioctl(process.get(), kGetUserNamespace, 0));
  const Fd second(ioctl(other.get(), kGetUserNamespace, 0));
  return first && second && fstat(first.get(), &one) == 0 && fstat(second.get(), &two) == 0 &&
         one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/// By the kernel's handle on the process that called connect() or listen(): a number could be
/// another process's by now. The kernel shows the namespace only to who may look into the process.
bool peer_is_in_our_namespace(int socket) {
  const ForkHold hold;
  int found = -1;
  socklen_t size = sizeof found;
  if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &found, &size) != 0) return false;
  return same_namespace(Fd(found), open_own_pidfd());
}

}  // namespace

// A peer that reads as the overflow uid may be anybody without a number. It is of this user if
// everybody has one. Otherwise it has to be in our user namespace: there such a number is ours, if
// we really have it, or that of a process that was let in by a capability over the namespace, and
// so over us.
bool is_same_user(uid_t peer, int socket) {
  const uid_t own = geteuid();
  if (peer != own) return false;
  if (own != overflow_uid()) return true;
  return maps_every_user() || (has_number(own) && peer_is_in_our_namespace(socket));
}

}  // namespace weft::host
