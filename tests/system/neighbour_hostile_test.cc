// A process that a neighbour, or a stranger, wants to stop: by descriptors that both share, by
// messages that nobody reads, by things that are slow to close. It goes on serving everybody else,
// and it closes in time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/intruder.h"
#include "support/neighbour_side.h"
#include "support/sandbox.h"
#include "support/soak_time.h"

namespace weft::test {
namespace {

/// Against a hang; nothing here takes a tenth of it.
constexpr int kClosesIn_ms = 10'000;

/// Everything that a peer can do to a descriptor, in the hope that somebody else waits there.
void spoil(int fd) {
  fcntl(fd, F_SETSIG, 0);
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  const std::uint64_t almost = ~std::uint64_t{1};
  for (int i = 0; i < 4096 && write(fd, &almost, sizeof almost) > 0; ++i) {
  }
  std::uint64_t drained = 0;
  static_cast<void>(!read(fd, &drained, sizeof drained));
  static_cast<void>(!write(fd, &almost, sizeof almost));
  fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

/// A stream socket whose last close takes an hour: what it has sent is never read.
class SlowToClose {
 public:
  SlowToClose() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const any = static_cast<sockaddr*>(static_cast<void*>(&at));
    socklen_t size = sizeof at;
    require(bind(listener_.get(), any, size) == 0 && listen(listener_.get(), 1) == 0 &&
                getsockname(listener_.get(), any, &size) == 0 && connect(fd_.get(), any, size) == 0,
            "a stream on loopback");
    fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
    const std::vector<char> bytes(65'536);
    while (write(fd_.get(), bytes.data(), bytes.size()) > 0) {
    }
    const linger hour{1, 3600};
    require(setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour) == 0, "linger");
    listener_.release();  // for as long as the process lives: its end would be that of the stream
  }
  int fd() const { return fd_.get(); }
  /// Somebody else has it now, and is the last one; or else it is this thread.
  void leave_it() {
    std::thread([fd = fd_.release()] { ::close(fd); }).detach();
  }

 private:
  host::Fd listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  host::Fd fd_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

/// A message with descriptors, of any length.
void send_raw(const host::LocalSocket& socket, std::size_t bytes, const std::vector<int>& fds) {
  const std::vector<std::byte> nothing(bytes, std::byte{3});
  iovec vector{const_cast<std::byte*>(nothing.data()), bytes};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(253 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* const part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  // It may have been turned away by now.
  static_cast<void>(sendmsg(socket.fd(), &header, MSG_NOSIGNAL | MSG_DONTWAIT));
}

// ---- what attackers do, in their process ------------------------------------------------------

/// Links itself and spoils all that it has sent and was given, again and again.
void spoil_everything(const verbs::Endpoint& victim, const Wire& wire) {
  Intruder intruder(victim);
  require(intruder.is_welcome(), "a welcome");
  wire.put('r');
  for (pollfd said{wire.fd(), POLLIN, 0}; ::poll(&said, 1, 1) == 0;) {
    // It asks to be woken, and for something: the victim wakes it with the answer.
    intruder.page->wakes_were_taken();
    intruder.page->request_wake();
    for (host::RingProducer::Answered answered; intruder.ring.peek(&answered);) intruder.ring.pop();
    if (intruder.ring.reserve(0) != nullptr) {
      host::RecordHeader header;
      header.kind = static_cast<std::uint8_t>(host::RecordKind::kFirstOfUser);
      intruder.ring.publish(header, {.owner = nullptr, .cookie = 0, .awaited = true});
    }
    for (const host::Message& message : intruder.received) {
      for (const auto& fd : message.fds) spoil(fd.get());
    }
    spoil(intruder.page->fd());
    spoil(intruder.ring.fd());
    for (int i = 0; i < 1000; ++i) {
      if (send(intruder.socket.fd(), "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
    }
  }
}

/// Sends what takes an hour to close, in every way that there is, and lets go of it.
void send_slow_things(const verbs::Endpoint& victim, const Wire& wire) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, sizeof(host::Handshake)}) {
    for (const std::size_t many : {1, 3, 17}) {
      SlowToClose thing;
      Intruder intruder(victim);
      send_raw(intruder.socket, bytes, std::vector<int>(many, thing.fd()));
      thing.leave_it();
    }
  }
  // As the descriptors of a hello that is one by its bytes.
  SlowToClose thing;
  Intruder intruder(victim);
  host::Handshake hello;
  const std::vector<int> fds{thing.fd(), thing.fd()};
  require(intruder.socket.send(std::as_bytes(std::span(&hello, 1)), fds).has_value(), "a hello");
  thing.leave_it();
  // Behind a good hello, when it is a link.
  SlowToClose late;
  Intruder linked(victim);
  require(linked.is_welcome(), "a welcome");
  send_raw(linked.socket, 1, {late.fd()});
  late.leave_it();
  wire.put('r');
  wire.get<char>();
}

/// The same as another user: nobody asks for what it sends.
void send_slow_things_as_stranger(const verbs::Endpoint& victim, const Wire& wire) {
  become(kNobody - 1);
  for (int i = 0; i < 20; ++i) {
    SlowToClose thing;
    Intruder intruder(victim);
    send_raw(intruder.socket, i % 2, {thing.fd()});
    thing.leave_it();
  }
  wire.put('r');
  wire.get<char>();
}

/// Calls and calls, and says nothing; what it says last nobody has accepted.
void call_without_end(const verbs::Endpoint& victim, const Wire& wire) {
  std::vector<host::LocalSocket> calls;
  for (int i = 0; i < 300; ++i) {
    if (auto call = host::LocalSocket::connect(name_of(victim))) calls.push_back(std::move(*call));
  }
  wire.put('r');
  wire.get<char>();
}

/// The next word of the test process, which may have much to do before.
char wait_long(const Wire& wire) {
  pollfd said{wire.fd(), POLLIN, 0};
  ::poll(&said, 1, -1);
  return wire.get<char>();
}

// ---- what the victim goes on doing ------------------------------------------------------------

using Attack = void (*)(const verbs::Endpoint&, const Wire&);
struct Case {
  const char* name;
  Attack attack;
  bool while_stopped = false;  ///< what is sent lies there before the victim can look
};
class NeighbourHostile : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Attacks, NeighbourHostile,
                         testing::Values(Case{"spoils_what_is_shared", spoil_everything},
                                         Case{"sends_what_is_slow_to_close", send_slow_things},
                                         Case{"sends_it_as_a_stranger",
                                              send_slow_things_as_stranger, true},
                                         Case{"calls_without_end", call_without_end, true}),
                         [](const auto& attack) { return std::string(attack.param.name); });

TEST_P(NeighbourHostile, process_goes_on_and_closes_in_time) {
  Partner target([](const Wire& wire) {
    {
      Side side;
      Served served(side);
      side.connect(wire);
      served.post_all();
      wire.put(side.qp.endpoint());
      wire.put(served.offer());
      // It does not poll: all that it does is its helper's work, and its helper sleeps in between.
      wait_long(wire);
    }
    wire.put('c');
  });
  Partner initiator([](const Wire& wire) {
    Side side;
    Worker worker(side);
    side.connect(wire);
    const auto offer = wire.get<Offer>();
    std::memset(worker.out.data(), 0, 8);
    WEFT_REQUIRE(side.succeeds(side.qp.post_write(worker.out_region.sge(0, 8), offer.heap)));
    while (wait_long(wire) == 'g') {
      // An atomic on the heap is the work of the target's helper.
      WEFT_REQUIRE(worker.adds(offer.heap));
      wire.put('y');
    }
  });
  introduce(target.wire(), initiator.wire());
  const auto where = target.wire().get<verbs::Endpoint>();
  initiator.wire().put(target.wire().get<Offer>());
  const auto works = [&] {
    char said = 0;
    initiator.wire().put('g');
    return initiator.wire().get(&said);
  };
  ASSERT_TRUE(works());

  const auto until = std::chrono::steady_clock::now() + soak_time(std::chrono::milliseconds(300));
  do {
    if (GetParam().while_stopped) target.signal(SIGSTOP);
    Partner attacker([&](const Wire& wire) { GetParam().attack(where, wire); });
    char said = 0;
    ASSERT_TRUE(attacker.wire().get(&said)) << "the attacker failed";
    target.signal(SIGCONT);
    // The helper has been asleep, and has to be woken in the middle of it.
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ASSERT_TRUE(works()) << "the victim serves nobody any more";
    }
    // A newcomer is served as well.
    Partner newcomer([&](const Wire& wire) {
      Intruder caller(where);
      WEFT_REQUIRE(caller.is_welcome());
      wire.put('y');
    });
    ASSERT_TRUE(newcomer.wire().get(&said)) << "nobody new is welcome";
    EXPECT_EQ(newcomer.join(), 0);
    attacker.wire().put('d');
  } while (std::chrono::steady_clock::now() < until);

  initiator.wire().put('e');
  EXPECT_EQ(initiator.join(), 0);
  if (GetParam().while_stopped) target.signal(SIGSTOP);
  Partner attacker([&](const Wire& wire) { GetParam().attack(where, wire); });
  char said = 0;
  ASSERT_TRUE(attacker.wire().get(&said));
  target.wire().put('d');
  target.signal(SIGCONT);
  EXPECT_TRUE(target.wire().get(&said)) << "the victim does not close";
  EXPECT_EQ(target.join(kClosesIn_ms), 0);
}

}  // namespace
}  // namespace weft::test
