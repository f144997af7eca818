// Two hosts with a cable between them, made of network namespaces: what only a network shows.
// Multicasts reach the members of the other host; an address or an interface that goes away and
// comes back is used again; more connections cost the kernel nothing (A19, B1.3, B2.3).
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>
#include <weft/verbs.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "network/address.h"
#include "support/two_hosts.h"
#include "support/udp_kit.h"

#include "queue/path.h"
#include "verbs/internals.h"

namespace {

using weft::test::get;
using weft::test::put;

namespace v = weft::verbs;
using namespace std::chrono_literals;
using weft::Access;
using weft::test::ip;
using weft::test::kCable;
using weft::test::kFirstHost;
using weft::test::kSecondHost;

constexpr auto kHostPatience = 20s;
constexpr weft::QKey kKey(0x1234);
constexpr std::uint32_t kGrhBytes = 40, kDatagramBytes = 1000;

void expect_good(const std::optional<int>& result) {
  if (!result) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(*result, 0);
}

struct Host {
  explicit Host(const char* address)
      : device(v::Device::open({.ports = {{.address = address, .on_network = true}}}).value()),
        pd(device.allocate_pd().value()),
        cq(device.create_cq(64).value()),
        memory(1 << 16),
        region(pd.register_memory(memory, Access::kLocalWrite | Access::kRemoteWrite).value()) {}

  weft::Completion completion() {
    auto c = cq.wait(kHostPatience);
    if (!c) return {.status = weft::CompletionStatus::kBadResponse};
    return *c;
  }

  v::Device device;
  v::ProtectionDomain pd;
  v::CompletionQueue cq;
  std::vector<std::uint64_t> memory;
  v::MemoryRegion region;
};

// ---- multicast --------------------------------------------------------------------------------

/// Two members and one that is in another group.
int hear_group(int fd, const char* address, const char* group_text) {
  Host host(address);
  const weft::Gid group = weft::network::parse_address(group_text).value();
  std::vector<v::QueuePair> members;
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto qp = host.pd.create_queue_pair(host.cq, host.cq,
                                        {.service = weft::Service::kUnreliableDatagram});
    if (!qp || !qp->activate(kKey)) return 1;
    if (!qp->post_receive(host.region.sge(i * 4096, 4096), i)) return 2;
    members.push_back(std::move(*qp));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (const auto ok = members[i].attach_multicast(group); !ok) {
      std::printf("%s\n", ok.error().message.c_str());
      return 3;
    }
  }
  if (!put(fd, 'r')) return 4;
  std::uint64_t heard = 0;
  for (int i = 0; i < 2; ++i) {
    const weft::Completion c = host.completion();
    if (!c.ok() || !c.has_grh || c.byte_count != kGrhBytes + kDatagramBytes) return 5;
    const auto* bytes = reinterpret_cast<const unsigned char*>(host.memory.data());
    if (bytes[c.wr_id * 4096 + kGrhBytes] != 0x5A) return 6;
    heard |= 1u << c.wr_id;
  }
  if (heard != 3) return 7;
  // Who has left hears no more.
  if (!members[0].detach_multicast(group) || !members[1].detach_multicast(group)) return 8;
  if (members[1].detach_multicast(group)) return 9;
  if (!members[0].post_receive(host.region.sge(0, 4096), 0) || !put(fd, 'l')) return 10;
  char sent = 0;
  if (!get(fd, &sent)) return 11;
  return host.cq.wait(100ms) ? 12 : 0;
}

int call_group(int fd, const char* address, const char* group_text) {
  Host host(address);
  auto qp =
      host.pd.create_queue_pair(host.cq, host.cq, {.service = weft::Service::kUnreliableDatagram});
  if (!qp || !qp->activate(kKey)) return 1;
  std::memset(host.memory.data(), 0x5A, kDatagramBytes);
  const weft::Sge from = host.region.sge(0, kDatagramBytes);
  weft::SendRequest request;
  request.sges = {&from, 1};
  request.flags = weft::SendFlags::kSignaled;
  request.destination.gid = weft::network::parse_address(group_text).value();
  request.destination.hop_limit = 4;
  request.destination_qpn = weft::kMulticastQpn;
  request.destination_qkey = kKey;
  char said = 0;
  if (!get(fd, &said)) return 2;
  // Again and again, since a datagram may be lost while a link comes up, until it was heard.
  pollfd other{fd, POLLIN, 0};
  const auto begun = std::chrono::steady_clock::now();
  do {
    if (std::chrono::steady_clock::now() > begun + kHostPatience) return 3;
    if (!qp->post_send(request) || !host.completion().ok()) return 4;
  } while (poll(&other, 1, 20) == 0);
  if (!get(fd, &said) || !qp->post_send(request) || !host.completion().ok()) return 5;
  return put(fd, 's') ? 0 : 6;
}

