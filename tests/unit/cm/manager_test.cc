#include "cm/manager.h"

#include <gtest/gtest.h>

#include "cm_world.h"

namespace weft::cm::simulated {
namespace {

using Kind = Event::Kind;

const Gid kServerHost = Gid::ipv4(10, 1, 2, 3), kClientHost = Gid::ipv4(10, 1, 2, 4);
constexpr Port kServerPort{7000};
constexpr Nanoseconds kSecond = 1'000'000'000;

SocketAddress at(const Gid& address, Port port) { return {Family::kIpv4, address, port}; }

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The only event that the process was told since the last look, and its kind.
std::optional<Notify> only_event(Process& process, Kind kind) {
  const auto events = process.take_events();
  EXPECT_EQ(events.size(), 1u);
  if (events.size() != 1) return {};
  EXPECT_EQ(events[0].event.kind, kind);
  return events[0].event.kind == kind ? std::optional(events[0]) : std::nullopt;
}

/// A listener and a client, on one host or on two.
class TwoEnds {
 public:
  explicit TwoEnds(bool same_host, std::uint64_t seed = 1, QpType type = QpType::kReliable)
      : world(seed),
        server(world.add(kServerHost)),
        client(world.add(same_host ? kServerHost : kClientHost)),
        space(type == QpType::kDatagram ? kUdpSpace : kTcpSpace) {
    listener = server.manager.create(space, type).value();
    active = client.manager.create(space, type).value();
  }

  void listen(std::uint32_t backlog = 8) {
    EXPECT_TRUE(server.manager.bind(*listener, at(kServerHost, kServerPort), world.now));
    EXPECT_TRUE(server.manager.listen(*listener, backlog, world.now));
  }
  void resolve(Identifier& id) {
    client.run([&](Manager& manager, Nanoseconds now, Actions& out) {
      return manager.resolve_address(id, {}, at(kServerHost, kServerPort), now, out);
    });
    EXPECT_TRUE(only_event(client, Kind::kAddressResolved));
    client.run([&](Manager& manager, Nanoseconds, Actions& out) {
      return manager.resolve_route(id, out);
    });
    EXPECT_TRUE(only_event(client, Kind::kRouteResolved));
  }
  void connect(Identifier& id) {
    resolve(id);
    const auto data = bytes_of("hello");
    EXPECT_TRUE(client.run([&](Manager& manager, Nanoseconds now, Actions& out) {
      return manager.connect(id, {.qpn = Qpn(0x11)}, data, now, out);
    }));
  }
  Identifier* requested() {
    const auto request = only_event(server, Kind::kConnectRequest);
    return request ? server.manager.find(request->event.child) : nullptr;
  }
  bool accept(Identifier& id) {
    return server
        .run([&](Manager& manager, Nanoseconds now, Actions& out) {
          return manager.accept(id, {.qpn = Qpn(0x22)}, {}, now, out);
        })
        .has_value();
  }
  bool confirm() {
    return client
        .run([&](Manager& manager, Nanoseconds now, Actions& out) {
          return manager.confirm(*active, now, out);
        })
        .has_value();
  }
  bool disconnect(Process& process, Identifier& id) {
    return process
        .run([&](Manager& manager, Nanoseconds now, Actions& out) {
          return manager.disconnect(id, now, out);
        })
        .has_value();
  }
  void establish() {
    listen();
    connect(*active);
    world.run_for(kSecond / 100);
    passive = requested();
    ASSERT_NE(passive, nullptr);
    ASSERT_TRUE(accept(*passive));
    world.run_for(kSecond / 100);
    ASSERT_TRUE(only_event(client, Kind::kReplied));
    ASSERT_TRUE(confirm());
    world.run_for(kSecond / 100);
    ASSERT_TRUE(only_event(server, Kind::kEstablished));
  }

