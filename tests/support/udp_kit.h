// What tests of the network need: addresses of their own, a device at one of them, and a way to
// tell a test's other process something before RDMA can begin.
#pragma once

#include <fmt/format.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <cstddef>
#include <string>

namespace weft::test {

/// An address of this test's own, the same in its children: tests run side by side, and RoCE has
/// one UDP port per address.
inline const pid_t test_process = getpid();
inline std::string loopback(int last) {
  return fmt::format("127.{}.{}.{}", 1 + test_process / 256 % 250, test_process % 256, last);
}

/// A device that speaks frames, at that address alone.
inline verbs::Device open_framed(const std::string& address) {
  return verbs::Device::open({.path = verbs::PathPolicy::kFramed,
                              .ports = {{.address = address, .on_network = true}}})
      .value();
}

template <class T>
bool put(int fd, const T& value) {
  return write(fd, &value, sizeof value) == sizeof value;
}
template <class T>
bool get(int fd, T* value) {
  return read(fd, value, sizeof *value) == static_cast<ssize_t>(sizeof *value);
}

}  // namespace weft::test
