// Any bytes as what a UDP socket delivers. The input begins with a byte of choices (bit 0: our
// address is IPv6; bit 1: the kernel joined two frames), the sender's family (IPv4 when the next
// byte is even), its port and 16 bytes of address; the rest is the datagram. Nothing is read
// outside; what is accepted is inside the buffer and survives the check of a whole datagram built
// around it; a stored right ICRC is accepted and one changed bit refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/assert.h"
#include "network/roce.h"
#include "port/udp_inbox.h"
#include "wire/datagram.h"
#include "wire/icrc_identification.h"

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

/// The only frame of a datagram, if it is one.
const port::Incoming* take(port::UdpInbox& inbox, port::Arrival arrival,
                           std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, inbox.buffer().begin());
  arrival.bytes = bytes.size();
  inbox.take(arrival);
  return inbox.next();
}

/// The IPv4 identification with which the stored ICRC is right; IPv6 has only 0.
std::optional<std::uint16_t> identification_of(const network::Flow& flow,
                                               std::span<const std::byte> bytes) {
  const auto packet = bytes.first(bytes.size() - wire::kIcrcSize);
  const auto stored = bytes.last<wire::kIcrcSize>();
  const std::uint32_t left =
      network::start_icrc(flow, bytes.size()).add_first(packet).remainder(stored);
  if (left == 0) return std::uint16_t{0};
  if (!flow.is_ipv4()) return std::nullopt;
  return wire::recover_identification(left, packet.size(), 0);
}

void check_accepted(port::UdpInbox& inbox, const port::Incoming& incoming,
                    std::span<const std::byte> bytes) {
  WEFT_ASSERT(incoming.packet.data() == inbox.buffer().data());
  WEFT_ASSERT(incoming.packet.size() + wire::kIcrcSize == bytes.size());
  const auto identification = identification_of(incoming.flow, bytes);
  WEFT_ASSERT(identification.has_value());
  if (*identification != 0) return;
  std::vector<std::byte> whole(network::kMaxNetworkHeaderBytes);
  whole.resize(network::emit_headers(incoming.flow, bytes.size(), whole));
  whole.insert(whole.end(), bytes.begin(), bytes.end());
  WEFT_ASSERT(wire::check_datagram(whole).has_value());
}

void check_joined(port::UdpInbox& inbox, port::Arrival arrival, std::span<const std::byte> bytes) {
  arrival.segment_bytes = (bytes.size() + 1) / 2;
  const port::Incoming* incoming = take(inbox, arrival, bytes);
  for (bool first = true; first || inbox.has_frames(); first = false) {
    if (!first) incoming = inbox.next();
    if (incoming == nullptr) continue;
    const std::byte* const begin = inbox.buffer().data();
    WEFT_ASSERT(incoming->packet.data() >= begin);
    WEFT_ASSERT(incoming->packet.data() + incoming->packet.size() <= begin + bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kPrefixBytes) return 0;
  const weft::Gid local = own_address((data[0] & 1) != 0);
  const auto rest = std::as_bytes(std::span(data, size)).subspan(kPrefixBytes);
  std::vector<std::byte> bytes(rest.begin(), rest.end());
  port::UdpInbox first(local), second(local);
  if (bytes.size() > first.buffer().size()) return 0;
  port::Arrival arrival;
  arrival.from = sender(data);
  if ((data[0] & 2) != 0) {
    check_joined(first, arrival, bytes);
    return 0;
  }
  const port::Incoming* const incoming = take(first, arrival, bytes);
  if (incoming != nullptr) check_accepted(first, *incoming, bytes);
  if (incoming == nullptr && first.dropped() != port::Drop::kBadChecksum) return 0;

  // It has a BTH and a sender of our family, so the right ICRC is all that it may lack.
  network::Flow flow;
  const auto from = port::to_endpoint(arrival.from);
  WEFT_ASSERT(from.has_value());
  flow.source = from->address;
  flow.source_port = from->port;
  flow.destination = local;
  const auto packet = std::span(bytes).first(bytes.size() - wire::kIcrcSize);
  network::start_icrc(flow, bytes.size())
      .add_first(packet)
      .store(std::span(bytes).last<wire::kIcrcSize>());
  const port::Incoming* const repaired = take(second, arrival, bytes);
  WEFT_ASSERT(repaired != nullptr);
  check_accepted(second, *repaired, bytes);
  bytes[packet.size() - 1] ^= std::byte{1};
  if (take(second, arrival, bytes) == nullptr) return 0;
  // Only if it is what the sender would have sent as a later frame of a batch.
  const auto identification = identification_of(flow, bytes);
  WEFT_ASSERT(identification && *identification < port::IdentificationBook::kLongestBatch);
  return 0;
}
