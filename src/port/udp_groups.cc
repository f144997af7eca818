#include "port/udp_groups.h"

#include <sys/epoll.h>

#include <algorithm>

#include "network/address.h"

namespace weft::port {

Result<void> UdpGroups::join(const Gid& group, int epoll) {
  if (group.is_ipv4() != local_.is_ipv4()) {
    return fail(Errc::kInvalidArgument, "group " + network::to_string(group) +
                                            ": not of the family of the port's address " +
                                            network::to_string(local_));
  }
  const std::lock_guard guard(lock_);
  const auto found = std::ranges::find(groups_, group, &Group::address);
  if (found != groups_.end()) {
    ++found->members;
    return {};
  }
  if (groups_.size() >= kMostGroups) {
    return fail(Errc::kOutOfMemory, "group " + network::to_string(group) +
                                        ": the port is in as many groups as it can be");
  }
  auto socket = open_group_socket(group, local_, interface_);
  if (!socket) return tl::unexpected(socket.error());
  epoll_event event{};
  event.events = EPOLLIN;
  // Without it a member that never polls would wait for ever.
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket->get(), &event) != 0) {
    return fail(Errc::kSystem, "group " + network::to_string(group) + ": cannot be waited for");
  }
  groups_.push_back({group, std::move(*socket), std::make_unique<UdpInbox>(group), 1});
  count_.store(groups_.size(), std::memory_order_relaxed);
  return {};
}

void UdpGroups::leave(const Gid& group) {
  const std::lock_guard guard(lock_);
  const auto found = std::ranges::find(groups_, group, &Group::address);
  if (found == groups_.end() || --found->members != 0) return;
  groups_.erase(found);  // the kernel leaves the group with the socket
  count_.store(groups_.size(), std::memory_order_relaxed);
}

std::size_t UdpGroups::receive(Receiver& receiver, std::size_t max) {
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard) return 0;  // somebody joins or leaves
  std::size_t taken = 0;
  for (std::size_t silent = 0; silent < groups_.size() && taken < max;) {
    Group& group = groups_[next_++ % groups_.size()];
    if (!group.inbox->fill(group.socket.get())) {
      ++silent;
      continue;
    }
    for (silent = 0; group.inbox->has_frames(); ++taken) {
      if (const Incoming* frame = group.inbox->next()) {
        receiver.on_frame(*frame);
      } else {
        report_drop(receiver, group.inbox->dropped());
      }
    }
  }
  return taken;
}

}  // namespace weft::port