TEST(UdpHosts, a_multicast_reaches_each_member_on_the_other_host) {
  // B2.3
  expect_good(
      weft::test::on_two_hosts([](int fd) { return call_group(fd, kFirstHost.v4, "239.1.2.3"); },
                               [](int fd) { return hear_group(fd, kSecondHost.v4, "239.1.2.3"); }));
}

TEST(UdpHosts, a_multicast_over_ipv6_does_too_whatever_its_scope) {
  for (const char* group : {"ff0e::1234", "ff02::1234"}) {
    SCOPED_TRACE(group);
    expect_good(
        weft::test::on_two_hosts([&](int fd) { return call_group(fd, kFirstHost.v6, group); },
                                 [&](int fd) { return hear_group(fd, kSecondHost.v6, group); }));
  }
}

TEST(UdpHosts, a_group_of_the_other_family_is_refused_by_name) {
  expect_good(weft::test::on_two_hosts(
      [](int) {
        Host host(kFirstHost.v4);
        auto qp = host.pd.create_queue_pair(host.cq, host.cq,
                                            {.service = weft::Service::kUnreliableDatagram});
        if (!qp || !qp->activate(kKey)) return 1;
        const auto refused =
            qp->attach_multicast(weft::network::parse_address("ff0e::1234").value());
        if (refused) return 2;
        return refused.error().message.find("ff0e::1234") != std::string::npos ? 0 : 3;
      },
      weft::test::stay));
}

// ---- what goes away and comes back ------------------------------------------------------------

struct HostIntroduction {
  v::Endpoint endpoint;
  weft::RemoteAddress memory;
};

/// Gives its memory away, and stays until the other one has done with it.
int be_written_to(int fd, const char* address) {
  Host host(address);
  auto qp = host.pd.create_queue_pair(host.cq, host.cq);
  HostIntroduction peer;
  if (!qp || !put(fd, HostIntroduction{qp->endpoint(), host.region.remote()}) || !get(fd, &peer)) {
    return 1;
  }
  weft::QueuePairAttributes attributes;
  attributes.access = Access::kRemoteWrite;
  if (!qp->connect(peer.endpoint, attributes) || !put(fd, 'r')) return 2;
  char over = 0;
  return get(fd, &over) ? 0 : 3;
}

using Peer = weft::queue::PeerView::Peer;
/// What an explanation of its silence would say.
Peer seen_from(v::QueuePair& qp) {
  weft::queue::QueuePair& core = *v::Internals::of(qp).core;
  return core.path->look_at_peer(core, weft::RemoteKey()).peer;
}

/// Writes; then again, while what `away` takes is missing until `back` gives it; meanwhile `reason`
/// is known.
int write_through(int fd, const char* address, const std::string& away, const std::string& back,
                  Peer reason) {
  Host host(address);
  auto qp = host.pd.create_queue_pair(host.cq, host.cq);
  HostIntroduction peer;
  if (!qp || !put(fd, HostIntroduction{qp->endpoint(), host.region.remote()}) || !get(fd, &peer)) {
    return 1;
  }
  weft::QueuePairAttributes attributes;
  attributes.timeout = 18;  // about a second
  char ready = 0;
  if (!qp->connect(peer.endpoint, attributes) || !get(fd, &ready)) return 2;
  const auto write_once = [&] {
    return qp->post_write(host.region.sge(0, kDatagramBytes), peer.memory).has_value();
  };
  if (!write_once() || !host.completion().ok()) return 3;
  if (!ip(away) || !write_once()) return 4;
  if (host.cq.wait(200ms)) return 5;  // nothing can have gone through
  if (seen_from(*qp) != reason) return 9;
  if (!ip(back) || !host.completion().ok()) return 6;
  // The kernel may take a moment to say that a cable works again.
  const auto begun = std::chrono::steady_clock::now();
  while (seen_from(*qp) != Peer::kUnknown) {
    if (std::chrono::steady_clock::now() > begun + kHostPatience) return 10;
    std::this_thread::sleep_for(10ms);
  }
  if (!write_once() || !host.completion().ok()) return 7;
  return put(fd, 'o') ? 0 : 8;
}

void expect_use_again(const std::string& away, const std::string& back, Peer reason) {
  expect_good(weft::test::on_two_hosts(
      [&](int fd) { return write_through(fd, kFirstHost.v4, away, back, reason); },
      [](int fd) { return be_written_to(fd, kSecondHost.v4); }));
}

TEST(UdpHosts, an_address_that_goes_away_and_comes_back_is_used_again) {
  // B1.3
  const std::string address = std::string(kFirstHost.v4) + "/24 dev " + kCable;
  expect_use_again("addr del " + address, "addr add " + address, Peer::kAddressGone);
}

