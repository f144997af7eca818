// Raw datagrams with another host, whose kernel knows nothing of weft: UDP with an ordinary socket,
// echoes with ping, TCP by a stack in user space on the queue pair; what a hostile host sends is
// dropped and counted; without the capability an error names it (B2.4).
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "port/packet_socket.h"
#include "support/raw_node.h"
#include "support/run_weft.h"
#include "support/sandbox.h"
#include "support/two_hosts.h"
#include "support/udp_kit.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

/// No stack has it: the queue pair's own.
constexpr const char* kRawAddress = "fd00:78::99";
constexpr std::uint16_t kUdpPort = 7000;
constexpr std::uint8_t kEchoRequest = 128, kEchoReply = 129;

void expect_both_content(const std::optional<int>& result) {
  if (!result) GTEST_SKIP() << "no network namespaces here";
  EXPECT_EQ(*result, 0);
}

/// The same packet back to its sender: sums of addresses and ports stay as they are.
Bytes turned_around(const Bytes& packet) {
  Bytes out = packet;
  std::swap_ranges(out.begin() + 8, out.begin() + 24, out.begin() + 24);
  const wire::RawPacket read = wire::parse_raw_packet(packet);
  if (read.has_ports) {
    const auto ports = out.begin() + static_cast<long>(read.upper_at);
    std::swap_ranges(ports, ports + 2, ports + 2);
  }
  return out;
}

