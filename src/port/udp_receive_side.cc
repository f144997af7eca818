#include "port/udp_receive_side.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "wire/bth.h"

namespace weft::port {
namespace {

/// What other processes forward is looked for this seldom, since hardly ever is there anything;
/// rather at an empty poll, for which nobody waits, than at one that has brought something.
constexpr unsigned kPollsPerLook = 8, kMostPollsPerLook = 64;
/// After so many empty looks, even more seldom.
constexpr unsigned kManyEmptyLooks = 1024, kLessOften = 4;
/// The same for what is sent to groups.
constexpr unsigned kPollsPerGroupLook = 4;
/// The socket that does not lead is looked at as seldom as this if nothing is there.
constexpr unsigned kMostLooksPerOther = 16;

/// Readable when the descriptor is, or others that join it; empty on failure, and then what is
/// forwarded waits for a poll.
host::Fd watch(int fd) {
  const host::ForkHold hold;
  host::Fd watcher(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!watcher || epoll_ctl(watcher.get(), EPOLL_CTL_ADD, fd, &event) != 0) return {};
  return watcher;
}

}  // namespace

UdpReceiveSide::UdpReceiveSide(const Gid& address, std::uint32_t interface, host::Fd socket,
                               std::unique_ptr<AddressShare> share)
    : address_(address),
      socket_(std::move(socket)),
      share_(std::move(share)),
      inbox_(address),
      groups_(address, interface),
      connected_(address, interface, share_ != nullptr ? Sharing::kShared : Sharing::kAlone) {
  if (share_ != nullptr) others_ = watch(share_->fd());
}

std::size_t UdpReceiveSide::receive(Receiver& receiver, std::size_t max) {
  std::size_t handed_up = 0, fills = 0;
  for (std::size_t seen = 0; seen < max; ++seen) {
    if (!inbox_.has_frames()) {
      if (fills > 0 && !arrivals_.in_burst()) break;
      if (!fill()) {
        if (fills == 0) arrivals_.on_idle();
        break;
      }
      ++fills;
    }
    deliver(receiver, &handed_up);
  }
  if (share_ != nullptr && looks_for_forwarded(fills == 0)) {
    const std::size_t forwarded = take_forwarded(receiver, max);
    empty_looks_ = forwarded > 0 ? 0 : std::min(empty_looks_ + 1, kManyEmptyLooks);
    handed_up += forwarded;
  }
  if (groups_.any() && ++group_polls_ % kPollsPerGroupLook == 0) {
    handed_up += groups_.receive(receiver, max);
  }
  left_over_.store(inbox_.has_frames(), std::memory_order_release);
  return handed_up;
}

bool UdpReceiveSide::looks_for_forwarded(bool idle) {
  const unsigned polls_per_look = (idle ? kPollsPerLook : kMostPollsPerLook) *
                                  (empty_looks_ >= kManyEmptyLooks ? kLessOften : 1);
  if (++polls_ < polls_per_look) return false;
  polls_ = 0;
  return true;
}

void UdpReceiveSide::add_wait_fds(std::vector<int>& fds) const {
  for (const int fd : {socket_.get(), others_.get(), connected_.fd()}) {
    if (fd >= 0) fds.push_back(fd);
  }
}

std::optional<unsigned> UdpReceiveSide::number_slot() const {
  return share_ != nullptr ? std::optional(share_->slot()) : std::nullopt;
}

/// From the leader; now and then from the other, less and less often if there is nothing.
bool UdpReceiveSide::fill() {
  if (!connected_.is_open()) return fill_from_own();
  if (++looks_at_leader_ >= looks_per_other_) {
    looks_at_leader_ = 0;
    if (connected_leads_ ? fill_from_own() : fill_from_connected()) {
      connected_leads_ = !connected_leads_;
      looks_per_other_ = 1;
      return true;
    }
    looks_per_other_ = std::min(2 * looks_per_other_, kMostLooksPerOther);
  }
  return connected_leads_ ? fill_from_connected() : fill_from_own();
}

bool UdpReceiveSide::fill_from_own() {
  if (!fill_from(socket_.get())) return false;
  connected_.on_datagram_elsewhere(inbox_.from());
  return true;
}

bool UdpReceiveSide::fill_from_connected() {
  if (!fill_from(connected_.fd())) return false;
  connected_.on_datagram();
  return true;
}

/// By the shorter call while a program waits for one frame at a time.
bool UdpReceiveSide::fill_from(int fd) {
  const bool fast = arrivals_.one_by_one() && !all_headers_.load(std::memory_order_relaxed);
  if (!(fast ? inbox_.fast_fill(fd) : inbox_.fill(fd))) {
    arrivals_.on_nothing();
    return false;
  }
  arrivals_.on_frames(inbox_.frames_left(), inbox_.bytes(), inbox_.in_doubt());
  return true;
}

void UdpReceiveSide::deliver(Receiver& receiver, std::size_t* handed_up) {
  const Incoming* const incoming = inbox_.next();
  if (incoming == nullptr) [[unlikely]]
    return report_drop(receiver, inbox_.dropped());
  if (share_ != nullptr) {
    const Qpn number = wire::Bth::destination_of(incoming->packet.first<wire::Bth::kSize>());
    if (!share_->is_ours(number) && forward(number, *incoming)) return;
  }
  ++*handed_up;
  receiver.on_frame(*incoming);
}

/// To the process that it is for.
bool UdpReceiveSide::forward(Qpn number, const Incoming& incoming) {
  empty_looks_ = 0;  // places have changed: something may come to us, too
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return share_->forward(number, incoming,
                         static_cast<Nanoseconds>(std::chrono::nanoseconds(now).count()));
}

std::size_t UdpReceiveSide::take_forwarded(Receiver& receiver, std::size_t max) {
  std::size_t taken = 0;
  for (; taken < max; ++taken) {
    const auto frame = share_->take();
    if (!frame) break;
    receiver.on_frame(*frame);
  }
  return taken;
}

Result<void> UdpReceiveSide::join(const Gid& group) {
  if (!others_) {
    return fail(Errc::kNotSupported, "group: a port that shares no address has no multicast");
  }
  return groups_.join(group, others_.get());
}

void UdpReceiveSide::report_all_headers() {
  report_hop_limits(socket_, address_.is_ipv4());
  connected_.report_hop_limits();
  all_headers_.store(true, std::memory_order_relaxed);
}

}  // namespace weft::port