  World world;
  Process& server;
  Process& client;
  PortSpace space;
  Identifier* listener = nullptr;
  Identifier* active = nullptr;
  Identifier* passive = nullptr;
};

class Manage : public testing::TestWithParam<bool> {};

TEST_P(Manage, a_connection_from_the_request_to_the_end_of_its_timewait) {
  TwoEnds ends(GetParam());
  ASSERT_NO_FATAL_FAILURE(ends.establish());
  EXPECT_EQ(ends.passive->connection->terms().remote_qpn, Qpn(0x11));
  EXPECT_EQ(ends.active->connection->terms().remote_qpn, Qpn(0x22));
  EXPECT_EQ(ends.active->connection->terms().send_psn,
            ends.passive->connection->terms().receive_psn);
  EXPECT_EQ(ends.passive->destination.address, GetParam() ? kServerHost : kClientHost);
  ASSERT_TRUE(ends.disconnect(ends.client, *ends.active));
  ends.world.run_for(kSecond / 100);
  EXPECT_TRUE(only_event(ends.server, Kind::kDisconnected));
  ASSERT_TRUE(ends.disconnect(ends.server, *ends.passive));
  ends.world.run_for(kSecond / 100);
  EXPECT_TRUE(only_event(ends.client, Kind::kDisconnected));
  ends.world.run_for(3 * kSecond);
  EXPECT_TRUE(only_event(ends.client, Kind::kTimewaitOver));
  EXPECT_TRUE(only_event(ends.server, Kind::kTimewaitOver));
  EXPECT_EQ(ends.client.manager.next_deadline(), kNever) << "nothing is waited for any more";
}

TEST_P(Manage, a_request_brings_its_private_data_and_a_reject_brings_back_others) {
  TwoEnds ends(GetParam());
  ends.listen();
  ends.connect(*ends.active);
  ends.world.run_for(kSecond / 100);
  const auto request = only_event(ends.server, Kind::kConnectRequest);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->identifier, ends.listener->handle);
  const auto hello = bytes_of("hello"), sorry = bytes_of("sorry");
  ASSERT_GE(request->event.private_data.size(), hello.size());
  EXPECT_TRUE(std::equal(hello.begin(), hello.end(), request->event.private_data.begin()));
  Identifier& child = *ends.server.manager.find(request->event.child);
  ASSERT_TRUE(ends.server.run([&](Manager& manager, Nanoseconds now, Actions& out) {
    return manager.reject(child, RejectReason::kConsumer, sorry, now, out);
  }));
  ends.world.run_for(kSecond / 100);
  const auto rejected = only_event(ends.client, Kind::kRejected);
  ASSERT_TRUE(rejected);
  EXPECT_TRUE(std::equal(sorry.begin(), sorry.end(), rejected->event.private_data.begin()));
}

TEST_P(Manage, a_port_on_which_nobody_listens_refuses_after_being_asked_again) {
  TwoEnds ends(GetParam());
  ends.connect(*ends.active);
  ends.world.run_for(kSecond / 4);
  EXPECT_TRUE(ends.client.take_events().empty()) << "the next listener may be on its way";
  ends.world.run_for(kSecond);
  const auto rejected = only_event(ends.client, Kind::kRejected);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->event.reason, RejectReason::kInvalidServiceId);
}

TEST_P(Manage, a_listener_that_comes_late_is_found) {
  TwoEnds ends(GetParam());
  ends.connect(*ends.active);
  ends.world.run_for(kSecond / 4);
  ends.listen();
  ends.world.run_for(kSecond);
  EXPECT_NE(ends.requested(), nullptr);
}

TEST_P(Manage, a_request_beyond_the_backlog_waits_for_room) {
  TwoEnds ends(GetParam());
  ends.listen(1);
  Identifier* const other = ends.client.manager.create(kTcpSpace, QpType::kReliable).value();
  ends.connect(*ends.active);
  ends.connect(*other);
  ends.world.run_for(kSecond / 20);
  EXPECT_NE(ends.requested(), nullptr);
  ends.world.run_for(kSecond);
  EXPECT_TRUE(ends.server.take_events().empty());
  Manager::request_taken(*ends.listener);
  ends.world.run_for(3 * kSecond);
  EXPECT_NE(ends.requested(), nullptr);
}

