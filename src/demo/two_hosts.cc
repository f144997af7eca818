#include "demo/two_hosts.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace weft::demo {
namespace {

constexpr std::chrono::seconds kHostPatience{60};
constexpr int kHostPatienceMs = 60'000;

[[noreturn]] void give_up_with(const std::string& what) {
  give_up(fmt::format("{}: {}", what, std::strerror(errno)));
}

PairEnd end_of(Side side, int socket) { return {side, socket, dup(socket)}; }

}  // namespace

PairEnd await_other_host(std::uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1, off = 0;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
      listen(listener, 1) != 0) {
    give_up_with(fmt::format("port {}", port));
  }
  pollfd waiting{listener, POLLIN, 0};
  if (poll(&waiting, 1, kHostPatienceMs) != 1) give_up("the other host does not come");
  const int socket = accept(listener, nullptr, nullptr);
  if (socket < 0) give_up_with("accept");
  close(listener);
  return end_of(Side::kHere, socket);
}

PairEnd meet_other_host(const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) give_up(fmt::format("{}: {}", host, gai_strerror(error)));
  const auto deadline = std::chrono::steady_clock::now() + kHostPatience;
  for (;;) {
    const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket >= 0 && connect(socket, found->ai_addr, found->ai_addrlen) == 0) {
      freeaddrinfo(found);
      return end_of(Side::kThere, socket);
    }
    if (std::chrono::steady_clock::now() > deadline) give_up_with(host);
    if (socket >= 0) close(socket);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void Reports::send(const Report& report) const {
  if (write(end_.out, &report, sizeof report) != sizeof report) {
    give_up("the other host is gone");
  }
}

bool Reports::read_one(Report& report, bool wait) {
  while (filled_ < sizeof partial_) {
    pollfd waiting{end_.in, POLLIN, 0};
    const int ready = poll(&waiting, 1, wait ? kHostPatienceMs : 0);
    if (ready == 0 && !wait) return false;
    const ssize_t got = ready == 1 ? read(end_.in, reinterpret_cast<char*>(&partial_) + filled_,
                                          sizeof partial_ - filled_)
                                   : -1;
    if (got <= 0) give_up("the other host is gone");
    filled_ += static_cast<std::size_t>(got);
  }
  filled_ = 0;
  report = partial_;
  return true;
}

bool Reports::take(Report& newest) {
  bool any = false;
  while (read_one(newest, false)) any = true;
  return any;
}

Report Reports::next() {
  Report report;
  read_one(report, true);
  return report;
}

}  // namespace weft::demo
