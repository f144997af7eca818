#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "base/random.h"
#include "host/abstract_name.h"
#include "host/local_socket.h"
#include "host/own_names.h"
#include "host/same_user.h"
#include "host/system_error.h"

// How a local socket gets a name and finds one: beside names that other users hold.
namespace weft::host {
namespace {

std::string describe(std::string_view step, std::string_view name) {
  return std::string(step) + " local socket \"" + std::string(name) + "\"";
}

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
    if (!we_hold(name, held)) return LocalSocket(std::move(*fd), true);
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
  // What is remembered may be older than the one that listens.
  for (const bool again : {false, true}) {
    for (const std::string& held : again ? own_names(name) : own_names_lately(name)) {
      if (!is_or_beside(held, name)) continue;
      auto other = call_at(held);
      if (other && other->answer == Answer::kOurs) return LocalSocket(std::move(other->fd));
      if (other && other->answer == Answer::kFull) full = true;
    }
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

}  // namespace weft::host
