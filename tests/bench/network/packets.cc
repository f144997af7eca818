// Packets of 64 bytes between two hosts that a veth pair joins, as many as there can be: a raw
// queue pair, and beside it the shortest loop over a packet socket. One way, and both ways at once.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "places.h"
#include "weft_node.h"

namespace weft::bench {
namespace {

constexpr std::size_t kPacketBytes = 64;
constexpr std::size_t kTogether = 64;
constexpr std::size_t kBuffers = 4096;

/// An Ethernet frame of this size with a UDP packet, for a host that is not the other's kernel.
std::array<std::byte, kPacketBytes> a_frame() {
  std::array<std::byte, kPacketBytes> frame{};
  const auto set = [&](std::size_t at, std::initializer_list<unsigned> values) {
    for (const unsigned value : values) frame[at++] = static_cast<std::byte>(value);
  };
  set(0, {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD, 0x60, 0, 0, 0, 0, 10, 17, 64});
  set(22, {0xFD}), set(37, {1}), set(38, {0xFD}), set(53, {2});
  set(54, {0, 7, 0, 9, 0, 10});
  // The sum of the addresses, the ports, both lengths and the protocol, complemented.
  const unsigned sum = 0xFD00 + 1 + 0xFD00 + 2 + 7 + 9 + 10 + 10 + 17;
  const unsigned folded = (sum & 0xFFFF) + (sum >> 16);
  set(60, {~folded >> 8 & 0xFF, ~folded & 0xFF});
  return frame;
}

class PlainPackets {
 public:
  PlainPackets() : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    sockaddr_ll name{};
    name.sll_family = AF_PACKET;
    name.sll_protocol = htons(ETH_P_ALL);
    name.sll_ifindex = static_cast<int>(if_nametoindex("cable0"));
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
      give_up("packet socket:", std::strerror(errno));
    }
    set(SOL_PACKET, PACKET_QDISC_BYPASS, 1);
    set(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    set(SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20);
    for (std::size_t i = 0; i < kTogether; ++i) {
      out_[i].msg_hdr.msg_iov = &frame_piece_;
      pieces_[i] = {buffers_[i].data(), buffers_[i].size()};
      in_[i].msg_hdr.msg_iov = &pieces_[i];
      out_[i].msg_hdr.msg_iovlen = in_[i].msg_hdr.msg_iovlen = 1;
    }
  }
  ~PlainPackets() { close(fd_); }
  PlainPackets(const PlainPackets&) = delete;
  PlainPackets& operator=(const PlainPackets&) = delete;

  void send() { sendmmsg(fd_, out_.data(), kTogether, MSG_DONTWAIT); }
  std::uint64_t receive() {
    const int n = recvmmsg(fd_, in_.data(), kTogether, MSG_DONTWAIT, nullptr);
    return n > 0 ? static_cast<std::uint64_t>(n) : 0;
  }

 private:
  void set(int level, int name, int value) const {
    setsockopt(fd_, level, name, &value, sizeof value);
  }

  const int fd_;
  std::array<std::byte, kPacketBytes> frame_ = a_frame();
  iovec frame_piece_{frame_.data(), frame_.size()};
  std::array<std::array<std::byte, 128>, kTogether> buffers_;
  std::array<iovec, kTogether> pieces_;
  std::array<mmsghdr, kTogether> out_{}, in_{};
};

class WeftPackets {
 public:
  explicit WeftPackets(const Lane& lane)
      : node_(verbs::DeviceOptions{.ports = {{.address = places().of(lane.side()).address}}}),
        memory_(node_, Place::kHeap, (kBuffers + 1) * 128),
        qp_(must(node_.pd.create_queue_pair(
                     node_.send_cq, node_.receive_cq,
                     {.service = Service::kRawDatagram,
                      .limits = {.max_send_wr = 2 * kTogether, .max_recv_wr = kBuffers},
                      .raw_framing = RawFraming::kEthernet}),
                 "a raw queue pair:")) {
    must(qp_.activate(), "activate:");
    must(qp_.claim({}), "claim:");
    for (std::uint64_t i = 0; i < kBuffers; ++i) give(i);
    const auto frame = a_frame();
    std::memcpy(memory_.data() + kBuffers * 128, frame.data(), frame.size());
    from_ = memory_.region().sge(kBuffers * 128, kPacketBytes);
    for (SendRequest& each : batch_) {
      each.sges = {&from_, 1};
      each.flags = SendFlags::kNone;
    }
    batch_.back().flags = SendFlags::kSignaled;
  }

  void send() {
    if (under_way_ == 2) {
      if (node_.send_cq.poll(std::span(done_).first(1)) == 0) return;
      --under_way_;
    }
    std::size_t posted = 0;
    must(qp_.post_send(batch_, &posted), "post:");
    ++under_way_;
  }
  std::uint64_t receive() {
    const std::size_t n = node_.receive_cq.poll(done_);
    for (std::size_t i = 0; i < n; ++i) give(done_[i].wr_id);
    return n;
  }

 private:
  void give(std::uint64_t slot) {
    must(qp_.post_receive(memory_.region().sge(slot * 128, 128), slot), "post a receive:");
  }

  Node node_;
  Memory memory_;
  verbs::QueuePair qp_;
  Sge from_;
  std::array<SendRequest, kTogether> batch_{};
  std::array<Completion, 2 * kTogether> done_;
  unsigned under_way_ = 0;
};

/// Packets that come to the first side in a second, in millions.
template <class Packets>
double rate(const Lane& lane, Packets& packets, bool both_ways) {
  std::atomic<std::uint64_t>& over = lane.shared().credit.value;
  if (!lane.first()) {
    while (over.load(std::memory_order_relaxed) == 0) {
      packets.send();
      if (both_ways) packets.receive();
    }
    return 0;
  }
  // No laps: what has gathered in a ring comes at once, and would be taken for a rate.
  constexpr double kSeconds = 0.3;
  std::uint64_t came = 0;
  const auto begun = Clock::now();
  while (seconds_since(begun) < kSeconds) {
    if (both_ways) packets.send();
    came += packets.receive();
  }
  over.store(1, std::memory_order_relaxed);
  return static_cast<double>(came) / seconds_since(begun) / 1e6;
}

template <class Packets>
void measure(const Lane& lane, Packets& packets, const char* one_way, const char* both_ways) {
  for (const bool both : {false, true}) {
    lane.meet();
    lane.sample(both ? both_ways : one_way, kPacketBytes, "M/s",
                [&] { return rate(lane, packets, both); });
    lane.meet();
    lane.shared().credit.value.store(0);
  }
}

}  // namespace

void measure_plain_packets(const Lane& lane) {
  enter_place(lane);
  PlainPackets packets;
  measure(lane, packets, "limit/packets", "limit/packets_both_ways");
}

void measure_weft_packets(const Lane& lane) {
  enter_place(lane);
  WeftPackets packets(lane);
  measure(lane, packets, "weft/packets", "weft/packets_both_ways");
}

}  // namespace weft::bench
