#include "ucma_kit.h"

namespace weft::ucma::test {
namespace {

TEST(UcmaAddress, infiniband_addresses_are_refused) {
  // librdmacm tries once, and uses what older kernels have when it fails.
  const Channel channel;
  const Id id = Id::create(channel, RDMA_PS_IB, 0, 2);
  rdma_ucm_bind command{};
  command.id = id.handle;
  command.addr_size = 48;
  const std::uint16_t family = 27;
  std::memcpy(&command.addr, &family, sizeof family);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_BIND, command), EINVAL);
}

TEST(UcmaAddress, bind_tells_device_and_port) {
  const Channel channel;
  const Id id = Id::create(channel);
  ASSERT_EQ(id.bind("127.0.0.1", 0), 0);
  const auto route = id.route();
  const auto& device = files::shown_devices().front();
  EXPECT_EQ(route.node_guid, __builtin_bswap64(device.guid));
  EXPECT_EQ(route.port_num, 1);
  EXPECT_EQ(route.num_paths, 0U);
  EXPECT_GE(port_of(route.src_addr), 32'768);
  EXPECT_EQ(std::memcmp(route.ib_route[0].sgid, device.address.raw.data(), 16), 0);
}

TEST(UcmaAddress, bind_to_all_addresses_has_no_device_yet) {
  const Channel channel;
  const Id id = Id::create(channel);
  ASSERT_EQ(id.bind("0.0.0.0", 0), 0);
  EXPECT_EQ(id.route().node_guid, 0U);
  EXPECT_NE(id.port(), 0);
}

TEST(UcmaAddress, foreign_addresses_are_refused) {
  const Channel channel;
  const Id id = Id::create(channel);
  EXPECT_EQ(id.bind("203.0.113.7", 0), EADDRNOTAVAIL);
  EXPECT_EQ(id.bind("2001:db8::7", 0), EADDRNOTAVAIL);
  ASSERT_EQ(id.resolve("203.0.113.7", 1), 0);
  const auto event = channel.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(static_cast<EventCode>(event->event), EventCode::kAddressError);
  EXPECT_EQ(static_cast<int>(event->status), -EHOSTUNREACH);
  // And may try another one.
  EXPECT_EQ(id.resolve("127.0.0.1", 1), 0);
  EXPECT_EQ(channel.next_code(), EventCode::kAddressResolved);
}

TEST(UcmaAddress, a_foreign_address_is_answered_by_a_hint_once) {
  const Channel channel;
  for (const char* expected : {"to reach 192.0.2.1 run: weft run --device weft0=auto", ""}) {
    const Id id = Id::create(channel);
    testing::internal::CaptureStderr();
    EXPECT_EQ(id.resolve("192.0.2.1", 1), 0);
    EXPECT_EQ(channel.next_code(), EventCode::kAddressError);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(expected), std::string::npos) << said;
    EXPECT_EQ(said.empty(), *expected == '\0') << said;
  }
}

