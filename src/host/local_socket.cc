#include "host/local_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "base/random.h"
#include "host/abstract_name.h"
#include "host/fork.h"
#include "host/own_names.h"
#include "host/same_user.h"
#include "host/system_error.h"

namespace weft::host {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

struct alignas(cmsghdr) ControlBuffer {
  std::array<std::byte, CMSG_SPACE(kMaxMessageFds * sizeof(int))> bytes{};
};

std::string describe(std::string_view step, std::string_view name) {
  return std::string(step) + " local socket \"" + std::string(name) + "\"";
}

tl::unexpected<Error> peer_is_gone() {
  return fail(Errc::kNotFound, "local socket: the peer has closed it or has ended");
}

tl::unexpected<Error> not_open() {
  return fail(Errc::kInvalidState,
              "local socket: closed, or opened by the parent process before fork; open one here");
}

/// Takes over every fd that came with the message.
void take_fds(msghdr& header, std::vector<Fd>& fds) {
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
ssize_t receive_now(int socket, Message& message, int* flags) {
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
  if ((flags & MSG_CTRUNC) != 0) {
    if (message.fds.size() >= kMaxMessageFds) {
      return fail(Errc::kInvalidArgument, "local socket: the peer sent more than " +
                                              std::to_string(kMaxMessageFds) + " descriptors");
    }
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

// ---- names --------------------------------------------------------------------------------------

namespace {

/// In front of what is added to a name that another user holds.
constexpr char kBesideMark = '~';
/// Of two of us who take a name at once beside another user's, both may have to let go.
constexpr int kClaims = 16;

std::string beside(std::string_view name) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                 base::system_random().draw<std::uint64_t>(), 16);
  return std::string(name) + kBesideMark + std::string(digits.data(), end.ptr);
}

bool is_or_beside(std::string_view held, std::string_view name) {
  return held.starts_with(name) && (held.size() == name.size() || held[name.size()] == kBesideMark);
}

/// A process of this user does, by another name than `except`.
bool we_hold(std::string_view name, std::string_view except) {
  const auto held = own_names(name);
  return std::ranges::any_of(
      held, [&](const std::string& each) { return each != except && is_or_beside(each, name); });
}

Result<void> check_name(std::string_view name) {
  if (!name.empty() && name.size() <= kMostNameBytes) return {};
  return fail(Errc::kInvalidArgument, "name of a local socket: " + std::to_string(name.size()) +
                                          " bytes; 1 to " + std::to_string(kMostNameBytes) +
                                          " are possible");
}

tl::unexpected<Error> name_is_taken(std::string_view name) {
  return fail(Errc::kBusy, describe("binding", name) +
                               ": the name is taken; another process of this user in this network "
                               "namespace has it until it ends");
}

/// kBusy when the very name is taken, by whomever.
Result<Fd> listen_at(std::string_view name) {
  const auto address = AbstractName::make(name);
  if (!address) return tl::unexpected(address.error());
  Fd fd = make_local_socket();
  if (!fd) return system_error(describe("making", name), errno);
  if (bind(fd.get(), address->generic(), address->size) != 0) {
    if (errno == EADDRINUSE) return name_is_taken(name);
    return system_error(describe("binding", name), errno);
  }
  if (::listen(fd.get(), SOMAXCONN) != 0) return system_error(describe("opening", name), errno);
  return fd;
}

struct Called {
  Fd fd;
  enum class Answer { kOurs, kOthers, kNobody, kFull } answer = Answer::kNobody;
  uid_t owner = 0;  ///< of kOthers
};

Result<Called> call_at(std::string_view name) {
  const auto address = AbstractName::make(name);
  if (!address) return tl::unexpected(address.error());
  Called called{make_local_socket()};
  if (!called.fd) return system_error(describe("making", name), errno);
  switch (const int error = connect_now(called.fd.get(), *address)) {
    case 0:
      break;
    case ECONNREFUSED:
    case EPROTOTYPE:  // somebody, but not one of us
      return called;
    case EAGAIN:
      called.answer = Called::Answer::kFull;
      return called;
    default:
      return system_error(describe("connecting to", name), error);
  }
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(called.fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
    return system_error("local socket: asking who the peer is", errno);
  }
  called.owner = who.uid;
  called.answer =
      is_same_user(who.uid, called.fd.get()) ? Called::Answer::kOurs : Called::Answer::kOthers;
  return called;
}

/// The name is taken, and by another user.
bool others_hold(std::string_view name) {
  if (we_hold(name, {})) return false;
  if (owners_are_told()) return true;
  const auto called = call_at(name);
  return called && called->answer == Called::Answer::kOthers;
}

tl::unexpected<Error> belongs_to_others(std::string_view name, const Called& called) {
  const std::string owner = called.answer == Called::Answer::kOthers
                                ? "user " + std::to_string(called.owner)
                                : "another user";
  return fail(Errc::kNotPermitted, describe("connecting to", name) + ": the name is held by " +
                                       owner +
                                       ", and no process of this user is beside it; processes of "
                                       "one host talk to those of their own user: start the "
                                       "process as this user, or use addresses of your own on the "
                                       "network");
}

}  // namespace

Result<LocalSocket> LocalSocket::listen(std::string_view name) {
  if (auto ok = check_name(name); !ok) return tl::unexpected(ok.error());
  for (int i = 0; i < kClaims; ++i) {
    std::string held(name);
    auto fd = listen_at(held);
    if (!fd && fd.error().code != Errc::kBusy) return tl::unexpected(fd.error());
    if (!fd) {
      if (!others_hold(name)) return tl::unexpected(fd.error());
      held = beside(name);
      fd = listen_at(held);
      if (!fd) return tl::unexpected(fd.error());
    }
    // After taking it: of two who do this at once, at least one sees the other.
    if (!we_hold(name, held)) return LocalSocket(std::move(*fd));
    // The other one keeps it, unless it has seen us.
    fd->reset();
    std::this_thread::sleep_for(
        std::chrono::microseconds(base::system_random().draw<std::uint8_t>() * 8));
  }
  return name_is_taken(name);
}

bool LocalSocket::any_taken(std::span<const std::string> names) {
  if (names.empty()) return false;
  const auto held = own_names(kNamePrefix);
  return std::ranges::any_of(held, [&](const std::string& each) {
    return std::ranges::any_of(names,
                               [&](const std::string& name) { return is_or_beside(each, name); });
  });
}

Result<LocalSocket> LocalSocket::connect(std::string_view name) {
  if (auto ok = check_name(name); !ok) return tl::unexpected(ok.error());
  auto called = call_at(name);
  if (!called) return tl::unexpected(called.error());
  using Answer = Called::Answer;
  if (called->answer == Answer::kOurs) return LocalSocket(std::move(called->fd));
  bool full = called->answer == Answer::kFull && !owners_are_told();
  for (const std::string& held : own_names_lately(name)) {
    if (!is_or_beside(held, name)) continue;
    auto other = held == name ? Called{{}, called->answer} : call_at(held);
    if (other && other->answer == Answer::kOurs) return LocalSocket(std::move(other->fd));
    if (other && other->answer == Answer::kFull) full = true;
  }
  if (full) {
    return fail(Errc::kBusy, describe("connecting to", name) +
                                 ": too many wait to be accepted; try again later");
  }
  if (called->answer != Answer::kNobody) return belongs_to_others(name, *called);
  return fail(Errc::kNotFound,
              describe("connecting to", name) +
                  ": nobody listens there in this network namespace; start that process, or share "
                  "the network namespace with it");
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