TEST(UdpHosts, an_interface_that_goes_down_and_comes_up_is_used_again) {
  expect_use_again(std::string("link set ") + kCable + " down",
                   std::string("link set ") + kCable + " up", Peer::kLinkDown);
}

TEST(UdpHosts, an_address_that_has_gone_is_refused_with_a_cure_and_taken_when_it_is_back) {
  expect_good(weft::test::on_two_hosts(
      [](int) {
        const std::string address = std::string(kFirstHost.v4) + "/24 dev " + kCable;
        const v::DeviceOptions options{.ports = {{.address = kFirstHost.v4, .on_network = true}}};
        if (!ip("addr del " + address)) return 1;
        const auto refused = v::Device::open(options);
        if (refused || refused.error().message.find("ip address") == std::string::npos) return 2;
        if (refused.error().message.find(kFirstHost.v4) == std::string::npos) return 3;
        if (!ip("addr add " + address)) return 4;
        return v::Device::open(options) ? 0 : 5;
      },
      weft::test::stay));
}

// ---- what a connection costs the kernel -------------------------------------------------------

struct KernelUse {
  std::size_t descriptors = 0;
  std::size_t sockets = 0;      ///< of this network, whatever their kind
  std::size_t udp_sockets = 0;  ///< with a port

  friend bool operator==(const KernelUse&, const KernelUse&) = default;
  bool exceeds(const KernelUse& other) const {
    return descriptors > other.descriptors || sockets > other.sockets ||
           udp_sockets > other.udp_sockets;
  }
};

KernelUse kernel_use() {
  KernelUse out;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++out.descriptors;
  }
  // "sockets: used 77" and "UDP: inuse 17 mem 0": the last number is what buffers hold.
  std::ifstream file("/proc/net/sockstat");
  std::string kind, word;
  for (std::size_t number = 0; file >> kind >> word >> number; std::getline(file, word)) {
    if (kind == "sockets:") out.sockets = number;
    if (kind == "UDP:") out.udp_sockets = number;
  }
  return out;
}

/// The kernel counts sockets that it is about to free, and may take long for it on a busy machine:
/// looked at until nothing changes any more.
KernelUse settled_use() {
  const auto deadline = std::chrono::steady_clock::now() + kHostPatience;
  KernelUse last = kernel_use();
  for (int same = 0; same < 5 && std::chrono::steady_clock::now() < deadline;) {
    std::this_thread::sleep_for(20ms);
    const KernelUse use = kernel_use();
    same = use == last ? same + 1 : 0;
    last = use;
  }
  return last;
}

constexpr std::size_t kMoreConnections = 1000;

/// Makes this many connections more and writes over each.
int connect_many(int fd, Host& host, std::vector<v::QueuePair>& all, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto qp = host.pd.create_queue_pair(host.cq, host.cq,
                                        {.limits = {.max_send_wr = 1, .max_recv_wr = 1}});
    HostIntroduction peer;
    if (!qp || !put(fd, HostIntroduction{qp->endpoint(), host.region.remote()}) ||
        !get(fd, &peer)) {
      return 1;
    }
    weft::QueuePairAttributes attributes;
    attributes.access = Access::kRemoteWrite;
    char ready = 'r';
    if (!qp->connect(peer.endpoint, attributes) || !put(fd, ready) || !get(fd, &ready)) return 2;
    if (!qp->post_write(host.region.sge(0, 8), peer.memory) || !host.completion().ok()) return 3;
    if (!put(fd, ready) || !get(fd, &ready)) return 4;  // both are done
    all.push_back(std::move(*qp));
  }
  return 0;
}

int count_sockets(int fd, const char* address) {
  Host host(address);
  std::vector<v::QueuePair> all;
  // Flows spread over a few sending sockets, which are opened when they are first needed.
  if (const int bad = connect_many(fd, host, all, 200); bad != 0) return bad;
  const KernelUse before = settled_use();
  if (const int bad = connect_many(fd, host, all, kMoreConnections); bad != 0) return 10 + bad;
  const KernelUse after = settled_use();
  for (const auto& [when, use] : {std::pair("before", before), std::pair("after", after)}) {
    std::printf("%s: %zu descriptors, %zu sockets, %zu of them with a UDP port\n", when,
                use.descriptors, use.sockets, use.udp_sockets);
  }
  std::fflush(stdout);
  if (before.sockets == 0 || before.udp_sockets == 0) return 21;  // it was not read
  return after.exceeds(before) ? 20 : 0;
}

TEST(UdpHosts, a_thousand_more_connections_have_no_socket_more) {
  // A19: kernel memory per additional connection is 0.
  expect_good(weft::test::on_two_hosts([](int fd) { return count_sockets(fd, kFirstHost.v4); },
                                       [](int fd) { return count_sockets(fd, kSecondHost.v4); }));
}

}  // namespace
