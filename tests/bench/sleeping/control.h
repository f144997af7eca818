// A stream socket on which the two processes of an echo run tell each other what they need to
// start, and what they used at the end. Plain TCP, so that it works beside any device. The owner
// closes it; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weft::bench {

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Where the server is found.
struct Endpoint {
  std::string address = "127.0.0.1";
  std::uint16_t port = 4790;
};

Descriptor listen_at(const Endpoint& at);
Descriptor accept_from(const Descriptor& listener);
/// Tries again for some seconds while nobody listens there: the server may be starting.
Descriptor connect_to(const Endpoint& server);

class Control {
 public:
  explicit Control(Descriptor socket) : socket_(std::move(socket)) {}

  /// The whole of it, or the process ends with a message.
  void send(std::span<const std::byte> bytes) const;
  void receive(std::span<std::byte> bytes) const;

  template <class T>
  void tell(const T& value) const {
    send(std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  T hear() const {
    T value;
    receive(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <class T>
  T swap(const T& mine) const {
    tell(mine);
    return hear<T>();
  }

 private:
  const Descriptor socket_;
};

}  // namespace weft::bench
