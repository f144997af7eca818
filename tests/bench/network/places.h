// Where the two processes of a network measurement live: an address each, and a network namespace
// if it is not the one that the program was started in: a given one, or one of their own, which a
// veth pair joins to the other's. Set once, before the processes are made; read by both.
#pragma once

#include <string>

#include "lane.h"

namespace weft::bench {

struct Station {
  std::string address = "127.0.0.1";
  std::string network_namespace;  ///< a name of `ip netns`; empty: stay
};

struct Places {
  Station first{"127.0.0.11", ""}, second{"127.0.0.12", ""};
  std::uint32_t stream_bytes = 1 << 20;
  std::string faults;  ///< what weft's arriving frames suffer, as for `weft run --faults`
  bool veth = false;   ///< two hosts and a cable, made for this measurement

  bool apart() const { return veth || !first.network_namespace.empty(); }
  const Station& of(Side side) const { return side == Side::kFirst ? first : second; }
};
Places& places();

/// Before the processes are made: from now on they live in namespaces of their own, with addresses
/// of their own. Needs no privilege where users may have namespaces. False: not here, errno says
/// why.
bool use_veth();
/// Moves the calling process to where its side lives.
void enter_place(const Lane& lane);
inline Side other(Side side) { return side == Side::kFirst ? Side::kSecond : Side::kFirst; }

/// Plain sockets: what the kernel can do at best.
void measure_raw_latency(const Lane& lane);
/// The same with the sockets and calls that frames need.
void measure_raw_frame_latency(const Lane& lane);
void measure_raw_stream(const Lane& lane);

/// weft, always as frames.
void measure_framed_latency(const Lane& lane);
void measure_framed_stream(const Lane& lane);
void measure_framed_sends(const Lane& lane);
void measure_framed_rate(const Lane& lane);
/// Raw queue pairs, and packet sockets beside them: over a veth pair only.
void measure_plain_packets(const Lane& lane);
void measure_weft_packets(const Lane& lane);
/// How evenly two streams share a link: the slower one's part of the faster one's.
void measure_framed_share(const Lane& lane);

}  // namespace weft::bench