TEST_P(Manage, a_datagram_service_is_asked_and_answers) {
  TwoEnds ends(GetParam(), 1, QpType::kDatagram);
  ends.listen();
  ends.resolve(*ends.active);
  ASSERT_TRUE(ends.client.run([&](Manager& manager, Nanoseconds now, Actions& out) {
    return manager.ask(*ends.active, {}, now, out);
  }));
  ends.world.run_for(kSecond / 100);
  Identifier* const child = ends.requested();
  ASSERT_NE(child, nullptr);
  child->qkey = QKey(0x55);
  ASSERT_TRUE(ends.server.run([&](Manager& manager, Nanoseconds now, Actions& out) {
    return manager.answer(*child, {.qpn = Qpn(0x33)}, {}, now, out);
  }));
  ends.world.run_for(kSecond / 100);
  EXPECT_TRUE(only_event(ends.client, Kind::kResolved));
  EXPECT_EQ(ends.active->query->qpn(), Qpn(0x33));
  EXPECT_EQ(ends.active->query->qkey(), QKey(0x55));
}

TEST_P(Manage, the_end_waits_for_messages_that_were_not_fetched) {
  TwoEnds ends(GetParam());
  ASSERT_NO_FATAL_FAILURE(ends.establish());
  ends.server.unfetched = true;
  ASSERT_TRUE(ends.disconnect(ends.client, *ends.active));
  ends.world.run_for(kSecond / 50);
  EXPECT_TRUE(ends.server.take_events().empty());
  ends.server.unfetched = false;
  ends.world.run_for(kSecond / 20);
  EXPECT_TRUE(only_event(ends.server, Kind::kDisconnected));
}

TEST_P(Manage, what_is_destroyed_tells_its_peer) {
  TwoEnds ends(GetParam());
  ASSERT_NO_FATAL_FAILURE(ends.establish());
  ends.server.run([&](Manager& manager, Nanoseconds, Actions& out) {
    manager.destroy(*ends.passive, out);
    return true;
  });
  ends.world.run_for(kSecond / 100);
  EXPECT_TRUE(only_event(ends.client, Kind::kDisconnected));
}

INSTANTIATE_TEST_SUITE_P(Over, Manage, testing::Bool(),
                         [](const auto& over) { return over.param ? "links" : "network"; });

TEST(Manager, the_death_of_a_peer_on_this_host_is_a_disconnect) {
  TwoEnds ends(true);
  ASSERT_NO_FATAL_FAILURE(ends.establish());
  ends.world.kill(ends.client);
  ends.world.run_for(kSecond / 100);
  EXPECT_TRUE(only_event(ends.server, Kind::kDisconnected));
}

TEST(Manager, the_end_of_a_program_is_told_to_peers_on_other_hosts) {
  TwoEnds ends(false);
  ASSERT_NO_FATAL_FAILURE(ends.establish());
  ends.client.run([&](Manager& manager, Nanoseconds, Actions& out) {
    manager.close_all(out);
    return true;
  });
  ends.world.run_for(kSecond / 100);
  EXPECT_TRUE(only_event(ends.server, Kind::kDisconnected));
}

/// Everything that both ends were told until both are connected, under these fates.
std::vector<Kind> connect_under(std::uint64_t seed, bool* connected) {
  TwoEnds ends(false, seed);
  base::SeededRandom fates(seed);
  ends.world.copies = [&](const Packet&) {
    const auto fate = fates.below(10);
    return fate < 3 ? 0 : fate < 5 ? 2 : 1;
  };
  ends.world.delay = [&] { return 1000 + fates.below(kSecond / 4); };
  ends.listen();
  ends.connect(*ends.active);
  std::vector<Kind> told;
  Identifier* child = nullptr;
  bool established = false;
  for (int i = 0; i < 6000 && !established; ++i) {
    ends.world.run_for(kSecond / 10);
    for (const auto& [id, event] : ends.server.take_events()) {
      told.push_back(event.kind);
      if (event.kind == Kind::kConnectRequest) {
        child = ends.server.manager.find(event.child);
        EXPECT_TRUE(ends.accept(*child));
      }
      established |= event.kind == Kind::kEstablished;
    }
    for (const auto& [id, event] : ends.client.take_events()) {
      told.push_back(event.kind);
      if (event.kind == Kind::kReplied) {
        EXPECT_TRUE(ends.confirm());
      }
    }
  }
  *connected = established && ends.active->connection->phase() == Connection::Phase::kEstablished;
  return told;
}

TEST(Manager, connects_while_messages_are_lost_doubled_and_reordered) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    bool connected = false;
    const auto told = connect_under(seed, &connected);
    EXPECT_TRUE(connected) << "seed " << seed;
    EXPECT_EQ(told, (std::vector{Kind::kConnectRequest, Kind::kReplied, Kind::kEstablished}))
        << "seed " << seed;
  }
}

