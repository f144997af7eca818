// Programs that do with a completion channel what they should not, or what few do: as on hardware,
// the worst that comes of it is an error. Traffic goes on, and nobody hangs. What they do to its
// descriptor is in waiting_descriptor_test.cc.
#include <optional>

#include "support/mailbox.h"
#include "system/waiting_kit.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kSome = 200 / kWaitingSlowness;
/// Until it is known how the program waits.
constexpr std::uint64_t kWarmUp = 20;

class WaitingMisuse : public WaitingSuite {};

TEST_P(WaitingMisuse, arms_for_each_message_and_never_waits) {
  against_sleeper(kSome, [](const Wire& peer) {
    WaitingProgram program;
    set_blocking(program.channel.fd(), blocks(way()));
    program.connection.connect(peer);
    PingPong game(program.connection, Turn::kFirst, kSome);
    program.queue.arm();
    peer.sync();
    game.begin();
    std::uint64_t arms = 1;
    for (ibv_wc wc; !game.over();) {
      if (!program.queue.poll(&wc)) continue;
      game.on_completion(wc);
      program.queue.arm();
      ++arms;
    }
    peer.sync();
    set_blocking(program.channel.fd(), false);
    std::uint64_t events = 0;
    while (take_event(program.channel.shown) != nullptr) ++events;
    WEFT_REQUIRE(errno == EAGAIN && events > 0 && events <= arms);
    peer.sync();
  });
}

TEST_P(WaitingMisuse, arms_one_channel_and_waits_on_another) {
  against_sleeper(kSome, [](const Wire& peer) {
    WaitingProgram program;
    const Channel forgotten(program.opened);
    const Queue silent(program.opened, forgotten);
    set_blocking(forgotten.fd(), blocks(way()));
    program.connection.connect(peer);
    Waiter waiter(program.channel.shown, way());
    program.play(peer, Turn::kFirst, kSome, [&] {
      silent.arm();
      waiter.next();
    });
    peer.sync();
  });
}

TEST_P(WaitingMisuse, destroys_what_is_armed_and_begins_again) {
  constexpr int kTimes = 5;
  both([](const Wire& peer, Turn turn) {
    const Opened opened;
    for (int i = 0; i < kTimes; ++i) {
      std::optional<Channel> channel(std::in_place, opened);
      std::optional<Queue> queue(std::in_place, opened, *channel);
      std::optional<Connection> connection(std::in_place, opened, *queue);
      std::optional<Waiter> waiter(std::in_place, channel->shown, way());
      connection->connect(peer);
      PingPong game(*connection, turn, kWarmUp);
      queue->arm();
      peer.sync();
      game.begin();
      while (!game.over()) {
        waiter->next();
        queue->arm();
        for (ibv_wc wc; queue->poll(&wc);) game.on_completion(wc);
      }
      queue->arm();
      peer.sync();
      WEFT_REQUIRE(ibv_destroy_comp_channel(channel->shown) == EBUSY);
      waiter.reset();
      connection.reset();
      WEFT_REQUIRE(ibv_destroy_comp_channel(channel->shown) == EBUSY);
      queue.reset();
      channel.reset();
    }
    peer.sync();
  });
}

TEST_P(WaitingMisuse, destroys_one_channel_while_it_waits_on_another) {
  // The one that goes is the one whose descriptor carries the sockets, if any does.
  constexpr std::uint64_t kTimes = 10;
  between_two_processes(
      path(),
      [](const Wire& peer) {
        const Opened opened;
        const Channel stays(opened);
        const Queue queue(opened, stays);
        Connection connection(opened, queue);
        connection.connect(peer);
        Waiter waiter(stays.shown, way());
        for (std::uint64_t i = 0; i < kTimes; ++i) {
          {
            const Channel goes(opened);
            const Queue armed(opened, goes);
            set_blocking(goes.fd(), blocks(way()));
            for (int n = 0; n < 10; ++n) armed.arm();
            queue.arm();
          }
          peer.put('g');
          waiter.next();
          WEFT_REQUIRE(connection.take(queue.spin()) == i);
          moved();
        }
        peer.sync();
      },
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        for (std::uint64_t i = 0; i < kTimes; ++i) {
          peer.get<char>();
          program.connection.send(i);
          WEFT_REQUIRE(program.queue.spin().status == IBV_WC_SUCCESS);
          moved();
        }
        peer.sync();
      });
}

TEST_P(WaitingMisuse, arms_and_computes_while_its_peer_is_served) {
  struct Over {
    std::atomic<bool> said{false};
  };
  Mailbox<Over> over;
  constexpr std::uint64_t kServed = 100;
  between_two_processes(
      path(),
      [&](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        program.play(peer, Turn::kFirst, kWarmUp, way());
        program.queue.arm();
        peer.sync();
        alarm(3 * kPatience_s);
        while (!over->said.load(std::memory_order_relaxed)) {  // not a single call
        }
        std::uint64_t received = 0;
        for (ibv_wc wc; received < kServed;) {
          if (!program.queue.poll(&wc)) continue;
          WEFT_REQUIRE(program.connection.take(wc) == received++);
        }
        peer.sync();
      },
      [&](const Wire& peer) {
        WaitingProgram program;
        Connection& connection = program.connection;
        connection.connect(peer);
        program.play(peer, Turn::kSecond, kWarmUp, Way::kCall);
        peer.sync();
        const auto finishes = [&] {
          const ibv_wc wc = program.queue.spin();
          moved();
          return wc.status == IBV_WC_SUCCESS;
        };
        for (std::uint64_t i = 0; i < kServed; ++i) {
          connection.write(i);
          WEFT_REQUIRE(finishes());
          connection.read();
          WEFT_REQUIRE(finishes() && connection.was_read() == i);
          connection.add();
          WEFT_REQUIRE(finishes());
          // As many as there are buffers for: nobody posts more.
          if (i % 4 == 0) {
            connection.send(i / 4);
            WEFT_REQUIRE(finishes());
          }
        }
        over->said = true;
        for (std::uint64_t i = kServed / 4; i < kServed; ++i) {
          connection.send(i);
          WEFT_REQUIRE(finishes());
        }
        peer.sync();
      });
}

INSTANTIATE_TEST_SUITE_P(PathsAndWays, WaitingMisuse,
                         testing::Combine(testing::Values(WaitPath::kNeighbour, WaitPath::kFramed),
                                          testing::Values(Way::kCall, Way::kEpoll,
                                                          Way::kPollThenCall)),
                         name_of_setting);

}  // namespace
}  // namespace weft::test
