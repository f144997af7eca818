#include "host/local_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>

#include "host/fork.h"
#include "host/system_error.h"

namespace weft::host {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// What the kernel lets one message carry. Those that found no room in a buffer would be closed by
/// the call, and that may wait for somebody.
constexpr std::size_t kMostFds = 253;
struct alignas(cmsghdr) ControlBuffer {
  std::array<std::byte, CMSG_SPACE(kMostFds * sizeof(int)) + CMSG_SPACE(sizeof(ucred))> bytes;
};

constexpr std::byte kWake{'w'};
/// Messages that are still taken from a socket that is to be closed.
constexpr int kLastMessages = 64;

tl::unexpected<Error> peer_is_gone() {
  return fail(Errc::kNotFound, "local socket: the peer has closed it or has ended");
}

tl::unexpected<Error> not_open() {
  return fail(Errc::kInvalidState,
              "local socket: closed, or opened by the parent process before fork; open one here");
}

/// Takes over every fd that came with the message.
void take_fds(msghdr& header, std::vector<StrangeFd>& fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
}

/// What recvmsg gave: bytes of the message, or less than 0 and errno; the fds are in `message`.
ssize_t receive_now(int socket, Message& message, int* flags, bool* is_end = nullptr) {
  ControlBuffer control;
  iovec vector{message.bytes.data(), message.bytes.size()};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  const ForkHold hold;
  const ssize_t count = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) return count;
  if (is_end != nullptr) *is_end = CMSG_FIRSTHDR(&header) == nullptr;
  take_fds(header, message.fds);
  *flags = header.msg_flags;
  return count;
}

/// Checks what arrived; a message that is refused takes its fds along.
Result<Message> judge(Message message, std::size_t count, int flags) {
  if ((flags & MSG_TRUNC) != 0) {
    return fail(Errc::kInvalidArgument, "local socket: the peer sent a message of more than " +
                                            std::to_string(message.bytes.size()) + " bytes");
  }
  if (message.fds.size() > kMaxMessageFds) {
    return fail(Errc::kInvalidArgument, "local socket: the peer sent more than " +
                                            std::to_string(kMaxMessageFds) + " descriptors");
  }
  if ((flags & MSG_CTRUNC) != 0) {
    return system_error("local socket: receiving descriptors", EMFILE);
  }
  // Nobody who speaks with us sends nothing; the end of the stream looks the same.
  if (count == 0) return peer_is_gone();
  message.bytes.resize(count);
  return message;
}

/// False when there is nothing to read at `deadline`.
Result<bool> wait_for_input(int socket, bool forever, Clock::time_point deadline) {
  int timeout_ms = -1;
  if (!forever) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    timeout_ms = static_cast<int>(left);
  }
  pollfd entry{socket, POLLIN, 0};
  if (poll(&entry, 1, timeout_ms) < 0 && errno != EINTR) {
    return system_error("local socket: poll", errno);
  }
  return true;  // or interrupted: the caller looks again
}

}  // namespace

bool Message::is_wake() const { return bytes.size() == 1 && bytes[0] == kWake && fds.empty(); }

LocalSocket& LocalSocket::operator=(LocalSocket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::move(other.fd_);
    listens_ = other.listens_;
  }
  return *this;
}

Result<LocalSocket> LocalSocket::accept() const {
  const int fd = fd_.checked();
  if (fd < 0) return not_open();
  for (;;) {
    const ForkHold hold;
    Fd peer(accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer) return LocalSocket(std::move(peer));
    if (errno == EAGAIN) return fail(Errc::kTimedOut, "local socket: nobody waits to be accepted");
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return system_error("local socket: accepting a peer", errno);
  }
}

Result<Credentials> LocalSocket::peer() const {
  const int fd = fd_.checked();
  if (fd < 0) return not_open();
  ucred found{};
  socklen_t size = sizeof found;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &size) != 0) {
    return system_error("local socket: asking who the peer is", errno);
  }
  return Credentials{found.pid, found.uid};
}

