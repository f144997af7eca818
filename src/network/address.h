// Addresses as people write them. A Gid is an IPv6 address, or an IPv4 one in its mapped form;
// these two functions are the only place that turns one into text and back. Stateless, any thread.
#pragma once

#include <string>
#include <string_view>

#include "weft/result.h"
#include "weft/types.h"

namespace weft::network {

/// "127.0.0.1", "::1", "fd00::1"; no host names, no ports, no zones. "::ffff:127.0.0.1" is
/// 127.0.0.1.
Result<Gid> parse_address(std::string_view text);

/// The shortest usual form, which parse_address() takes back.
std::string to_string(const Gid& address);

}  // namespace weft::network
