#include "host/wait_set.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "host/fork.h"
#include "host/system_error.h"

namespace weft::host {
namespace {

bool add(int set, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

WaitSet::~WaitSet() {
  if (fd_ >= 0) close(fd_);
}

int WaitSet::fd() const { return generation_ == fork_generation() ? fd_ : -1; }

Result<int> WaitSet::open(int signal) {
  const ForkHold hold;
  fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (fd_ < 0) return system_error("epoll_create1", errno);
  generation_ = fork_generation();
  fcntl(fd_, F_SETFL, O_NONBLOCK);
  if (!add(fd_, signal)) return system_error("epoll_ctl", errno);
  return fd_;
}

Result<bool> WaitSet::blocks() const {
  const int flags = fcntl(fd(), F_GETFL);
  if (flags < 0) return system_error("fcntl", errno);
  return (flags & O_NONBLOCK) == 0;
}

bool WaitSet::carry(std::span<const int> sockets) {
  if (std::ranges::equal(sockets, carried_)) return true;
  for (const int fd : carried_) epoll_ctl(this->fd(), EPOLL_CTL_DEL, fd, nullptr);
  carried_.clear();
  for (const int fd : sockets) {
    if (!add(this->fd(), fd)) {
      const std::vector<int> none;
      carry(none);
      return false;
    }
    carried_.push_back(fd);
  }
  return true;
}

}  // namespace weft::host
