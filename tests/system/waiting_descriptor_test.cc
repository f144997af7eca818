// Programs that change, duplicate, hand over, inherit or close the descriptor of a completion
// channel while they wait on it: a readable descriptor never makes a call wait that has none to
// give, and nothing is lost.
#include <sys/socket.h>

#include <memory>

#include "system/waiting_kit.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kTurns = 200 / kWaitingSlowness;
constexpr std::uint64_t kFewTurns = 20;

class WaitingDescriptor : public WaitingSuite {};

TEST_P(WaitingDescriptor, sets_and_clears_O_NONBLOCK_while_it_waits) {
  against_sleeper(kTurns, [](const Wire& peer) {
    WaitingProgram program;
    const int fd = program.channel.fd();
    set_blocking(fd, blocks(way()));
    program.connection.connect(peer);
    int turn = 0;
    program.play(peer, Turn::kFirst, kTurns, [&] {
      for (;;) {
        // Long enough each way for weft to see how the program waits.
        if (++turn % 8 == 0) set_blocking(fd, turn % 16 == 0);
        WEFT_REQUIRE(is_readable(fd, -1));
        if (take_without_sleep(program.channel.shown) != nullptr) return;
        WEFT_REQUIRE(errno == EAGAIN);
      }
    });
    peer.sync();
  });
}

/// Waits as a program does that takes a readable descriptor for an event, on one whose flags have
/// changed since the queue was armed: messages come, and most of them are no event. The call may
/// say that there is none; it must not wait for one.
TEST_P(WaitingDescriptor, never_makes_a_call_sleep_after_poll_found_it_readable) {
  constexpr std::uint64_t kTimes = 20;
  constexpr std::uint64_t kMessages = kFewTurns + 2 * kTimes;
  between_two_processes(
      path(),
      [](const Wire& peer) {
        WaitingProgram program;
        const int fd = program.channel.fd();
        program.connection.connect(peer);
        Waiter waiter(program.channel.shown, way());
        std::uint64_t next = 0;
        for (; next < kFewTurns; ++next) {
          program.queue.arm(true);
          peer.put('s');
          waiter.next();
          WEFT_REQUIRE(program.connection.take(program.queue.spin()) == next);
        }
        while (next < kMessages) {
          set_blocking(fd, blocks(way()));
          program.queue.arm(true);
          set_blocking(fd, true);
          peer.put('u');
          for (int n = 0; n < 20; ++n) {
            if (!is_readable(fd, 1)) continue;
            WEFT_REQUIRE(take_without_sleep(program.channel.shown) == nullptr && errno == EAGAIN);
          }
          peer.put('s');
          for (;;) {
            WEFT_REQUIRE(is_readable(fd, -1));
            if (take_without_sleep(program.channel.shown) != nullptr) break;
            WEFT_REQUIRE(errno == EAGAIN);
          }
          moved();
          for (int n = 0; n < 2; ++n) {
            WEFT_REQUIRE(program.connection.take(program.queue.spin()) == next++);
          }
        }
        peer.sync();
      },
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        for (std::uint64_t i = 0; i < kMessages; ++i) {
          program.connection.send(i, peer.get<char>() == 's' ? IBV_SEND_SOLICITED : 0);
          WEFT_REQUIRE(program.queue.spin().status == IBV_WC_SUCCESS);
          moved();
        }
        peer.sync();
      });
}

TEST_P(WaitingDescriptor, polls_duplicates_of_the_descriptor) {
  against_sleeper(kTurns, [](const Wire& peer) {
    WaitingProgram program;
    set_blocking(program.channel.fd(), blocks(way()));
    program.connection.connect(peer);
    int copy = dup(program.channel.fd());
    std::uint64_t turn = 0;
    program.play(peer, Turn::kFirst, kTurns, [&] {
      for (;;) {
        if (++turn % 16 == 0) {
          close(copy);
          copy = dup(program.channel.fd());
        }
        WEFT_REQUIRE(is_readable(copy, -1));
        if (take_without_sleep(program.channel.shown) != nullptr) return;
        WEFT_REQUIRE(errno == EAGAIN && !blocks(way()));
      }
    });
    close(copy);
    peer.sync();
  });
}

