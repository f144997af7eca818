#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "ucma_kit.h"

namespace weft::ucma::test {
namespace {

TEST(UcmaFile, lengths_are_checked_as_the_kernel_does) {
  const Channel channel;
  const std::array<std::byte, 7> few{};
  EXPECT_EQ(channel.write(few), EINVAL);
  rdma_ucm_create_id_resp answer{};
  rdma_ucm_create_id create{};
  create.response = reinterpret_cast<std::uint64_t>(&answer);
  create.ps = RDMA_PS_TCP;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, create, 3), ENOSPC);
  create.response = 0;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, create, 4), EFAULT);
  create.ps = 0x1234;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, create, 4), EINVAL);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_GET_OPTION, create, 4), ENOSYS);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_JOIN_MCAST + 1, create, 4), EINVAL);
  // A header that promises more than was written.
  const rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_CREATE_ID, 1, 4};
  EXPECT_EQ(channel.write(std::as_bytes(std::span(&header, 1))), EINVAL);
}

TEST(UcmaFile, structures_of_older_programs_are_taken) {
  // Without the vendor options at the end of connect and accept, and of the event.
  Pair pair;
  ASSERT_EQ(pair.listener.bind("127.0.0.1", 0), 0);
  ASSERT_EQ(pair.listener.listen(), 0);
  pair.active.resolve_all("127.0.0.1", pair.listener.port());
  rdma_ucm_connect connect{};
  connect.conn_param = Id::parameters("old", 1);
  connect.id = pair.active.handle;
  connect.ece = {0xFFFFFF, 1};  // behind the end
  ASSERT_EQ(
      pair.client.command(RDMA_USER_CM_CMD_CONNECT, connect, 0, offsetof(rdma_ucm_connect, ece)),
      0);
  pollfd entry{pair.server.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 5000), 1);
  rdma_ucm_event_resp event{};
  event.ece.vendor_id = 7;
  const rdma_ucm_get_event get{reinterpret_cast<std::uint64_t>(&event)};
  constexpr std::size_t kOld = offsetof(rdma_ucm_event_resp, reserved);
  EXPECT_EQ(pair.server.command(RDMA_USER_CM_CMD_GET_EVENT, get, kOld - 1), ENOSPC);
  ASSERT_EQ(pair.server.command(RDMA_USER_CM_CMD_GET_EVENT, get, kOld), 0);
  EXPECT_EQ(data_of(event.param.conn), padded("old", 56));
  EXPECT_EQ(event.ece.vendor_id, 7U);  // not touched
}

TEST(UcmaFile, a_nonblocking_file_does_not_wait) {
  for (const bool later : {false, true}) {
    const Channel channel(later ? O_RDWR : O_RDWR | O_NONBLOCK);
    if (later) {
      ASSERT_EQ(fcntl(channel.fd(), F_SETFL, O_NONBLOCK), 0);
    }
    rdma_ucm_event_resp event{};
    EXPECT_EQ(channel.get_event(event), EAGAIN);
    const Id id = Id::create(channel);
    ASSERT_EQ(id.resolve("127.0.0.1", 1), 0);
    EXPECT_EQ(channel.get_event(event), 0);
    EXPECT_EQ(channel.get_event(event), EAGAIN);
  }
}

TEST(UcmaFile, is_readable_exactly_while_events_wait) {
  const Channel channel;
  const Id first = Id::create(channel), second = Id::create(channel);
  ASSERT_EQ(first.resolve("127.0.0.1", 1), 0);
  ASSERT_EQ(second.resolve("127.0.0.1", 1), 0);
  pollfd entry{channel.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 0), 1);
  EXPECT_EQ(first.destroy(), 0);  // its event was not reported
  EXPECT_EQ(poll(&entry, 1, 0), 1);
  const auto event = channel.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, second.handle);
  EXPECT_EQ(poll(&entry, 1, 0), 0);
  EXPECT_EQ(second.destroy(), 1);
}

