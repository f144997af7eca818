// A program that closes every descriptor it finds, as daemons do: weft's connections with other
// processes end in order, its helper thread stays quiet, and whatever the program opens afterwards
// under the same numbers is left alone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <thread>

#include "support/neighbour_side.h"

namespace weft::test {
namespace {

void close_all_but(int kept) {
  const auto close_range = [](unsigned first, unsigned last) {
    return first > last || syscall(SYS_close_range, first, last, 0) == 0;
  };
  WEFT_REQUIRE(close_range(3, static_cast<unsigned>(kept) - 1));
  WEFT_REQUIRE(close_range(static_cast<unsigned>(kept) + 1, ~0u));
}

/// Files of the program's own, of every kind, under the numbers that weft had. Each would show that
/// somebody read, wrote, accepted or closed.
class OwnFiles {
 public:
  static constexpr std::uint64_t kCount = 77;
  static constexpr int kRounds = 12;

  OwnFiles() {
    for (int i = 0; i < kRounds; ++i) {
      counters_.push_back(eventfd(kCount, EFD_NONBLOCK));
      files_.push_back(memfd_create("own", 0));
      WEFT_REQUIRE(write(files_.back(), "0123456789", 10) == 10);
      WEFT_REQUIRE(lseek(files_.back(), 5, SEEK_SET) == 5);
      int ends[2];
      WEFT_REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0);
      WEFT_REQUIRE(send(ends[0], "one", 3, 0) == 3 && send(ends[1], "two", 3, 0) == 3);
      sockets_.push_back(ends[0]);
      sockets_.push_back(ends[1]);
      epolls_.push_back(epoll_create1(0));
      epoll_event once{};
      once.events = EPOLLIN | EPOLLONESHOT;
      once.data.u64 = 1;
      WEFT_REQUIRE(epoll_ctl(epolls_.back(), EPOLL_CTL_ADD, ends[0], &once) == 0);
    }
  }

  bool untouched() const {
    for (const int fd : counters_) {
      eventfd_t count = 0;
      if (eventfd_read(fd, &count) != 0 || count != kCount) return false;
    }
    for (const int fd : files_) {
      if (lseek(fd, 0, SEEK_CUR) != 5 || lseek(fd, 0, SEEK_END) != 10) return false;
    }
    for (const int fd : epolls_) {
      epoll_event event{};
      if (epoll_wait(fd, &event, 1, 0) != 1) return false;
    }
    for (std::size_t i = 0; i < sockets_.size(); ++i) {
      char text[16];
      if (recv(sockets_[i], text, sizeof text, 0) != 3 || text[0] != (i % 2 == 0 ? 't' : 'o') ||
          recv(sockets_[i], text, sizeof text, 0) != -1 || errno != EAGAIN) {
        return false;
      }
    }
    return true;
  }
  bool open() const {
    for (const auto* fds : {&counters_, &files_, &sockets_, &epolls_}) {
      for (const int fd : *fds) {
        if (fcntl(fd, F_GETFD) < 0) return false;
      }
    }
    return true;
  }

 private:
  std::vector<int> counters_, files_, sockets_, epolls_;
};

/// Nothing of weft's is running hot.
void expect_quiet_helper() {
  const pid_t helper = helper_of(getpid());
  WEFT_REQUIRE(helper != 0);
  const Usage before = usage_of(getpid(), helper);
  std::this_thread::sleep_for(500ms);
  const Usage after = usage_of(getpid(), helper);
  WEFT_REQUIRE(after.cpu_us - before.cpu_us < 50'000 * kSlowness);
}

enum class Role { kTarget, kInitiator };

class ClosedDescriptors : public testing::TestWithParam<Role> {};

TEST_P(ClosedDescriptors, end_connections_and_leave_the_programs_own_files_alone) {
  const bool as_target = GetParam() == Role::kTarget;
  Partner closer([as_target](const Wire& wire) {
    auto side = std::make_unique<Side>();
    auto served = std::make_unique<Served>(*side);
    auto worker = std::make_unique<Worker>(*side);
    side->connect(wire);
    if (as_target) {
      served->post_all();
      wire.put(served->offer());
      static_cast<void>(served->receive(wire));
    } else {
      WEFT_REQUIRE(worker->round(wire.get<Offer>(), 1));
    }
    wire.put(now_ms());
    close_all_but(wire.fd());
    const OwnFiles own;
    expect_quiet_helper();
    // What is posted now comes back, or is refused; it does not hang.
    if (side->qp.post_send(worker->out_region.sge(0, 64))) {
      for (bool failed = false; !failed;) failed = !side->wait().ok();
    }
    expect_quiet_helper();
    // A child is not to lose what its parent opened.
    const pid_t child = fork();
    if (child == 0) _exit(own.open() ? 0 : 1);
    int status = -1;
    WEFT_REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    worker.reset();
    served.reset();
    side.reset();
    WEFT_REQUIRE(own.open());
    WEFT_REQUIRE(own.untouched());
    // And weft itself is not broken for good.
    Side again;
    Served again_served(again);
    again.connect(wire);
    again_served.post_all();
    wire.put(again_served.offer());
    static_cast<void>(again_served.receive(wire));
  });
  Partner other([as_target](const Wire& wire) {
    Side side;
    Served served(side);
    Worker worker(side);
    side.connect(wire);
    if (as_target) {
      wire.put(worker.rounds_until_failure(wire.get<Offer>()));
    } else {
      served.post_all();
      wire.put(served.offer());
      // Its receives alone would not tell it: it says something that nobody takes.
      WEFT_REQUIRE(side.qp.post_send(worker.out_region.sge(0, 8)));
      Completion completion = side.wait();
      while (completion.ok()) completion = side.wait();
      wire.put(now_ms());
    }
    WEFT_REQUIRE(side.qp.state() == QpState::kError);
    Side again;
    Worker again_worker(again);
    again.connect(wire);
    WEFT_REQUIRE(again_worker.round(wire.get<Offer>(), 3));
    leave_last(wire);
  });
  introduce(closer.wire(), other.wire());
  if (as_target) {
    other.wire().put(closer.wire().get<Offer>());
    std::this_thread::sleep_for(20ms);
    closer.wire().put('c');
  } else {
    closer.wire().put(other.wire().get<Offer>());
  }
  const auto closed = closer.wire().get<std::int64_t>();
  const auto noticed = other.wire().get<std::int64_t>();
  EXPECT_LE(noticed - closed, kNotice_ms);
  introduce(closer.wire(), other.wire());
  other.wire().put(closer.wire().get<Offer>());
  finish(closer, other);
}
INSTANTIATE_TEST_SUITE_P(Neighbours, ClosedDescriptors,
                         testing::Values(Role::kTarget, Role::kInitiator), [](const auto& role) {
                           return role.param == Role::kTarget ? "in_target" : "in_initiator";
                         });

}  // namespace
}  // namespace weft::test
