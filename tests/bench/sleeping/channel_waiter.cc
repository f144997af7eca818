#include "channel_waiter.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>

#include "echo_run.h"

namespace weft::bench {

ChannelWaiter::ChannelWaiter(WaitMode mode, std::deque<Completions>& all) : mode_(mode), all_(all) {
  if (mode == WaitMode::kBlock && all.size() > 1) {
    give_up("--wait block sleeps in one channel; several need epoll or poll");
  }
  if (mode == WaitMode::kEpoll) epoll_ = epoll_create1(EPOLL_CLOEXEC);
  for (Completions& completions : all) {
    const int fd = completions.channel->fd;
    polled_.push_back({fd, POLLIN, 0});
    if (mode == WaitMode::kSpin) ready_.push_back(&completions);
    if (mode != WaitMode::kEpoll) continue;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) give_up_errno("O_NONBLOCK");
    epoll_event event{.events = EPOLLIN, .data = {.ptr = &completions}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) give_up_errno("epoll_ctl");
  }
}

const std::vector<const Completions*>& ChannelWaiter::wait() {
  if (mode_ == WaitMode::kSpin) return ready_;
  ready_.clear();
  switch (mode_) {
    case WaitMode::kEpoll:
      wait_epoll();
      break;
    case WaitMode::kPoll:
      wait_poll();
      break;
    default:
      take_event(all_.front());
  }
  return ready_;
}

bool ChannelWaiter::take_event(const Completions& from) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(from.channel, &cq, &context) != 0) {
    if (errno == EAGAIN) return false;
    give_up_errno("ibv_get_cq_event");
  }
  ibv_ack_cq_events(cq, 1);
  ready_.push_back(static_cast<const Completions*>(context));
  return true;
}

void ChannelWaiter::wait_epoll() {
  epoll_event events[64];
  const int n = epoll_wait(epoll_, events, std::size(events), -1);
  for (int i = 0; i < n; ++i) take_event(*static_cast<const Completions*>(events[i].data.ptr));
}

void ChannelWaiter::wait_poll() {
  if (::poll(polled_.data(), polled_.size(), -1) < 0) give_up_errno("poll");
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents != 0) take_event(all_[i]);
  }
}

}  // namespace weft::bench
