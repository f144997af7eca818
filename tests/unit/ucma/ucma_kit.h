// What the tests of ucma/ share: a program's side of the rdma_cm device, with commands as librdmacm
// writes them. One thread for each channel.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>
// After the C library's headers.
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "files/char_numbers.h"
#include "files/device_list.h"
#include "files/fd_table.h"
#include "ucma/events.h"
#include "ucma/install.h"

namespace weft::ucma::test {

inline sockaddr_in6 address_of(const char* text, std::uint16_t port) {
  sockaddr_in6 in6{};
  if (std::string_view(text).find(':') != std::string_view::npos) {
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    inet_pton(AF_INET6, text, &in6.sin6_addr);
    return in6;
  }
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  inet_pton(AF_INET, text, &in.sin_addr);
  std::memcpy(&in6, &in, sizeof in);
  return in6;
}

inline std::uint16_t port_of(const sockaddr_in6& address) { return ntohs(address.sin6_port); }

/// An event channel: a file of the device.
class Channel {
 public:
  explicit Channel(int flags = O_RDWR | O_CLOEXEC) {
    install();
    fd_ = files::open_emulated(files::kRdmaCmPath, flags).value_or(-1);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() { close(); }

  int fd() const { return fd_; }
  void close() {
    if (fd_ < 0) return;
    files::forget_char_files(fd_, fd_);
    ::close(fd_);
    fd_ = -1;
  }

  /// 0 or errno.
  template <class Body>
  int command(std::uint32_t number, const Body& body, std::size_t out_bytes = 0,
              std::size_t in_bytes = sizeof(Body)) const {
    struct {
      rdma_ucm_cmd_hdr header;
      alignas(8) Body body;
    } whole{};
    whole.header = {number, static_cast<std::uint16_t>(in_bytes),
                    static_cast<std::uint16_t>(out_bytes)};
    whole.body = body;
    return write({reinterpret_cast<const std::byte*>(&whole), sizeof whole.header + in_bytes});
  }
  int write(std::span<const std::byte> bytes) const {
    const auto device = files::find_char_file(fd_);
    if (!device) return EBADF;
    return device->file->write(bytes) == static_cast<ssize_t>(bytes.size()) ? 0 : errno;
  }

  /// Waits; nothing when none comes in time.
  std::optional<rdma_ucm_event_resp> next(int timeout_ms = 20'000) const {
    pollfd entry{fd_, POLLIN, 0};
    if (poll(&entry, 1, timeout_ms) != 1) return {};
    rdma_ucm_event_resp event{};
    const int error = get_event(event);
    EXPECT_EQ(error, 0);
    return event;
  }
  int get_event(rdma_ucm_event_resp& event) const {
    return command(RDMA_USER_CM_CMD_GET_EVENT,
                   rdma_ucm_get_event{reinterpret_cast<std::uint64_t>(&event)}, sizeof event);
  }
  /// The next event's code, and that there is one.
  EventCode next_code(int timeout_ms = 20'000) const {
    const auto event = next(timeout_ms);
    return event ? static_cast<EventCode>(event->event) : static_cast<EventCode>(~0U);
  }

 private:
  int fd_ = -1;
};

/// An identifier, as the program sees it: its handle and what it can do.
struct Id {
  const Channel* channel = nullptr;
  std::uint32_t handle = 0;

