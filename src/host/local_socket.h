// Sockets between processes of one user on one host: AF_UNIX, abstract names (scoped to the network
// namespace, gone with the process), messages with whole boundaries (SEQPACKET) that carry file
// descriptors, close-on-exec. Everything that arrives is hostile, also what has not been received
// when a socket is closed: no call waits for a peer, whatever the peer sent, except receive() with
// a timeout. One thread at a time for each object; any number for send() and wake().
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

#include "host/strange_fd.h"
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
  std::vector<StrangeFd> fds;

  /// The peer only said that there is something to do.
  bool is_wake() const;
};

class LocalSocket {
 public:
  LocalSocket() = default;
  /// One that was connected, or listens, already.
  explicit LocalSocket(Fd fd, bool listens = false) : fd_(std::move(fd)), listens_(listens) {}
  LocalSocket(LocalSocket&& other) noexcept = default;
  LocalSocket& operator=(LocalSocket&& other) noexcept;
  ~LocalSocket() { close(); }
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
  /// One message of at most `most` bytes, from 1 up; kTimedOut when there is none within
  /// `timeout_ms` (less than 0: no limit), kNotFound when the peer is gone and all that it sent was
  /// received. A message that is too long or has too many fds is an error and is dropped; no fd
  /// leaks.
  Result<Message> receive(std::size_t most, int timeout_ms) const;

  /// Makes the peer's end readable, as long as the peer has not seen that it is. Never blocks.
  void wake() const;
  /// Takes what one wake() sent at the other end; false: there was none. kNotFound: the peer is
  /// gone; kInvalidArgument: something else came.
  Result<bool> take_wake() const;
  /// There is something to receive, a message or the end, and the next is not a wake().
  bool note_is_next() const;
  /// False: there is nothing to receive, not even the end, after this time.
  bool wait(int timeout_ms) const;

  int fd() const { return fd_.get(); }
  /// The peer sees the end of the stream, also if it is not closed yet, or held by somebody else.
  void hang_up() const;
  void close();

 private:
  /// What has not been received may be, or hold, a descriptor that takes long to close.
  bool drain() const;
  Fd fd_;
  bool listens_ = false;
};

}  // namespace weft::host
