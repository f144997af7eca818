// Any bytes as what a UDP socket delivers. The input begins with a byte of choices (bit 0: our
// address is IPv6; bit 1: the kernel cut the datagram), the sender's family (IPv4 when the next
// byte is even), its port and 16 bytes of address; the rest is the datagram. Nothing is read
// outside; what is accepted is inside the input and survives the check of a whole datagram built
// around it; a stored right ICRC is accepted and one changed bit refused.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/assert.h"
#include "network/roce.h"
#include "port/udp_datagram.h"
#include "wire/datagram.h"

namespace network = weft::network;
namespace port = weft::port;
namespace wire = weft::wire;

namespace {

constexpr std::size_t kPrefixBytes = 20;

weft::Gid own_address(bool ipv6) {
  if (!ipv6) return weft::Gid::ipv4(10, 0, 0, 2);
  weft::Gid gid;
  gid.raw[0] = 0xFD;
  gid.raw[15] = 2;
  return gid;
}

port::SocketAddress sender(const std::uint8_t* prefix) {
  port::SocketAddress out;
  std::memset(&out, 0, sizeof out);
  if (prefix[1] % 2 == 0) {
    out.v4.sin_family = AF_INET;
    std::memcpy(&out.v4.sin_port, prefix + 2, 2);
    std::memcpy(&out.v4.sin_addr, prefix + 4, 4);
    out.size = sizeof out.v4;
  } else {
    out.v6.sin6_family = AF_INET6;
    std::memcpy(&out.v6.sin6_port, prefix + 2, 2);
    std::memcpy(&out.v6.sin6_addr, prefix + 4, 16);
    out.size = sizeof out.v6;
  }
  return out;
}

void check_accepted(const port::Incoming& incoming, std::span<const std::byte> bytes) {
  WEFT_ASSERT(incoming.packet.data() == bytes.data());
  WEFT_ASSERT(incoming.packet.size() + wire::kIcrcSize == bytes.size());
  if (bytes.size() > 60'000) return;  // no datagram is as long
  std::vector<std::byte> whole(network::kMaxNetworkHeaderBytes);
  whole.resize(network::emit_headers(incoming.flow, bytes.size(), whole));
  whole.insert(whole.end(), bytes.begin(), bytes.end());
  WEFT_ASSERT(wire::check_datagram(whole).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kPrefixBytes) return 0;
  const weft::Gid local = own_address((data[0] & 1) != 0);
  const auto rest = std::as_bytes(std::span(data, size)).subspan(kPrefixBytes);
  std::vector<std::byte> bytes(rest.begin(), rest.end());
  port::Arrival arrival;
  arrival.from = sender(data);
  arrival.bytes = bytes;
  arrival.truncated = (data[0] & 2) != 0;

  const auto incoming = port::to_incoming(arrival, local);
  if (incoming) check_accepted(*incoming, bytes);
  if (!incoming && incoming.error() == port::Drop::kMalformed) return 0;

  // It has a BTH and a sender of our family, so the right ICRC is all that it may lack.
  network::Flow flow;
  const auto from = port::to_endpoint(arrival.from);
  WEFT_ASSERT(from.has_value() && !arrival.truncated);
  flow.source = from->address;
  flow.source_port = from->port;
  flow.destination = local;
  const auto packet = std::span(bytes).first(bytes.size() - wire::kIcrcSize);
  network::start_icrc(flow, bytes.size())
      .add_first(packet)
      .store(std::span(bytes).last<wire::kIcrcSize>());
  const auto repaired = port::to_incoming(arrival, local);
  WEFT_ASSERT(repaired.has_value());
  check_accepted(*repaired, bytes);
  bytes[packet.size() - 1] ^= std::byte{1};
  WEFT_ASSERT(!port::to_incoming(arrival, local).has_value());
  return 0;
}