Result<void> LocalSocket::send(std::span<const std::byte> bytes, std::span<const int> fds) const {
  const int fd = fd_.checked();
  if (fd < 0) return not_open();
  if (bytes.empty() || fds.size() > kMaxMessageFds) {
    return fail(Errc::kInvalidArgument,
                "local socket: a message has at least one byte and at most " +
                    std::to_string(kMaxMessageFds) + " descriptors");
  }
  ControlBuffer control;
  iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  switch (errno) {
    case EAGAIN:
      return fail(Errc::kBusy, "local socket: the peer has not read what it was sent before");
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return peer_is_gone();
    case EMSGSIZE:
      return fail(Errc::kInvalidArgument, "local socket: a message of " +
                                              std::to_string(bytes.size()) +
                                              " bytes is too long; send it in parts, or as memory");
    case EBADF:
      return fail(Errc::kInvalidArgument, "local socket: a descriptor to be sent is not open");
    default:
      return system_error("local socket: sending a message", errno);
  }
}

void LocalSocket::wake() const {
  const int fd = fd_.checked();
  // A queue that is full is readable.
  if (fd >= 0) static_cast<void>(::send(fd, &kWake, sizeof kWake, MSG_DONTWAIT | MSG_NOSIGNAL));
}

Result<bool> LocalSocket::take_wake() const {
  const int fd = fd_.checked();
  if (fd < 0) return not_open();
  Message message;
  message.bytes.resize(1);
  int flags = 0;
  const ssize_t count = receive_now(fd, message, &flags);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) return peer_is_gone();
  if ((flags & MSG_TRUNC) != 0 || !message.is_wake()) {
    return fail(Errc::kInvalidArgument, "local socket: the peer sent what it should not");
  }
  return true;
}

bool LocalSocket::note_is_next() const {
  const int fd = fd_.checked();
  std::array<std::byte, 2> first{};
  const ssize_t count = fd < 0 ? 0 : recv(fd, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) return errno != EAGAIN && errno != EINTR;
  return count != 1 || first[0] != kWake;
}

bool LocalSocket::wait(int timeout_ms) const {
  pollfd entry{fd_.checked(), POLLIN, 0};
  return entry.fd >= 0 && poll(&entry, 1, timeout_ms) == 1;
}

void LocalSocket::hang_up() const {
  if (const int fd = fd_.checked(); fd >= 0) shutdown(fd, SHUT_RDWR);
}

bool LocalSocket::drain() const {
  hang_up();  // nothing comes after what is there
  const int fd = fd_.get();
  const int on = 1;
  // Each message comes with the credentials of its sender then, unlike the end of the stream.
  setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  for (int i = 0; i < kLastMessages; ++i) {
    Message message;
    message.bytes.resize(1);
    int flags = 0;
    bool is_end = false;
    if (receive_now(fd, message, &flags, &is_end) >= 0) {
      if (is_end) return true;
    } else if (errno != EINTR && errno != ECONNRESET) {
      return true;
    }
  }
  return false;
}

void LocalSocket::close() {
  if (fd_.checked() >= 0) {
    if (listens_) {
      hang_up();  // nobody connects from now on; those who have are closed one by one
      while (accept()) {
      }
    } else if (!drain()) {
      return close_aside(fd_.release());
    }
  }
  fd_.reset();
}

Result<Message> LocalSocket::receive(std::size_t most, int timeout_ms) const {
  const int fd = fd_.checked();
  if (fd < 0) return not_open();
  const auto deadline = Clock::now() + Milliseconds(std::max(timeout_ms, 0));
  Message message;
  message.bytes.resize(most);
  message.fds.reserve(kMaxMessageFds);
  for (;;) {
    int flags = 0;
    const ssize_t count = receive_now(fd, message, &flags);
    if (count >= 0) return judge(std::move(message), static_cast<std::size_t>(count), flags);
    switch (errno) {
      case EINTR:
      case ECONNRESET:  // told once, before the messages that the peer sent last
        break;
      case EAGAIN: {
        const auto input = wait_for_input(fd, timeout_ms < 0, deadline);
        if (!input) return tl::unexpected(input.error());
        if (!*input) return fail(Errc::kTimedOut, "local socket: no message from the peer");
        break;
      }
      case ENOTCONN:
        return peer_is_gone();
      default:
        return system_error("local socket: receiving a message", errno);
    }
  }
}

}  // namespace weft::host
