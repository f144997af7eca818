// Two hosts with a cable between them: what a connection request that lies about its addresses
// reaches over a real network, and in which order messages are handled that came in one.
#include <poll.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "cm/message.h"
#include "cm/service_id.h"
#include "network/address.h"
#include "support/two_hosts.h"
#include "ucma/shown_devices.h"
#include "ucma_kit.h"
#include "verbs/controller.h"

namespace weft::ucma::test {
namespace {

using weft::test::kFirstHost;
using weft::test::kNoNamespaces;
using weft::test::kSecondHost;

constexpr std::uint16_t kLoopbackPort = 7101, kAnywherePort = 7102, kAddressPort = 7103;
constexpr std::uint16_t kHastyPort = 7104;
constexpr std::uint16_t kLiarsPort = 13, kHonestPort = 14;

Gid gid(const char* text) { return network::parse_address(text).value(); }

/// False: a test before this one in the same process has read the list already.
bool show_device(const char* address) {
  setenv("WEFT_DEVICES", (std::string("weft0=") + address).c_str(), 1);
  return shown_with(gid(address)) != nullptr;
}

/// True: the next event is a request that tells these addresses.
bool hears_truth(const Channel& channel, const char* to) {
  const auto event = channel.next(20'000);
  if (!event || static_cast<EventCode>(event->event) != EventCode::kConnectRequest) return false;
  const auto route = Id{&channel, event->id}.route();
  const auto source = address_of(kSecondHost.v4, kHonestPort), here = address_of(to, 0);
  sockaddr_in told{}, wanted{};
  std::memcpy(&told, &route.src_addr, sizeof told);
  std::memcpy(&wanted, &here, sizeof wanted);
  return std::memcmp(&route.dst_addr, &source, sizeof(sockaddr_in)) == 0 &&
         told.sin_addr.s_addr == wanted.sin_addr.s_addr;
}

/// Listens in three places for connections, and in one for datagrams.
int listen_to_the_network(int fd) {
  if (!show_device(kFirstHost.v4)) return kNoNamespaces;
  const Channel loopback, anywhere, address, datagrams;
  const Id first = Id::create(loopback), second = Id::create(anywhere), third = Id::create(address),
           fourth = Id::create(datagrams, RDMA_PS_UDP);
  if (first.bind("127.0.0.1", kLoopbackPort) != 0 || first.listen() != 0) return 1;
  if (second.bind("0.0.0.0", kAnywherePort) != 0 || second.listen() != 0) return 2;
  if (third.bind(kFirstHost.v4, kAddressPort) != 0 || third.listen() != 0) return 3;
  if (fourth.bind("0.0.0.0", kLoopbackPort) != 0 || fourth.listen() != 0) return 4;
  if (write(fd, "r", 1) != 1) return 5;
  // The lies come first, so they have been judged when the truth is there.
  if (!hears_truth(anywhere, kFirstHost.v4)) return 6;
  if (!hears_truth(address, kFirstHost.v4)) return 7;
  if (!hears_truth(datagrams, kFirstHost.v4)) return 8;
  if (loopback.next(0)) return 9;
  return write(fd, "d", 1) == 1 ? 0 : 10;
}

class Caller {
 public:
  /// A question for a port of the first host, with these addresses in its private data.
  template <class Question>
  void ask(cm::PortSpace space, std::uint16_t port, const char* source, const char* destination,
           std::uint16_t source_port) {
    Question question;
    const cm::CommId number(++last_);
    if constexpr (requires { question.local; }) {
      question.local = number;
      question.qpn = Qpn(0x33);
      question.mtu_code = 1;
    } else {
      question.request = number;
    }
    question.service = cm::service_id(space, cm::Port(port));
    question.pkey = kDefaultPKey;
    cm::emit_ip_header({false, cm::Port(source_port), gid(source), gid(destination)},
                       question.private_data);
    device_.controller()->gsi().send(gid(kSecondHost.v4), gid(kFirstHost.v4),
                                     cm::emit(cm::Message{cm::TransactionId(last_), question}));
  }

 private:
  verbs::Device device_ =
      verbs::Device::open({.ports = {{.address = kSecondHost.v4, .on_network = true}}}).value();
  std::uint32_t last_ = 0;
};

int call_with_lies_and_truth(int fd) {
  Caller caller;
  char said = 0;
  if (read(fd, &said, 1) != 1) return 1;
  constexpr const char* kLocalhost = "127.0.0.1";
  const auto lie = [&](const char* source, const char* destination) {
    for (const std::uint16_t port : {kLoopbackPort, kAnywherePort, kAddressPort}) {
      caller.ask<cm::Request>(cm::kTcpSpace, port, source, destination, kLiarsPort);
    }
    caller.ask<cm::ServiceRequest>(cm::kUdpSpace, kLoopbackPort, source, destination, kLiarsPort);
  };
  // Until all of the truth was heard: a frame may be lost while a link comes up.
  pollfd other{fd, POLLIN, 0};
  do {
    lie(kSecondHost.v4, kLocalhost);
    lie(kLocalhost, kLocalhost);
    lie("10.213.78.9", kFirstHost.v4);
    lie(kLocalhost, kFirstHost.v4);
    const auto tell = [&]<class Question>(cm::PortSpace space, std::uint16_t port) {
      caller.ask<Question>(space, port, kSecondHost.v4, kFirstHost.v4, kHonestPort);
    };
    tell.operator()<cm::Request>(cm::kTcpSpace, kAnywherePort);
    tell.operator()<cm::Request>(cm::kTcpSpace, kAddressPort);
    tell.operator()<cm::ServiceRequest>(cm::kUdpSpace, kLoopbackPort);
  } while (poll(&other, 1, 100) == 0);
  return 0;
}

TEST(UcmaHosts, a_request_reaches_the_address_where_its_frame_arrived_and_no_other) {
  const auto result = weft::test::on_two_hosts(listen_to_the_network, call_with_lies_and_truth);
  if (!result) GTEST_SKIP() << "no network namespaces here, or the devices were listed before";
  EXPECT_EQ(*result, 0);
}

constexpr int kHastyClients = 20;

/// The next event that is not the late end of a connection.
std::optional<rdma_ucm_event_resp> next_of_hasty(const Channel& channel, EventCode code) {
  auto event = channel.next(20'000);
  while (event && static_cast<EventCode>(event->event) == EventCode::kTimewaitExit) {
    event = channel.next(20'000);
  }
  return event && static_cast<EventCode>(event->event) == code ? event : std::nullopt;
}

/// Each client is seen to come before it is seen to go. Identifiers stay: a request that came twice
/// is no second one then.
int serve_hasty_clients(int fd) {
  if (!show_device(kFirstHost.v4)) return kNoNamespaces;
  const Channel channel;
  const Id listener = Id::create(channel);
  if (listener.bind("0.0.0.0", kHastyPort) != 0 || listener.listen() != 0) return 1;
  if (write(fd, "r", 1) != 1) return 2;
  for (int i = 0; i < kHastyClients; ++i) {
    const auto event = next_of_hasty(channel, EventCode::kConnectRequest);
    if (!event) return 3;
    const Id child{&channel, event->id};
    if (child.accept() != 0) return 4;
    if (!next_of_hasty(channel, EventCode::kEstablished)) return 5;
    if (!next_of_hasty(channel, EventCode::kDisconnected)) return 6;
    if (child.disconnect() != 0) return 7;
  }
  return 0;
}

int disconnect_at_once(int fd) {
  if (!show_device(kSecondHost.v4)) return kNoNamespaces;
  char said = 0;
  if (read(fd, &said, 1) != 1) return 1;
  for (int i = 0; i < kHastyClients; ++i) {
    const Channel channel;
    const Id id = Id::create(channel);
    id.resolve_all(kFirstHost.v4, kHastyPort);
    if (id.connect() != 0) return 2;
    if (channel.next_code(20'000) != EventCode::kConnectResponse) return 3;
    if (id.confirm() != 0 || id.disconnect() != 0) return 4;
    if (channel.next_code(20'000) != EventCode::kDisconnected) return 5;
  }
  return 0;
}

TEST(UcmaHosts, a_client_that_disconnects_at_once_was_connected_before) {
  const auto result = weft::test::on_two_hosts(serve_hasty_clients, disconnect_at_once);
  if (!result) GTEST_SKIP() << "no network namespaces here, or the devices were listed before";
  EXPECT_EQ(*result, 0);
}

}  // namespace
}  // namespace weft::ucma::test