/// What both programs do at each step of a connection that ends again.
void react(TwoEnds& ends) {
  for (const auto& [id, event] : ends.server.take_events()) {
    if (event.kind == Kind::kConnectRequest) {
      ends.passive = ends.server.manager.find(event.child);
      EXPECT_TRUE(ends.accept(*ends.passive));
    } else if (event.kind == Kind::kDisconnected) {
      EXPECT_TRUE(ends.disconnect(ends.server, *ends.passive));
    }
  }
  for (const auto& [id, event] : ends.client.take_events()) {
    if (event.kind != Kind::kReplied) continue;
    EXPECT_TRUE(ends.confirm());
    EXPECT_TRUE(ends.disconnect(ends.client, *ends.active));
  }
}

/// Kills one of them after so many steps. False: all was over before that.
bool survives_death(bool same_host, bool of_client, int steps) {
  TwoEnds ends(same_host);
  ends.listen();
  ends.connect(*ends.active);
  for (int i = 0; i < steps; ++i) {
    if (!ends.world.step(100 * kSecond)) return false;
    react(ends);
  }
  Process& survivor = of_client ? ends.server : ends.client;
  ends.world.kill(of_client ? ends.client : ends.server);
  // So long may a peer be waited for that has asked for patience.
  ends.world.run_for(2000 * kSecond);
  const Identifier* const id = of_client ? ends.passive : ends.active;
  const auto phase =
      id != nullptr && id->connection ? id->connection->phase() : Connection::Phase::kEnded;
  // Whether a program that has not said what it wants is to go on is the program's decision.
  const bool waits_for_program = phase == Connection::Phase::kRequestReceived ||
                                 phase == Connection::Phase::kReplyReceived ||
                                 phase == Connection::Phase::kDisconnectReceived;
  const bool is_over = phase == Connection::Phase::kEnded;
  // Nobody tells of a death on another host: the queue pair notices.
  const bool unaware = !same_host && phase == Connection::Phase::kEstablished;
  EXPECT_TRUE(is_over || waits_for_program || unaware) << static_cast<int>(phase);
  EXPECT_EQ(survivor.manager.next_deadline(), kNever);
  return true;
}

TEST_P(Manage, the_death_of_either_end_at_any_step_leaves_nobody_waiting_for_ever) {
  for (const bool of_client : {false, true}) {
    int steps = 0;
    while (survives_death(GetParam(), of_client, steps) && !HasFailure()) ++steps;
    EXPECT_GE(steps, 6);
  }
}

TEST(Manager, the_same_seed_gives_the_same_numbers) {
  const auto numbers = [](std::uint64_t seed) {
    TwoEnds ends(false, seed);
    ends.establish();
    return std::pair(ends.active->connection->local(), ends.passive->connection->local());
  };
  EXPECT_EQ(numbers(7), numbers(7));
  EXPECT_NE(numbers(7), numbers(8));
}

TEST(Manager, errors_say_what_was_wrong) {
  TwoEnds ends(true);
  ends.listen();
  Manager& manager = ends.client.manager;
  Identifier& id = *ends.active;
  const auto code = [](const Result<void>& result) { return result.error().code; };
  Actions out;
  EXPECT_EQ(code(manager.bind(id, at(Gid::ipv4(203, 0, 113, 7), Port(0)), 1)), Errc::kNotFound);
  EXPECT_EQ(code(manager.bind(id, at(kServerHost, kServerPort), 1)), Errc::kBusy);
  EXPECT_EQ(code(manager.connect(id, {}, {}, 1, out)), Errc::kInvalidState);
  EXPECT_EQ(code(manager.confirm(id, 1, out)), Errc::kInvalidState);
  EXPECT_EQ(code(manager.disconnect(id, 1, out)), Errc::kInvalidState);
  ends.resolve(id);
  const std::vector<std::byte> long_data(57);
  EXPECT_EQ(code(manager.connect(id, {}, long_data, 1, out)), Errc::kInvalidArgument);
  EXPECT_EQ(code(manager.listen(id, 1, 1)), Errc::kInvalidState);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace weft::cm::simulated