  static Id create(const Channel& channel, std::uint16_t space = RDMA_PS_TCP, std::uint64_t uid = 0,
                   std::uint8_t qp_type = 0) {
    rdma_ucm_create_id_resp answer{~0U};
    rdma_ucm_create_id command{};
    command.uid = uid != 0 ? uid : 0x1000;
    command.response = reinterpret_cast<std::uint64_t>(&answer);
    command.ps = space;
    command.qp_type = qp_type;
    EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, command, sizeof answer), 0);
    return {&channel, answer.id};
  }
  /// The number of events reported, or less than 0: errno.
  int destroy() const {
    rdma_ucm_destroy_id_resp answer{~0U};
    rdma_ucm_destroy_id command{reinterpret_cast<std::uint64_t>(&answer), handle, 0};
    const int error = channel->command(RDMA_USER_CM_CMD_DESTROY_ID, command, sizeof answer);
    return error != 0 ? -error : static_cast<int>(answer.events_reported);
  }
  int bind(const char* address, std::uint16_t port) const {
    rdma_ucm_bind_ip command{};
    command.addr = address_of(address, port);
    command.id = handle;
    return channel->command(RDMA_USER_CM_CMD_BIND_IP, command);
  }
  int listen(std::uint32_t backlog = 10) const {
    return channel->command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{handle, backlog});
  }
  int resolve(const char* address, std::uint16_t port, const char* source = nullptr,
              std::uint16_t source_port = 0) const {
    rdma_ucm_resolve_ip command{};
    if (source != nullptr) command.src_addr = address_of(source, source_port);
    command.dst_addr = address_of(address, port);
    command.id = handle;
    command.timeout_ms = 2000;
    return channel->command(RDMA_USER_CM_CMD_RESOLVE_IP, command);
  }
  int resolve_route() const {
    return channel->command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{handle, 2000});
  }
  /// Both steps, with their events.
  void resolve_all(const char* address, std::uint16_t port) const {
    ASSERT_EQ(resolve(address, port), 0);
    ASSERT_EQ(channel->next_code(), EventCode::kAddressResolved);
    ASSERT_EQ(resolve_route(), 0);
    ASSERT_EQ(channel->next_code(), EventCode::kRouteResolved);
  }
  static rdma_ucm_conn_param parameters(std::string_view data, std::uint32_t qpn) {
    rdma_ucm_conn_param to{};
    to.qp_num = qpn;
    std::memcpy(to.private_data, data.data(), data.size());
    to.private_data_len = static_cast<std::uint8_t>(data.size());
    to.responder_resources = 3;
    to.initiator_depth = 2;
    to.retry_count = 5;
    to.rnr_retry_count = 6;
    to.valid = 1;
    return to;
  }
  int connect(std::string_view data = "", std::uint32_t qpn = 0x11) const {
    rdma_ucm_connect command{};
    command.conn_param = parameters(data, qpn);
    command.id = handle;
    command.ece = {0x123456, 0x77};
    return channel->command(RDMA_USER_CM_CMD_CONNECT, command);
  }
  int accept(std::string_view data = "", std::uint32_t qpn = 0x22,
             std::uint64_t uid = 0x2000) const {
    rdma_ucm_accept command{};
    command.uid = uid;
    command.conn_param = parameters(data, qpn);
    command.id = handle;
    command.ece = {0x123456, 0x88};
    return channel->command(RDMA_USER_CM_CMD_ACCEPT, command);
  }
  /// What librdmacm writes when the peer has accepted.
  int confirm() const {
    rdma_ucm_accept command{};
    command.id = handle;
    return channel->command(RDMA_USER_CM_CMD_ACCEPT, command);
  }
  int reject(std::string_view data, std::uint8_t reason = 0) const {
    rdma_ucm_reject command{};
    command.id = handle;
    command.private_data_len = static_cast<std::uint8_t>(data.size());
    command.reason = reason;
    std::memcpy(command.private_data, data.data(), data.size());
    return channel->command(RDMA_USER_CM_CMD_REJECT, command);
  }
  int disconnect() const {
    return channel->command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{handle});
  }
  template <class Value>
  int set_option(std::uint32_t level, std::uint32_t name, const Value& value) const {
    return channel->command(RDMA_USER_CM_CMD_SET_OPTION,
                            rdma_ucm_set_option{reinterpret_cast<std::uint64_t>(&value), handle,
                                                level, name, sizeof value});
  }
  rdma_ucm_query_route_resp route() const {
    rdma_ucm_query_route_resp answer{};
    rdma_ucm_query command{reinterpret_cast<std::uint64_t>(&answer), handle, 0};
    EXPECT_EQ(channel->command(RDMA_USER_CM_CMD_QUERY_ROUTE, command, sizeof answer), 0);
    return answer;
  }
  std::uint16_t port() const { return port_of(route().src_addr); }
  int qp_attributes(std::uint32_t state, ib_uverbs_qp_attr& answer) const {
    rdma_ucm_init_qp_attr command{reinterpret_cast<std::uint64_t>(&answer), handle, state};
    return channel->command(RDMA_USER_CM_CMD_INIT_QP_ATTR, command, sizeof answer);
  }
  /// Moves it to `to`.
  int migrate(const Channel& to, std::uint32_t& reported) {
    rdma_ucm_migrate_resp answer{};
    rdma_ucm_migrate_id command{reinterpret_cast<std::uint64_t>(&answer), handle,
                                static_cast<std::uint32_t>(channel->fd())};
    const int error = to.command(RDMA_USER_CM_CMD_MIGRATE_ID, command, sizeof answer);
    if (error == 0) channel = &to;
    reported = answer.events_reported;
    return error;
  }
};

inline std::string data_of(const rdma_ucm_conn_param& parameters) {
  const auto* const text = reinterpret_cast<const char*>(parameters.private_data);
  return {text, parameters.private_data_len};
}
/// Private data has a fixed length on the wire: the rest is zero.
inline std::string padded(std::string text, std::size_t size) {
  text.resize(size, '\0');
  return text;
}

/// A server and a client, each with its channel, in one process.
struct Pair {
  Channel server, client;
  Id listener = Id::create(server, RDMA_PS_TCP, 0x51),
     active = Id::create(client, RDMA_PS_TCP, 0xC1);
  Id passive{};

  /// Up to the program's decision at the server.
  rdma_ucm_event_resp request(std::string_view data = "", std::uint32_t qpn = 0x11) {
    rdma_ucm_event_resp event{};
    request_into(event, data, qpn);
    return event;
  }
  void request_into(rdma_ucm_event_resp& event, std::string_view data, std::uint32_t qpn) {
    ASSERT_EQ(listener.bind("127.0.0.1", 0), 0);
    ASSERT_EQ(listener.listen(), 0);
    ASSERT_NO_FATAL_FAILURE(active.resolve_all("127.0.0.1", listener.port()));
    ASSERT_EQ(active.connect(data, qpn), 0);
    const auto arrived = server.next();
    ASSERT_TRUE(arrived);
    ASSERT_EQ(static_cast<EventCode>(arrived->event), EventCode::kConnectRequest);
    event = *arrived;
    passive = {&server, arrived->id};
  }
  void establish(std::uint32_t active_qpn = 0x11, std::uint32_t passive_qpn = 0x22) {
    request("", active_qpn);
    ASSERT_EQ(passive.accept("", passive_qpn), 0);
    ASSERT_EQ(client.next_code(), EventCode::kConnectResponse);
    ASSERT_EQ(active.confirm(), 0);
    ASSERT_EQ(server.next_code(), EventCode::kEstablished);
  }
};

}  // namespace weft::ucma::test
