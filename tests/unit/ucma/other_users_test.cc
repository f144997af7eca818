// Another user takes the names of ports: programs of this user bind, listen and connect as if it
// were not there, and none waits for it.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cm/host_exchange.h"
#include "cm/names.h"
#include "support/name_taker.h"
#include "support/soak_time.h"
#include "ucma_kit.h"

namespace weft::ucma::test {
namespace {

using weft::test::NameHold;
using weft::test::NameTaker;

std::vector<std::string> names_of_port(std::uint16_t port) {
  std::vector<std::string> names;
  for (const char* address : {"127.0.0.1", "*4", "*6"}) {
    names.push_back(cm::name_of(cm::kTcpSpace, cm::Port(port), address));
  }
  return names;
}

std::uint16_t port_of_this_process() {
  return static_cast<std::uint16_t>(20'000 + getpid() % 10'000);
}

class UcmaOtherUsers : public testing::Test {
 protected:
  void SetUp() override {
    if (!weft::test::can_be_two_users()) GTEST_SKIP() << "only root can be two users";
  }
};

TEST_F(UcmaOtherUsers, a_port_that_only_another_user_has_refuses_soon) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  for (const NameHold how : {NameHold::kBound, NameHold::kListening, NameHold::kFull}) {
    const std::uint16_t port = port_of_this_process();
    const NameTaker taker(names_of_port(port), how);
    ASSERT_TRUE(taker.ready());
    const Channel channel;
    const Id id = Id::create(channel);
    ASSERT_NO_FATAL_FAILURE(id.resolve_all("127.0.0.1", port));
    ASSERT_EQ(id.connect(), 0);
    EXPECT_EQ(channel.next_code(10'000), EventCode::kRejected) << static_cast<int>(how);
    id.destroy();
  }
}

TEST_F(UcmaOtherUsers, a_port_that_another_user_has_can_be_bound_and_is_connected_to) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  for (const char* address : {"127.0.0.1", "0.0.0.0"}) {
    const std::uint16_t port = port_of_this_process();
    const NameTaker taker(names_of_port(port), NameHold::kFull);
    ASSERT_TRUE(taker.ready());
    Channel server, client;
    const Id listener = Id::create(server), second = Id::create(server),
             active = Id::create(client);
    ASSERT_EQ(listener.bind(address, port), 0);
    EXPECT_EQ(second.bind(address, port), EADDRINUSE) << "it is this user's now";
    ASSERT_EQ(listener.listen(), 0);
    ASSERT_NO_FATAL_FAILURE(active.resolve_all("127.0.0.1", port));
    ASSERT_EQ(active.connect("hello"), 0);
    const auto event = server.next(10'000);
    ASSERT_TRUE(event);
    ASSERT_EQ(static_cast<EventCode>(event->event), EventCode::kConnectRequest);
    EXPECT_EQ(data_of(event->param.conn).substr(0, 5), "hello");
    const Id passive{&server, event->id};
    ASSERT_EQ(passive.accept(), 0);
    EXPECT_EQ(client.next_code(), EventCode::kConnectResponse);
  }
}

TEST_F(UcmaOtherUsers, numbers_of_connections_are_left_when_another_user_has_taken_all) {
  // As many processes as descriptors allow.
  WEFT_NEEDS_OWNERS_OF_NAMES();
  constexpr unsigned kEach = 0x1000;
  std::vector<std::unique_ptr<NameTaker>> takers;
  for (unsigned first = 0; first < 0x10000; first += kEach) {
    takers.push_back(std::make_unique<NameTaker>([first] {
      for (unsigned block = first; block < first + kEach; ++block) {
        weft::test::hold_name(cm::name_of(cm::CommIdBlock(static_cast<std::uint16_t>(block))),
                              NameHold::kBound);
      }
    }));
    if (!takers.back()->ready()) GTEST_SKIP() << "not enough descriptors to take all numbers";
  }
  auto exchange = cm::HostExchange::create().value();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(exchange.claim_block(base::system_random()));
}

/// One connection from end to end.
void connect_once(std::uint16_t port, std::uint64_t round) {
  Channel server, client;
  const Id listener = Id::create(server), active = Id::create(client);
  ASSERT_EQ(listener.bind(round % 2 == 0 ? "127.0.0.1" : "0.0.0.0", port), 0) << round;
  ASSERT_EQ(listener.listen(), 0);
  ASSERT_NO_FATAL_FAILURE(active.resolve_all("127.0.0.1", port));
  ASSERT_EQ(active.connect(), 0);
  const auto event = server.next(20'000);
  ASSERT_TRUE(event) << round;
  ASSERT_EQ(static_cast<EventCode>(event->event), EventCode::kConnectRequest);
  const Id passive{&server, event->id};
  ASSERT_EQ(passive.accept(), 0);
  ASSERT_EQ(client.next_code(20'000), EventCode::kConnectResponse);
  ASSERT_EQ(active.confirm(), 0);
  ASSERT_EQ(server.next_code(20'000), EventCode::kEstablished);
}

TEST_F(UcmaOtherUsers, programs_connect_while_another_user_takes_and_drops_the_names) {
  WEFT_NEEDS_OWNERS_OF_NAMES();
  const std::uint16_t port = port_of_this_process();
  const NameTaker taker([port] {
    if (fork() != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned round = 0;; ++round) {
      std::vector<int> held;
      for (const std::string& name : names_of_port(port)) {
        held.push_back(weft::test::hold_name(name, static_cast<NameHold>(round % 3)));
      }
      usleep(300 + round % 7 * 100);
      for (const int fd : held) {
        if (fd >= 0) close(fd);
      }
      usleep(round % 5 * 100);
    }
  });
  ASSERT_TRUE(taker.ready());
  const auto end =
      std::chrono::steady_clock::now() + weft::test::soak_time(std::chrono::milliseconds(1000));
  std::uint64_t rounds = 0;
  do {
    ASSERT_NO_FATAL_FAILURE(connect_once(port, rounds++));
  } while (std::chrono::steady_clock::now() < end);
}

}  // namespace
}  // namespace weft::ucma::test
