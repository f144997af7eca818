// A host whose only stack is lwIP's, on a raw queue pair: it connects to a TCP server, sends so
// many bytes while it takes them back, and compares. Started by raw_hosts_test.cc, where lwIP is
// installed.
//
//   lwip_host DEVICE-ADDRESS OWN-ADDRESS SERVER-ADDRESS PORT BYTES
extern "C" {
#include <lwip/opt.h>  // some of its functions are C's, and it does not say so
}
#include <lwip/ethip6.h>
#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/sockets.h>
#include <lwip/tcpip.h>
#include <netif/ethernet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weft/verbs.h"

namespace {

using namespace std::chrono_literals;
namespace v = weft::verbs;

constexpr std::uint64_t kSlots = 256, kSlotBytes = 2048;
constexpr weft::LinkAddress kLinkAddress{0x02, 0, 0, 0, 0x57, 0x02};

void require(const weft::Result<void>& done) {
  if (done) return;
  std::fprintf(stderr, "lwip_host: %s\n", done.error().message.c_str());
  std::_Exit(65);
}

/// The queue pair as lwIP's network interface.
class Link {
 public:
  explicit Link(const char* address)
      : device_(v::Device::open({.ports = {{.address = address}}}).value()),
        pd_(device_.allocate_pd().value()),
        sends_(device_.create_cq(kSlots).value()),
        receives_(device_.create_cq(kSlots).value()),
        qp_(pd_.create_queue_pair(sends_, receives_,
                                  {.service = weft::Service::kRawDatagram,
                                   .limits = {.max_send_wr = kSlots, .max_recv_wr = kSlots},
                                   .raw_framing = weft::RawFraming::kEthernet})
                .value()),
        memory_(2 * kSlots * kSlotBytes),
        region_(pd_.register_memory(memory_, weft::Access::kLocalWrite).value()) {
    require(qp_.activate());
    for (std::uint64_t i = 0; i < kSlots; ++i) give(i);
  }

  /// Frames to this address, and to the groups in which neighbours look for it.
  void claim(const weft::LinkAddress& address) {
    require(qp_.claim({.link_destination = address}));
  }

  err_t send(const pbuf* frame) {
    const std::lock_guard guard(mutex_);
    if (sent_ - done_ == kSlots) {
      if (!sends_.wait(1s)) return ERR_TIMEOUT;
      ++done_;
    }
    while (done_ < sent_ && sends_.poll()) ++done_;
    const std::uint64_t at = (kSlots + sent_ % kSlots) * kSlotBytes;
    const auto n = pbuf_copy_partial(frame, memory_.data() + at, frame->tot_len, 0);
    if (!qp_.post_send(region_.sge(at, n))) return ERR_IF;
    ++sent_;
    return ERR_OK;
  }

  void pump(netif& interface) {
    const auto came = receives_.wait(10ms);
    if (!came || !came->ok()) return;
    const std::uint64_t at = came->wr_id * kSlotBytes;
    pbuf* frame = pbuf_alloc(PBUF_RAW, static_cast<u16_t>(came->byte_count), PBUF_RAM);
    if (frame != nullptr) {
      pbuf_take(frame, memory_.data() + at, static_cast<u16_t>(came->byte_count));
      if (interface.input(frame, &interface) != ERR_OK) pbuf_free(frame);
    }
    give(came->wr_id);
  }

 private:
  void give(std::uint64_t slot) {
    require(qp_.post_receive(region_.sge(slot * kSlotBytes, kSlotBytes), slot));
  }

  v::Device device_;
  v::ProtectionDomain pd_;
  v::CompletionQueue sends_, receives_;
  v::QueuePair qp_;
  std::vector<std::byte> memory_;
  v::MemoryRegion region_;
  std::mutex mutex_;
  std::uint64_t sent_ = 0, done_ = 0;
};

err_t set_up(netif* interface) {
  interface->name[0] = 'w', interface->name[1] = 'f';
  interface->mtu = 1500;
  interface->hwaddr_len = 6;
  std::copy(kLinkAddress.begin(), kLinkAddress.end(), interface->hwaddr);
  interface->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET |
                     NETIF_FLAG_MLD6 | NETIF_FLAG_LINK_UP;
  interface->output_ip6 = ethip6_output;
  interface->linkoutput = [](netif* on, pbuf* frame) {
    return static_cast<Link*>(on->state)->send(frame);
  };
  return ERR_OK;
}

void add_interface(netif& interface, Link& link, const char* address) {
  ip6_addr_t own{};
  ip6addr_aton(address, &own);
  const auto* raw = reinterpret_cast<const std::uint8_t*>(own.addr);
  link.claim(kLinkAddress);
  link.claim({0x33, 0x33, 0xFF, raw[13], raw[14], raw[15]});
  link.claim({0x33, 0x33, 0, 0, 0, 1});
  LOCK_TCPIP_CORE();
  netif_add_noaddr(&interface, &link, set_up, tcpip_input);
  netif_create_ip6_linklocal_address(&interface, 1);
  netif_ip6_addr_set(&interface, 1, &own);
  netif_ip6_addr_set_state(&interface, 1, IP6_ADDR_PREFERRED);
  netif_set_default(&interface);
  netif_set_up(&interface);
  UNLOCK_TCPIP_CORE();
}

char byte_at(std::size_t i) { return static_cast<char>(i * 2654435761u >> 24); }

/// 0 when all bytes came back as they were.
int exchange(const char* server, std::uint16_t port, std::size_t bytes) {
  const int socket = lwip_socket(AF_INET6, SOCK_STREAM, 0);
  const timeval patience{30, 0};
  lwip_setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  lwip_setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = lwip_htons(port);
  ip6addr_aton(server, reinterpret_cast<ip6_addr_t*>(&to.sin6_addr));
  if (lwip_connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return 2;
  std::atomic<bool> sent_all{false};
  std::thread sender([&] {
    std::vector<char> piece(8192);
    for (std::size_t at = 0; at < bytes;) {
      const std::size_t n = std::min(piece.size(), bytes - at);
      for (std::size_t i = 0; i < n; ++i) piece[i] = byte_at(at + i);
      const ssize_t done = lwip_send(socket, piece.data(), n, 0);
      if (done <= 0) return;
      at += static_cast<std::size_t>(done);
    }
    sent_all = true;
  });
  int result = 0;
  std::array<char, 8192> got;
  for (std::size_t at = 0; at < bytes && result == 0;) {
    const ssize_t n = lwip_recv(socket, got.data(), got.size(), 0);
    if (n <= 0) result = 3;
    for (ssize_t i = 0; i < n; ++i) {
      if (got[static_cast<std::size_t>(i)] != byte_at(at++)) result = 4;
    }
  }
  if (result != 0) std::_Exit(result);  // the sender may wait for ever
  sender.join();
  lwip_close(socket);
  return sent_all ? 0 : 5;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 64;
  Link link(argv[1]);
  tcpip_init(nullptr, nullptr);
  static netif interface;
  add_interface(interface, link, argv[2]);
  std::atomic<bool> ends{false};
  std::thread pump([&] {
    while (!ends) link.pump(interface);
  });
  const int result = exchange(argv[3], static_cast<std::uint16_t>(std::atoi(argv[4])),
                              static_cast<std::size_t>(std::atol(argv[5])));
  std::printf("lwip_host: %d\n", result);
  std::fflush(stdout);
  ends = true;
  pump.join();
  std::_Exit(result);  // lwIP's thread has no end
}