void send_descriptor(const Wire& to, int fd) {
  char letter = 'f';
  iovec part{&letter, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  WEFT_REQUIRE(sendmsg(to.fd(), &message, 0) == 1);
}

int receive_descriptor(const Wire& from) {
  char letter = 0;
  iovec part{&letter, 1};
  int fd = -1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  WEFT_REQUIRE(recvmsg(from.fd(), &message, MSG_CMSG_CLOEXEC) == 1);
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  WEFT_REQUIRE(header != nullptr && header->cmsg_type == SCM_RIGHTS);
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

TEST_P(WaitingDescriptor, lets_another_process_poll_the_descriptor) {
  against_sleeper(kTurns, [](const Wire& peer) {
    Partner watcher([](const Wire& owner) {
      const int fd = receive_descriptor(owner);
      for (char asked = 0; owner.get(&asked) && asked == 'p';) {
        WEFT_REQUIRE(is_readable(fd, -1));
        owner.put('r');
      }
    });
    WaitingProgram program;
    set_blocking(program.channel.fd(), blocks(way()));
    program.connection.connect(peer);
    send_descriptor(watcher.wire(), program.channel.fd());
    program.play(peer, Turn::kFirst, kTurns, [&] {
      for (;;) {
        watcher.wire().put('p');
        watcher.wire().get<char>();
        if (take_without_sleep(program.channel.shown) != nullptr) return;
        WEFT_REQUIRE(errno == EAGAIN && !blocks(way()));
      }
    });
    watcher.wire().put('e');
    WEFT_REQUIRE(watcher.join() == 0);
    peer.sync();
  });
}

/// A child that polls what it has inherited, and ends when it has seen the parent's event.
void watch_as_child(const WaitingProgram& program, const Wire& parent, bool runs_handlers) {
  parent.put('w');
  WEFT_REQUIRE(is_readable(program.channel.fd(), -1));
  // The events are the parent's.
  WEFT_REQUIRE(take_event(program.channel.shown) == nullptr && errno != EAGAIN);
  ibv_req_notify_cq(program.queue.shown, 0);
  parent.put('r');
  if (runs_handlers) std::exit(0);
}

TEST_P(WaitingDescriptor, forks_while_it_is_armed) {
  constexpr std::uint64_t kChildren = 4;
  between_two_processes(
      path(),
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        Waiter waiter(program.channel.shown, way());
        std::unique_ptr<Partner> keeps_it;
        for (std::uint64_t i = 0; i < kChildren; ++i) {
          program.play(peer, Turn::kFirst, kFewTurns, [&] { waiter.next(); });
          set_blocking(program.channel.fd(), false);
          while (take_event(program.channel.shown) != nullptr) {
          }
          set_blocking(program.channel.fd(), blocks(way()));
          program.queue.arm();
          // The leak sanitizer would miss what the threads had that did not come along.
          const bool runs_handlers = i % 2 == 0 && kWaitingSlowness == 1;
          Partner child(
              [&](const Wire& parent) { watch_as_child(program, parent, runs_handlers); });
          child.wire().get<char>();
          peer.put('g');
          child.wire().get<char>();
          WEFT_REQUIRE(child.join() == 0);
          waiter.next();
          WEFT_REQUIRE(program.connection.take(program.queue.spin()) == i);
          moved();
          // One that stays, and has the descriptor.
          keeps_it = std::make_unique<Partner>([](const Wire& parent) { parent.get<char>(); });
        }
        peer.sync();
      },
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        for (std::uint64_t i = 0; i < kChildren; ++i) {
          program.play(peer, Turn::kSecond, kFewTurns, Way::kCall);
          peer.get<char>();
          program.connection.send(i);
          WEFT_REQUIRE(program.queue.spin().status == IBV_WC_SUCCESS);
        }
        peer.sync();
      });
}

TEST_P(WaitingDescriptor, closes_the_descriptor_and_goes_on) {
  between_two_processes(
      path(),
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        program.play(peer, Turn::kFirst, kFewTurns, way());
        program.queue.arm();
        const int number = program.channel.fd();
        close(number);
        peer.put('g');
        program.connection.take(program.queue.spin());
        // An event that came before may still be had.
        for (int i = 0; i < 100 && take_event(program.channel.shown) != nullptr; ++i) {
        }
        WEFT_REQUIRE(take_event(program.channel.shown) == nullptr);
        WEFT_REQUIRE(errno == EBADF);
        program.queue.arm();
        program.play_spinning(peer, Turn::kFirst, kFewTurns);
        // Now the number is another file of the program's.
        const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
        WEFT_REQUIRE(dup2(other, number) == number);
        program.queue.arm();
        program.play_spinning(peer, Turn::kFirst, kFewTurns);
        for (int i = 0; i < 10; ++i) program.queue.arm();
        program.play_spinning(peer, Turn::kFirst, kFewTurns);
        peer.sync();
      },
      [](const Wire& peer) {
        WaitingProgram program;
        program.connection.connect(peer);
        program.play(peer, Turn::kSecond, kFewTurns, Way::kCall);
        peer.get<char>();
        program.connection.send(0);
        WEFT_REQUIRE(program.queue.spin().status == IBV_WC_SUCCESS);
        for (int i = 0; i < 3; ++i) program.play_spinning(peer, Turn::kSecond, kFewTurns);
        peer.sync();
      });
}

INSTANTIATE_TEST_SUITE_P(PathsAndWays, WaitingDescriptor,
                         testing::Combine(testing::Values(WaitPath::kNeighbour, WaitPath::kFramed),
                                          testing::Values(Way::kCall, Way::kEpoll,
                                                          Way::kPollThenCall)),
                         name_of_setting);

}  // namespace
}  // namespace weft::test
