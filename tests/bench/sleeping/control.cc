#include "control.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include "echo_run.h"

namespace weft::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kConnectTries = 500;
constexpr auto kBetweenTries = 20ms;
constexpr int kBacklog = 1024;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error = getaddrinfo(endpoint.address.c_str(), port.c_str(), &hints, &found);
  if (error != 0) give_up(endpoint.address + ": " + gai_strerror(error));
  return {found, &freeaddrinfo};
}

int socket_for(const addrinfo& address) {
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0);
  if (fd < 0) give_up_errno("socket");
  return fd;
}

/// A message leaves when it is written: it never waits for another to share a segment with.
void set_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor listen_at(const Endpoint& at) {
  const Addresses address = resolve(at);
  Descriptor listener(socket_for(*address));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.get(), address->ai_addr, address->ai_addrlen) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    give_up_errno("listening at " + at.address + ":" + std::to_string(at.port));
  }
  return listener;
}

Descriptor accept_from(const Descriptor& listener) {
  const int fd = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) give_up_errno("accept");
  set_no_delay(fd);
  return Descriptor(fd);
}

Descriptor connect_to(const Endpoint& server) {
  const Addresses address = resolve(server);
  for (int tries = 1;; ++tries) {
    Descriptor socket(socket_for(*address));
    if (connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0) {
      set_no_delay(socket.get());
      return socket;
    }
    if (errno != ECONNREFUSED || tries == kConnectTries) {
      give_up_errno("connecting to " + server.address + ":" + std::to_string(server.port));
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

void Control::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) give_up_errno("the other process is gone");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void Control::receive(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (n <= 0) give_up("the other process is gone");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace weft::bench
