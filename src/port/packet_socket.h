// Packet sockets (AF_PACKET) and raw IP sockets, as a raw port needs them: opened, bound to an
// interface, with a ring that the kernel fills. All of them need CAP_NET_RAW; an error says so.
// Plain functions, any thread; what they give is the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "host/fd.h"
#include "weft/raw.h"
#include "weft/result.h"

namespace weft::port {

struct RawInterface {
  std::uint32_t index = 0;
  std::string name;
  LinkAddress link_address{};
  std::uint32_t max_packet = 0;  ///< what it carries, at most kMostPacketBytes
  bool loopback = false;
};
/// Longer packets are not for raw queue pairs. A loopback interface would carry 64 KiB, and its
/// ring would have few slots.
inline constexpr std::uint32_t kMostPacketBytes = 9000, kMostLoopbackBytes = 4096;

/// The interface that has the address; loopback addresses are all the loopback interface's.
Result<RawInterface> find_raw_interface(const Gid& address);

/// Sends frames at the interface and receives none.
Result<host::Fd> open_frame_sender(const RawInterface& interface);
/// The same for frames that have an Offload in front; empty: this kernel has none.
host::Fd open_train_sender(const RawInterface& interface);
/// Sends whole IP packets, by the kernel's routes, at this interface.
Result<host::Fd> open_packet_sender(const RawInterface& interface, bool ipv4);
/// Not bound yet, so that nothing arrives before its ring is there.
Result<host::Fd> open_frame_receiver();
Result<void> bind_receiver(const host::Fd& socket, const RawInterface& interface);

/// Lets frames through to the socket, or none at all.
void let_through(const host::Fd& socket, bool all);
/// The interface takes what is sent to any address, until the socket closes.
void join_promiscuously(const host::Fd& socket, const RawInterface& interface);

}  // namespace weft::port
