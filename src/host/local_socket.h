// Sockets between processes of one user on one host: AF_UNIX, abstract names (scoped to the network
// namespace, gone with the process), messages with whole boundaries (SEQPACKET) that carry file
// descriptors, close-on-exec. Everything that arrives is hostile. One thread at a time for each
// object; no call waits for a peer, except receive() with a timeout.
//
// A name is anybody's to take. What another user holds counts as free: we take "<name>~<random>"
// beside it, and whoever calls the name finds that by the kernel's list of names and their owners
// (own_names.h). So each user has all names for itself, and nobody can keep them from us.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/fd.h"
#include "weft/result.h"

namespace weft::host {

struct Credentials {
  pid_t pid;  ///< as this process's pid namespace knows it; 0: not visible from here
  uid_t uid;
};

inline constexpr std::size_t kMaxMessageFds = 16;
/// What is left for what is added beside another user's name.
inline constexpr std::size_t kMostNameBytes = 107 - 17;

struct Message {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};

class LocalSocket {
 public:
  LocalSocket() = default;
  /// kBusy when a process of this user has the name. Names have 1 to kMostNameBytes bytes and begin
  /// with kNamePrefix.
  static Result<LocalSocket> listen(std::string_view name);
  /// Whether a process of this user has one of the names now; nobody is called.
  static bool any_taken(std::span<const std::string> names);
  /// To a process of this user. kNotFound when nobody listens there, kNotPermitted when another
  /// user alone does, kBusy when it has not accepted the many before.
  static Result<LocalSocket> connect(std::string_view name);
  /// The next peer, of any user; kTimedOut when there is none now. Never blocks.
  Result<LocalSocket> accept() const;

  /// Who was at the other end when it called connect() or listen().
  Result<Credentials> peer() const;

  /// One message of at least a byte. Never blocks: kBusy when the peer's queue is full, kNotFound
  /// when it is gone. The fds stay the caller's.
  Result<void> send(std::span<const std::byte> bytes, std::span<const int> fds) const;
  /// One message of at most `most` bytes; kTimedOut when there is none within `timeout_ms` (less
  /// than 0: no limit), kNotFound when the peer is gone and all that it sent was received. A
  /// message that is too long or has too many fds is an error and is dropped; no fd leaks.
  Result<Message> receive(std::size_t most, int timeout_ms) const;

  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }

 private:
  explicit LocalSocket(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace weft::host