/// 0xFFFF: the checksum of the upper layer is right.
std::uint32_t upper_sum(const Bytes& packet) {
  const wire::RawPacket read = wire::parse_raw_packet(packet);
  Bytes padded(packet.begin(), packet.begin() + static_cast<long>(read.bytes));
  padded.resize((padded.size() + 1) & ~std::size_t{1});
  std::uint32_t sum = read.protocol + static_cast<std::uint32_t>(read.bytes - read.upper_at);
  for (std::size_t i = 8; i < padded.size(); i += 2) {
    sum += base::load_be<std::uint16_t>(padded.data() + i);
  }
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

Bytes echo(std::uint8_t type, const Gid& from, const Gid& to, std::uint16_t sequence) {
  Bytes message = bytes_of({type, 0, 0, 0, 0x57, 0xEF, 0, sequence, 'w', 'e', 'f', 't'});
  Bytes packet =
      ipv6_packet({.source = from, .destination = to, .next_header = 58, .upper = message});
  const auto missing = static_cast<std::uint16_t>(~upper_sum(packet));
  base::store_be<std::uint16_t>(packet.data() + 42, missing);
  return packet;
}

// ---- UDP --------------------------------------------------------------------------------------

/// Gives each datagram back, until told to stop.
int echo_udp(int fd) {
  RawNode node(kFirstHost.v6);
  must(node.qp().claim({.next_header = wire::kIpProtocolUdp, .destination = gid(kRawAddress)}));
  char said = 'r';
  if (!put(fd, said)) return 1;
  for (int i = 0; i < 10; ++i) {
    const auto packet = node.receive();
    if (!packet) return 2;
    const auto read = wire::parse_raw_packet(*packet);
    if (read.destination_port != kUdpPort || read.source != gid(kSecondHost.v6)) return 3;
    if (upper_sum(*packet) != 0xFFFF) return 4;
    node.send(turned_around(*packet));
  }
  return get(fd, &said) ? 0 : 5;
}

int ask_udp(int fd) {
  char said = 0;
  if (!get(fd, &said)) return 1;
  const int socket = ::socket(AF_INET6, SOCK_DGRAM, 0);
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kUdpPort);
  inet_pton(AF_INET6, kRawAddress, &to.sin6_addr);
  const void* const any = &to;
  if (connect(socket, static_cast<const sockaddr*>(any), sizeof to) != 0) return 2;
  for (int i = 0; i < 10; ++i) {
    const std::string text = "datagram " + std::to_string(i) + std::string(100 * i, 'x');
    std::array<char, 2048> back{};
    pollfd readable{socket, POLLIN, 0};
    if (send(socket, text.data(), text.size(), 0) < 0) return 3;
    if (poll(&readable, 1, 20'000) != 1) return 4;
    const ssize_t n = recv(socket, back.data(), back.size(), 0);
    if (n != static_cast<ssize_t>(text.size()) || text != back.data()) return 5;
  }
  return put(fd, said) ? 0 : 6;
}

TEST(RawHosts, an_ordinary_udp_socket_talks_with_a_queue_pair) {
  // B2.4
  expect_both_content(on_two_hosts(echo_udp, ask_udp));
}

// Packets of one flow may leave in one call; each arrives as it was sent.

constexpr std::size_t kBatchPackets = 200;

/// Behind a link address of its own, so that whole frames can be batched.
Bytes numbered_frame(std::size_t i, const LinkAddress& to) {
  Bytes upper = udp(kUdpPort, kUdpPort, i < 150 ? 100 : 1000);
  base::store_be<std::uint32_t>(upper.data() + 8, static_cast<std::uint32_t>(i));
  Bytes packet =
      ipv6_packet({.source = gid(kRawAddress), .destination = gid(kSecondHost.v6), .upper = upper});
  wire::fill_upper_checksum(packet, wire::parse_raw_packet(packet));
  Bytes frame = frame_of(packet);
  for (std::size_t at = 0; at < to.size(); ++at) frame[at] = std::byte{to[at]};
  return frame;
}

int send_batch(int fd) {
  LinkAddress to{};
  if (!get(fd, &to)) return 1;
  const Node node(must(verbs::Device::open({.ports = {{.address = kFirstHost.v6}}})));
  QueuePair qp = node.create({.service = Service::kRawDatagram,
                              .limits = {.max_send_wr = kBatchPackets},
                              .raw_framing = RawFraming::kEthernet});
  must(qp.activate());
  Memory memory(node, kBatchPackets * 2048);
  std::vector<Sge> lists(kBatchPackets);
  std::vector<SendRequest> requests(kBatchPackets);
  for (std::size_t i = 0; i < kBatchPackets; ++i) {
    const Bytes frame = numbered_frame(i, to);
    std::ranges::copy(frame, memory.bytes.begin() + static_cast<long>(i * 2048));
    lists[i] = memory.sge(i * 2048, static_cast<std::uint32_t>(frame.size()));
    requests[i].sges = {&lists[i], 1};
  }
  std::size_t posted = 0;
  must(qp.post_send(requests, &posted));
  for (std::size_t i = 0; i < kBatchPackets; ++i) {
    if (!must(node.sends.wait(kPatience)).ok()) return 2;
  }
  char said = 0;
  return get(fd, &said) ? 0 : 3;
}

int take_batch(int fd) {
  const int socket = ::socket(AF_INET6, SOCK_DGRAM, 0);
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(kUdpPort);
  const void* const any = &name;
  const int room = 4 << 20;
  setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  if (bind(socket, static_cast<const sockaddr*>(any), sizeof name) != 0) return 1;
  const auto interface = port::find_raw_interface(gid(kSecondHost.v6));
  if (!interface || !put(fd, interface->link_address)) return 2;
  for (std::size_t i = 0; i < kBatchPackets; ++i) {
    std::array<std::byte, 2048> got;
    pollfd readable{socket, POLLIN, 0};
    if (poll(&readable, 1, 20'000) != 1) return 3;
    const ssize_t n = recv(socket, got.data(), got.size(), 0);
    const Bytes frame = numbered_frame(i, interface->link_address);
    if (n < 0 || !std::equal(frame.begin() + 62, frame.end(), got.begin(), got.begin() + n)) {
      return 4;
    }
  }
  return put(fd, 'o') ? 0 : 5;
}

TEST(RawHosts, a_batch_of_packets_reaches_an_ordinary_socket_each_as_it_was_sent) {
  expect_both_content(on_two_hosts(send_batch, take_batch));
}

// ---- ICMPv6 -----------------------------------------------------------------------------------

int answer_echoes(int fd) {
  RawNode node(kFirstHost.v6);
  must(node.qp().claim({.next_header = wire::kIcmpv6, .destination = gid(kRawAddress)}));
  char said = 'r';
  if (!put(fd, said)) return 1;
  pollfd other{fd, POLLIN, 0};
  while (poll(&other, 1, 0) == 0) {
    const auto packet = node.receive(10ms);
    if (!packet || std::to_integer<unsigned>((*packet)[40]) != kEchoRequest) continue;
    Bytes reply = turned_around(*packet);
    reply[40] = std::byte{kEchoReply};
    base::store_be<std::uint16_t>(reply.data() + 42, 0);
    base::store_be<std::uint16_t>(reply.data() + 42, static_cast<std::uint16_t>(~upper_sum(reply)));
    node.send(reply);
  }
  return get(fd, &said) && said == 'o' ? 0 : 2;
}

int ping(int fd) {
  char said = 0;
  if (!get(fd, &said)) return 1;
  const std::string command = std::string("ping -6 -c 3 -i 0.2 -W 10 ") + kRawAddress;
  const int status = std::system((command + " >&2").c_str());
  said = status == 0 ? 'o' : 'x';
  put(fd, said);
  return status == 0 ? 0 : 2;
}

TEST(RawHosts, ping_of_another_host_is_answered_by_a_queue_pair) {
  // B2.4
  if (std::system("command -v ping >/dev/null") != 0) GTEST_SKIP() << "ping is not installed";
  expect_both_content(on_two_hosts(answer_echoes, ping));
}

TEST(RawHosts, a_queue_pair_pings_the_kernel_of_another_host) {
  expect_both_content(on_two_hosts(
      [](int) {
        RawNode node(kFirstHost.v6);
        const Gid mine = gid(kRawAddress), peer = gid(kSecondHost.v6);
        must(node.qp().claim({.next_header = wire::kIcmpv6, .destination = mine}));
        for (std::uint16_t i = 0; i < 3; ++i) {
          node.send(echo(kEchoRequest, mine, peer, i));
          const auto reply = node.receive();
          if (!reply) return 1;
          const Bytes expected = echo(kEchoReply, peer, mine, i);
          // Behind the flow label, which is the kernel's choice.
          if (!std::equal(reply->begin() + 4, reply->end(), expected.begin() + 4, expected.end())) {
            return 2;
          }
        }
        return 0;
      },
      stay));
}

// ---- TCP --------------------------------------------------------------------------------------

constexpr std::uint16_t kTcpPort = 7001;

/// Lets a stack in user space connect to the other host's kernel, and send a mebibyte there and
/// back.
int run_stack(int fd) {
  char said = 0;
  if (!get(fd, &said)) return 1;
  const std::string command = std::string(WEFT_BIN_DIR) + "/lwip_host " + kFirstHost.v6 + " " +
                              kRawAddress + " " + kSecondHost.v6 + " " + std::to_string(kTcpPort) +
                              " 1048576 >&2";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

int echo_tcp(int fd) {
  const int listener = ::socket(AF_INET6, SOCK_STREAM, 0);
  const timeval patience{30, 0};  // accepted ones inherit it
  setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(listener, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(kTcpPort);
  const void* const any = &name;
  if (bind(listener, static_cast<const sockaddr*>(any), sizeof name) != 0) return 1;
  if (listen(listener, 1) != 0 || !put(fd, 'r')) return 2;
  const int peer = accept(listener, nullptr, nullptr);
  if (peer < 0) return 5;
  std::array<char, 65536> bytes;
  ssize_t n = 0;
  while ((n = recv(peer, bytes.data(), bytes.size(), 0)) > 0) {
    if (send(peer, bytes.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL) != n) return 3;
  }
  return n == 0 ? 0 : 4;
}

TEST(RawHosts, a_tcp_stack_in_user_space_talks_with_the_kernels_of_another_host) {
  // B2.4
  if (access(WEFT_BIN_DIR "/lwip_host", X_OK) != 0) GTEST_SKIP() << "liblwip-dev is not installed";
  expect_both_content(on_two_hosts(run_stack, echo_tcp));
}

// ---- what a hostile host sends ----------------------------------------------------------------

int count_bad_ones(int fd) {
  RawNode node(kFirstHost.v6);
  must(node.qp().claim({.destination = gid(kRawAddress)}));
  must(node.qp().claim({.next_header = 253}));
  char said = 'r';
  if (!put(fd, said)) return 1;
  if (!node.counts(obs::Counter::kRawMalformed, 1)) return 2;
  if (!node.counts(obs::Counter::kRawJumbos, 1)) return 3;
  if (!node.counts(obs::Counter::kRawBadExtensions, 2)) return 4;
  // Its own address, the port's, the loopback one, and a group's.
  if (!node.counts(obs::Counter::kRawSpoofed, 4)) return 5;
  const auto packet = node.receive();
  if (!packet || *packet != udp_packet(gid(kSecondHost.v6), gid(kRawAddress))) return 6;
  return put(fd, said) ? 0 : 7;
}

int send_bad_ones(int fd) {
  char said = 0;
  if (!get(fd, &said)) return 1;
  RawNode node(kSecondHost.v6, RawFraming::kEthernet);
  const Gid here = gid(kSecondHost.v6), there = gid(kRawAddress);
  Bytes cut = udp_packet(here, there);
  cut.resize(cut.size() - 5);
  node.send(frame_of(cut));
  node.send(frame_of(ipv6_packet({.source = here,
                                  .destination = there,
                                  .next_header = 0,
                                  .extensions = bytes_of({17, 0, 0xC2, 4, 0, 1, 0, 0}),
                                  .upper = udp(7, 9)})));
  Bytes chain;
  for (int i = 0; i < 100; ++i) {
    const Bytes one = bytes_of({60, 0, 1, 4, 0, 0, 0, 0});
    chain.insert(chain.end(), one.begin(), one.end());
  }
  for (const Bytes& extensions : {chain, bytes_of({17, 99, 1, 4, 0, 0, 0, 0})}) {
    node.send(frame_of(ipv6_packet({.source = here,
                                    .destination = there,
                                    .next_header = 60,
                                    .extensions = extensions,
                                    .upper = udp(7, 9)})));
  }
  for (const char* source : {kRawAddress, kFirstHost.v6, "::1", "ff02::1"}) {
    node.send(frame_of(udp_packet(gid(source), there)));
  }
  node.send(frame_of(udp_packet(here, there)));
  return get(fd, &said) ? 0 : 2;
}

TEST(RawHosts, malformed_and_spoofed_packets_are_dropped_and_counted) {
  // B2.4
  expect_both_content(on_two_hosts(count_bad_ones, send_bad_ones));
}

// ---- what nobody claimed ----------------------------------------------------------------------

bool peer_answers(const char* address) {
  return std::system((std::string("ping -6 -c 1 -W 1 ") + address + " >&2").c_str()) == 0;
}

int drop_unclaimed(int fd) {
  const verbs::DeviceOptions options{.ports = {{.address = kFirstHost.v6}},
                                     .raw_unclaimed = RawUnclaimed::kDrop};
  char said = 0;
  if (!get(fd, &said) || said != 'o') return 5;
  {
    const Node node(must(verbs::Device::open(options)));
    auto made =
        node.pd.create_queue_pair(node.sends, node.receives, {.service = Service::kRawDatagram});
    if (!made) {
      std::printf("%s\n", made.error().message.c_str());
      std::fflush(stdout);
      return made.error().code == Errc::kNotSupported || made.error().code == Errc::kNotPermitted
                 ? kNoNamespaces
                 : 1;
    }
    if (!put(fd, said) || !get(fd, &said) || said != 'x') return 2;
    const auto& counters = node.device.controller()->counters();
    const auto deadline = Steady::now() + kPatience;
    while (counters.get(obs::Counter::kRawUnclaimed) == 0) {
      if (Steady::now() > deadline) return 3;
      node.receives.poll();
    }
  }
  // The kernel sees everything again.
  return put(fd, said) && get(fd, &said) && said == 'o' ? 0 : 4;
}

/// 'o': it does, sooner or later.
char answers_in_the_end(const char* address) {
  for (int i = 0; i < 20; ++i) {
    if (peer_answers(address)) return 'o';
  }
  return 'x';
}

int look_for_kernel(int fd) {
  char said = 0;
  if (!put(fd, answers_in_the_end(kFirstHost.v6)) || !get(fd, &said)) return 1;
  if (!put(fd, peer_answers(kFirstHost.v6) ? 'o' : 'x') || !get(fd, &said)) return 2;
  return put(fd, answers_in_the_end(kFirstHost.v6)) ? 0 : 3;
}

TEST(RawHosts, unclaimed_packets_are_dropped_and_counted_when_the_device_says_so) {
  // B2.4
  if (std::system("command -v ping >/dev/null") != 0) GTEST_SKIP() << "ping is not installed";
  expect_both_content(on_two_hosts(drop_unclaimed, look_for_kernel));
}

// ---- who may ----------------------------------------------------------------------------------

TEST(RawHosts, without_the_capability_the_error_names_it) {
  expect_both_content(on_two_hosts(
      [](int) {
        if (!become(kNobody)) return 0;  // who is not root in here keeps its capabilities
        const verbs::Device device =
            must(verbs::Device::open({.ports = {{.address = kFirstHost.v6}}}));
        const auto pd = must(device.allocate_pd());
        const auto cq = must(device.create_cq(8));
        const auto refused = pd.create_queue_pair(cq, cq, {.service = Service::kRawDatagram});
        if (refused) return 1;
        if (refused.error().code != Errc::kNotPermitted) return 2;
        return refused.error().message.find("CAP_NET_RAW") != std::string::npos ? 0 : 3;
      },
      stay));
}

TEST(RawHosts, a_key_that_another_process_has_claimed_is_refused) {
  expect_both_content(on_two_hosts(
      [](int) {
        RawNode node(kFirstHost.v6);
        const RawKey key{.next_header = wire::kIcmpv6, .destination = gid(kRawAddress)};
        must(node.qp().claim(key));
        std::fflush(stdout);
        const pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) {
          RawNode other(kFirstHost.v6);
          const auto refused = other.qp().claim(key);
          _exit(!refused && refused.error().code == Errc::kBusy ? 0 : 1);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || status != 0) return 2;
        must(node.qp().release(key));
        must(node.qp().claim(key));
        return 0;
      },
      stay));
}

}  // namespace
}  // namespace weft::test
