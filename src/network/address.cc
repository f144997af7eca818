#include "network/address.h"

#include <arpa/inet.h>

#include <array>
#include <cstdint>

namespace weft::network {

Result<Gid> parse_address(std::string_view text) {
  // inet_pton stops at a zero byte, so text with one inside would be taken for its beginning.
  if (text.find('\0') == std::string_view::npos) {
    const std::string terminated(text);
    std::array<std::uint8_t, 4> v4;
    if (inet_pton(AF_INET, terminated.c_str(), v4.data()) == 1) {
      return Gid::ipv4(v4[0], v4[1], v4[2], v4[3]);
    }
    Gid gid;
    if (inet_pton(AF_INET6, terminated.c_str(), gid.raw.data()) == 1) return gid;
  }
  return fail(Errc::kInvalidArgument,
              "address: \"" + std::string(text) +
                  "\" is neither an IPv4 nor an IPv6 address; write one like 127.0.0.1 or fd00::1");
}

std::string to_string(const Gid& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.is_ipv4()) {
    inet_ntop(AF_INET, &address.raw[12], text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, address.raw.data(), text.data(), text.size());
  }
  return text.data();
}

}  // namespace weft::network
