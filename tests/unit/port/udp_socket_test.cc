#include "port/udp_socket.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "network/address.h"
#include "port/local_interface.h"

namespace weft::port {
namespace {

Gid address(const char* text) { return network::parse_address(text).value(); }

TEST(SocketAddress, gives_back_the_endpoint_that_it_was_made_from) {
  for (const char* text : {"127.0.0.1", "10.255.0.3", "::1", "fd00::1", "fe80::5"}) {
    const auto back = to_endpoint(to_socket_address({address(text), 0xC123}, 7));
    ASSERT_TRUE(back.has_value()) << text;
    EXPECT_EQ(back->address, address(text));
    EXPECT_EQ(back->port, 0xC123);
  }
}

TEST(SocketAddress, names_the_interface_only_for_link_local_addresses) {
  EXPECT_EQ(to_socket_address({address("fe80::5"), 1}, 7).v6.sin6_scope_id, 7u);
  EXPECT_EQ(to_socket_address({address("fd00::5"), 1}, 7).v6.sin6_scope_id, 0u);
}

TEST(SocketAddress, is_no_endpoint_with_another_family_or_size) {
  SocketAddress strange = to_socket_address({address("127.0.0.1"), 1}, 0);
  strange.generic.sa_family = AF_UNIX;
  EXPECT_FALSE(to_endpoint(strange).has_value());
  SocketAddress cut = to_socket_address({address("::1"), 1}, 0);
  cut.size = sizeof cut.v4;
  EXPECT_FALSE(to_endpoint(cut).has_value());
  cut.size = 0;
  EXPECT_FALSE(to_endpoint(cut).has_value());
}

TEST(SendSocket, makes_the_kernel_send_identification_0_and_never_fragment) {
  const auto opened = open_send_socket(address("127.0.0.1"), 0, 1);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_GE(opened->port, 0xC000);
  int discover = -1;
  socklen_t size = sizeof discover;
  ASSERT_EQ(getsockopt(opened->socket.get(), IPPROTO_IP, IP_MTU_DISCOVER, &discover, &size), 0);
  EXPECT_EQ(discover, IP_PMTUDISC_DO);
  // A connected socket would count its datagrams in the identification.
  SocketAddress peer;
  peer.size = sizeof peer.v6;
  EXPECT_EQ(getpeername(opened->socket.get(), &peer.generic, &peer.size), -1);
}

TEST(SendSocket, takes_the_next_source_port_when_one_is_in_use) {
  const auto first = open_send_socket(address("127.0.0.1"), 0, 2);
  const auto second = open_send_socket(address("127.0.0.1"), 0, 2);
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_NE(first->port, second->port);
}

TEST(SendErrors, tell_a_full_queue_from_vanished_memory_from_loss) {
  for (const int e : {EAGAIN, ENOBUFS, ENOMEM}) EXPECT_EQ(classify_send_error(e), SendError::kBusy);
  EXPECT_EQ(classify_send_error(EFAULT), SendError::kFaulted);
  for (const int e : {ECONNREFUSED, EMSGSIZE, ENETUNREACH, EHOSTUNREACH, EPERM, EACCES}) {
    EXPECT_EQ(classify_send_error(e), SendError::kLost);
  }
}

TEST(LocalInterface, is_found_by_its_address) {
  const auto loopback = find_interface(address("127.0.0.1"));
  ASSERT_TRUE(loopback.has_value());
  EXPECT_TRUE(loopback->loopback);
  EXPECT_GT(loopback->index, 0u);
  EXPECT_GE(loopback->link_bytes, 1280u);
  EXPECT_FALSE(find_interface(address("203.0.113.7")).has_value());
}

TEST(LocalInterface, carries_the_largest_frame_that_fits) {
  EXPECT_EQ(largest_mtu(0, true), Mtu::k256);
  EXPECT_EQ(largest_mtu(1400, false), Mtu::k1024);
  EXPECT_EQ(largest_mtu(1500, true), Mtu::k1024);
  EXPECT_EQ(largest_mtu(4200, true), Mtu::k4096);
  EXPECT_EQ(largest_mtu(9000, false), Mtu::k4096);
  // The longest headers are 52 bytes, the ICRC 4, UDP 8, IP 20 or 40.
  EXPECT_EQ(largest_mtu(4096 + 84, true), Mtu::k4096);
  EXPECT_EQ(largest_mtu(4096 + 83, true), Mtu::k2048);
  EXPECT_EQ(largest_mtu(4096 + 104, false), Mtu::k4096);
  EXPECT_EQ(largest_mtu(4096 + 103, false), Mtu::k2048);
}

TEST(LocalInterface, decides_the_mtu_of_a_port) {
  EXPECT_EQ(mtu_of_address(address("127.8.9.10"), std::nullopt), Mtu::k4096);
  EXPECT_EQ(mtu_of_address(address("::1"), std::nullopt), Mtu::k4096);
  EXPECT_EQ(mtu_of_address(address("10.0.0.1"), std::nullopt), Mtu::k1024);
  EXPECT_EQ(mtu_of_address(address("10.0.0.1"), LocalInterface{1, true, 65536}), Mtu::k1024);
  EXPECT_EQ(mtu_of_address(address("10.0.0.1"), LocalInterface{2, false, 9000}), Mtu::k4096);
  EXPECT_EQ(mtu_of_address(address("10.0.0.1"), LocalInterface{2, false, 600}), Mtu::k512);
  EXPECT_EQ(mtu_of_address(address("10.0.0.1"), LocalInterface{2, false, 0}), Mtu::k1024);
}

}  // namespace
}  // namespace weft::port