TEST(UcmaFile, get_event_waits_for_the_event) {
  const Channel channel;
  const Id id = Id::create(channel);
  rdma_ucm_event_resp event{};
  int error = -1;
  std::thread waiter([&] { error = channel.get_event(event); });
  usleep(20'000);
  ASSERT_EQ(id.resolve("127.0.0.1", 1), 0);
  waiter.join();
  EXPECT_EQ(error, 0);
  EXPECT_EQ(event.id, id.handle);
}

std::atomic<int> signals{0};

template <class Condition>
bool comes_true(const Condition& is_true) {
  for (int i = 0; i < 30'000 && !is_true(); ++i) usleep(1000);
  return is_true();
}

bool is_asleep(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  std::string word;
  while (status >> word && word != "State:") continue;
  status >> word;
  return word == "S";
}

TEST(UcmaFile, a_signal_ends_the_wait_unless_it_restarts_calls) {
  const Channel channel;
  for (const bool restarts : {false, true}) {
    struct sigaction action {};
    action.sa_handler = [](int) { ++signals; };
    action.sa_flags = restarts ? SA_RESTART : 0;
    ASSERT_EQ(sigaction(SIGUSR2, &action, nullptr), 0);
    std::atomic<int> error{-1};
    std::atomic<pid_t> thread{0};
    rdma_ucm_event_resp event{};
    std::thread waiter([&] {
      thread = gettid();
      error = channel.get_event(event);
    });
    const int before = signals;
    EXPECT_TRUE(comes_true([&] { return is_asleep(thread); }));
    const auto interrupt = [&] { pthread_kill(waiter.native_handle(), SIGUSR2); };
    if (restarts) {
      interrupt();
      EXPECT_TRUE(comes_true([&] { return signals != before && is_asleep(thread); }));
    } else {
      // Until it has met the wait itself and not what comes before.
      EXPECT_TRUE(comes_true([&] { return interrupt(), error != -1; }));
    }
    EXPECT_EQ(error, restarts ? -1 : EINTR);
    const Id id = Id::create(channel);
    ASSERT_EQ(id.resolve("127.0.0.1", 1), 0);
    waiter.join();
    EXPECT_EQ(error, restarts ? 0 : EINTR);
    id.destroy();
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // It takes the frames that a cancelled thread left for errors.
TEST(UcmaFile, a_cancelled_thread_ends_in_the_wait) {
  const Channel channel;
  pthread_t waiter{};
  const auto run = [](void* argument) -> void* {
    rdma_ucm_event_resp event{};
    static_cast<const Channel*>(argument)->get_event(event);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&waiter, nullptr, run, const_cast<Channel*>(&channel)), 0);
  usleep(20'000);
  ASSERT_EQ(pthread_cancel(waiter), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(waiter, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
  // Nothing is left locked.
  const Id id = Id::create(channel);
  EXPECT_EQ(id.resolve("127.0.0.1", 1), 0);
  EXPECT_EQ(channel.next_code(), EventCode::kAddressResolved);
}
#endif

TEST(UcmaFile, an_identifier_moves_with_its_events) {
  Pair pair;
  pair.request();
  const Channel other;
  // The first event of the new identifier comes to the new channel.
  std::uint32_t reported = 9;
  ASSERT_EQ(pair.passive.migrate(other, reported), 0);
  EXPECT_EQ(reported, 0U);
  ASSERT_EQ(pair.passive.accept(), 0);
  ASSERT_EQ(pair.client.next_code(), EventCode::kConnectResponse);
  ASSERT_EQ(pair.active.confirm(), 0);
  ASSERT_EQ(other.next_code(), EventCode::kEstablished);
  // An event that waits moves too.
  ASSERT_EQ(pair.active.disconnect(), 0);
  pollfd entry{other.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 5000), 1);
  const Channel third;
  ASSERT_EQ(pair.passive.migrate(third, reported), 0);
  EXPECT_EQ(reported, 1U);
  EXPECT_EQ(poll(&entry, 1, 0), 0);
  EXPECT_EQ(third.next_code(), EventCode::kDisconnected);
  EXPECT_EQ(pair.passive.destroy(), 2);
}

TEST(UcmaFile, only_identifiers_of_that_file_move_from_it) {
  const Channel channel, other, third;
  Id id = Id::create(channel);
  Id wrong{&third, id.handle};
  std::uint32_t reported = 0;
  EXPECT_EQ(wrong.migrate(other, reported), EINVAL);
  Id missing{&channel, id.handle + 5};
  EXPECT_EQ(missing.migrate(other, reported), ENOENT);
  rdma_ucm_migrate_id command{reinterpret_cast<std::uint64_t>(&reported), id.handle, 9999};
  EXPECT_EQ(other.command(RDMA_USER_CM_CMD_MIGRATE_ID, command, 4), EINVAL);
  EXPECT_EQ(id.migrate(channel, reported), 0);  // to where it is
}

}  // namespace
}  // namespace weft::ucma::test