TEST(UcmaAddress, a_port_is_taken_once_unless_shared) {
  const Channel channel;
  const Id first = Id::create(channel), second = Id::create(channel), third = Id::create(channel);
  ASSERT_EQ(first.bind("127.0.0.1", 0), 0);
  const std::uint16_t port = first.port();
  EXPECT_EQ(second.bind("127.0.0.1", port), EADDRINUSE);
  EXPECT_EQ(second.bind("0.0.0.0", port), EADDRINUSE);
  EXPECT_EQ(second.bind("127.0.0.2", port), 0);
  EXPECT_EQ(third.set_option(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(third.bind("127.0.0.1", port), 0);
  EXPECT_EQ(third.listen(), EADDRINUSE);
  EXPECT_EQ(first.destroy(), 0);
  EXPECT_EQ(third.listen(), 0);
}

TEST(UcmaAddress, listening_without_bind_takes_a_port) {
  const Channel channel;
  const Id id = Id::create(channel);
  ASSERT_EQ(id.listen(), 0);
  EXPECT_NE(id.port(), 0);
}

struct Listening {
  const char* bound;
  const char* asked;
  bool only_own_family;
  bool found;
};

class UcmaListener : public testing::TestWithParam<Listening> {};

TEST_P(UcmaListener, is_found_at_the_addresses_that_it_covers) {
  const Channel server, client;
  const Id listener = Id::create(server);
  const int only = GetParam().only_own_family ? 1 : 0;
  ASSERT_EQ(listener.set_option(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, only), 0);
  ASSERT_EQ(listener.bind(GetParam().bound, 0), 0);
  ASSERT_EQ(listener.listen(), 0);
  const Id id = Id::create(client);
  id.resolve_all(GetParam().asked, listener.port());
  ASSERT_EQ(id.connect(), 0);
  if (!GetParam().found) {
    EXPECT_EQ(client.next_code(), EventCode::kRejected);
    return;
  }
  const auto event = server.next();
  ASSERT_TRUE(event);
  // The new identifier has the address that was asked for, and sees the client's.
  const Id passive{&server, event->id};
  const auto here = id.route(), there = passive.route();
  EXPECT_EQ(std::memcmp(&there.src_addr, &here.dst_addr, sizeof here.dst_addr), 0);
  EXPECT_EQ(std::memcmp(&there.dst_addr, &here.src_addr, sizeof here.src_addr), 0);
  EXPECT_EQ(there.num_paths, 1U);
  EXPECT_NE(there.node_guid, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Addresses, UcmaListener,
    testing::Values(Listening{"127.0.0.1", "127.0.0.1", false, true},
                    Listening{"127.0.0.1", "127.0.0.2", false, false},
                    Listening{"127.0.0.2", "127.0.0.2", false, true},
                    Listening{"0.0.0.0", "127.0.0.1", false, true},
                    Listening{"0.0.0.0", "127.0.0.5", false, true},
                    Listening{"0.0.0.0", "::1", false, false}, Listening{"::1", "::1", false, true},
                    Listening{"::", "::1", false, true}, Listening{"::", "127.0.0.1", false, true},
                    Listening{"::", "127.0.0.1", true, false}, Listening{"::", "::1", true, true},
                    Listening{"0.0.0.0", "0.0.0.0", false, true}));

TEST(UcmaAddress, a_restriction_after_bind_frees_the_other_family) {
  const Channel channel;
  const Id six = Id::create(channel), four = Id::create(channel);
  ASSERT_EQ(six.bind("::", 0), 0);
  EXPECT_EQ(four.bind("0.0.0.0", six.port()), EADDRINUSE);
  ASSERT_EQ(six.set_option(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1), 0);
  EXPECT_EQ(four.bind("0.0.0.0", six.port()), 0);
}

TEST(UcmaAddress, families_are_not_mixed) {
  const Channel channel;
  const Id id = Id::create(channel);
  EXPECT_EQ(id.resolve("127.0.0.1", 1, "::1"), EINVAL);
  ASSERT_EQ(id.bind("::1", 0), 0);
  EXPECT_EQ(id.resolve("127.0.0.1", 1), EINVAL);
}

TEST(UcmaAddress, path_and_addresses_are_told_in_every_form) {
  const Channel channel;
  const Id id = Id::create(channel);
  id.resolve_all("127.0.0.1", 4711);
  const auto& device = files::shown_devices().front();
  const auto route = id.route();
  ASSERT_EQ(route.num_paths, 1U);
  EXPECT_EQ(route.ib_route[0].mtu, 5U);
  EXPECT_EQ(route.ib_route[0].pkey, 0xFFFF);
  EXPECT_EQ(route.ib_route[0].hop_limit, 64);
  EXPECT_EQ(std::memcmp(route.ib_route[0].dgid, device.address.raw.data(), 16), 0);

  const auto ask = [&](std::uint32_t option, auto& answer, std::size_t size) {
    rdma_ucm_query command{reinterpret_cast<std::uint64_t>(&answer), id.handle, option};
    return channel.command(RDMA_USER_CM_CMD_QUERY, command, size);
  };
  rdma_ucm_query_addr_resp addresses{};
  ASSERT_EQ(ask(RDMA_USER_CM_QUERY_ADDR, addresses, sizeof addresses), 0);
  EXPECT_EQ(addresses.src_size, sizeof(sockaddr_in));
  EXPECT_EQ(addresses.dst_size, sizeof(sockaddr_in));
  EXPECT_EQ(addresses.ibdev_index, ~0U);
  // What librdmacm had before the index of the device.
  EXPECT_EQ(ask(RDMA_USER_CM_QUERY_ADDR, addresses, sizeof addresses - 8), 0);
  EXPECT_EQ(ask(RDMA_USER_CM_QUERY_ADDR, addresses, sizeof addresses - 9), ENOSPC);

  rdma_ucm_query_addr_resp gids{};
  ASSERT_EQ(ask(RDMA_USER_CM_QUERY_GID, gids, sizeof gids), 0);
  std::array<std::byte, sizeof gids.src_addr> bytes;
  std::memcpy(bytes.data(), &gids.src_addr, bytes.size());
  EXPECT_EQ(std::memcmp(&bytes[8], device.address.raw.data(), 16), 0);

  std::array<std::byte, 8 + 6 * 72> paths{};
  ASSERT_EQ(ask(RDMA_USER_CM_QUERY_PATH, paths, paths.size()), 0);
  EXPECT_EQ(paths[0], std::byte{1});
  EXPECT_EQ(std::memcmp(&paths[8 + 8 + 8], device.address.raw.data(), 16), 0);
  EXPECT_EQ(ask(7, paths, paths.size()), ENOSYS);
}

TEST(UcmaAddress, options_are_checked) {
  const Channel channel;
  const Id id = Id::create(channel);
  const std::uint8_t small = 18, large = 32;
  EXPECT_EQ(id.set_option(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, small), 0);
  EXPECT_EQ(id.set_option(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 18), EINVAL);  // an int
  EXPECT_EQ(id.set_option(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, small), 0);
  EXPECT_EQ(id.set_option(RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, large), EINVAL);
  EXPECT_EQ(id.set_option(RDMA_OPTION_ID, 99, small), ENOSYS);
  EXPECT_EQ(id.set_option(9, 0, small), ENOSYS);
  id.resolve_all("127.0.0.1", 1);
  EXPECT_EQ(id.route().ib_route[0].traffic_class, 18);
  EXPECT_EQ(id.route().ib_route[0].packet_life_time, 18);
}

TEST(UcmaAddress, a_path_of_the_program_resolves_the_route) {
  const Channel channel;
  const Id id = Id::create(channel);
  ib_path_rec_data path{};
  path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  EXPECT_EQ(id.set_option(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path), EINVAL);
  ASSERT_EQ(id.resolve("127.0.0.1", 1), 0);
  ASSERT_EQ(channel.next_code(), EventCode::kAddressResolved);
  EXPECT_EQ(id.set_option(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path.flags), EINVAL);
  ASSERT_EQ(id.set_option(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path), 0);
  EXPECT_EQ(channel.next_code(), EventCode::kRouteResolved);
  EXPECT_EQ(id.connect(), 0);
}

}  // namespace
}  // namespace weft::ucma::test
