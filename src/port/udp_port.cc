#include "port/udp_port.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/per_thread.h"
#include "memory/guard.h"
#include "network/address.h"
#include "port/address_share.h"
#include "port/local_interface.h"
#include "port/udp_groups.h"
#include "port/udp_inbox.h"
#include "port/udp_inlet.h"
#include "port/udp_run.h"

namespace weft::port {
namespace {

/// What other processes hand over is looked for this seldom, since hardly ever is there anything;
/// rather at a poll in vain, for which nobody waits, than at one that has brought something.
constexpr unsigned kPollsPerLook = 8, kMostPollsPerLook = 64;
/// After so many looks in vain, even more seldom.
constexpr unsigned kManyLooks = 1024, kLessOften = 4;
/// The same for what is sent to groups.
constexpr unsigned kPollsPerGroupLook = 4;
/// After so many frames that came alone, the next are taken to do so too; then one look in so many
/// asks for their quality all the same.
constexpr unsigned kLoneFrames = 32, kLooksPerQuality = 64;
/// So little by itself, an acknowledgement for example, is no sign of a stream, also if nobody
/// waits.
constexpr std::size_t kSmallBytes = 128;
/// Of the inlet and the port's own socket, one is looked at as seldom as this if nothing is there.
constexpr unsigned kMostLooksPerOther = 16;

Result<AddressShare::Joined> open_receiving_side(const Gid& address, std::uint32_t interface,
                                                 Sharing sharing, std::optional<unsigned> slot) {
  if (sharing == Sharing::kShared) return AddressShare::join(address, interface, slot);
  auto socket = open_receive_socket(address, interface, sharing);
  if (!socket) return tl::unexpected(socket.error());
  accept_runs(*socket);
  return AddressShare::Joined{std::move(*socket), nullptr};
}

/// Readable when the socket is, or others that join it; empty on failure, and then what is handed
/// over waits for a poll.
host::Fd watch(int fd) {
  const host::ForkHold hold;
  host::Fd watcher(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!watcher || epoll_ctl(watcher.get(), EPOLL_CTL_ADD, fd, &event) != 0) return {};
  return watcher;
}

/// One after another, from the first: all of them, or up to the first that is not taken.
template <class Send>
SendOutcome each_by_itself(std::span<const Outgoing> frames, Send send) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const SendOutcome outcome = send(frames.subspan(i, 1));
    if (outcome.status != SendStatus::kTaken) return {outcome.status, i + outcome.taken};
  }
  return {SendStatus::kTaken, frames.size()};
}

}  // namespace

Result<std::unique_ptr<UdpPort>> UdpPort::open(const Gid& address, Sharing sharing,
                                               std::optional<unsigned> slot) {
  const bool unspecified = address == Gid{} || address == Gid::ipv4(0, 0, 0, 0);
  const bool multicast =
      address.is_ipv4() ? (address.raw[12] & 0xF0) == 0xE0 : address.raw[0] == 0xFF;
  if (unspecified || multicast) {
    return fail(Errc::kInvalidArgument,
                "address " + network::to_string(address) +
                    ": names no single port, and each frame's checksum covers both addresses; use "
                    "one that `ip address` lists");
  }
  const auto interface = find_interface(address);
  const std::uint32_t index = interface ? interface->index : 0;
  auto joined = open_receiving_side(address, index, sharing, slot);
  if (!joined) return tl::unexpected(joined.error());
  auto send_socket = open_send_socket(address, index, 0);
  if (!send_socket) return tl::unexpected(send_socket.error());
  memory::install_guard();
  return std::unique_ptr<UdpPort>(new UdpPort(address, index, mtu_of_address(address, interface),
                                              std::move(joined->receive_socket),
                                              std::move(*send_socket), std::move(joined->share)));
}

UdpPort::UdpPort(const Gid& address, std::uint32_t interface, Mtu max_mtu, Socket receive_socket,
                 SendSocket send_socket, std::unique_ptr<AddressShare> share)
    : address_(address),
      interface_(interface),
      max_mtu_(max_mtu),
      receive_socket_(std::move(receive_socket)),
      first_send_socket_(std::move(send_socket)),
      inbox_(std::make_unique<UdpInbox>(address)),
      share_(std::move(share)),
      groups_(std::make_unique<UdpGroups>(address, interface)),
      line_(std::make_unique<UdpLine>(address, interface)),
      inlet_(std::make_unique<UdpInlet>(address, interface,
                                        share_ != nullptr ? Sharing::kShared : Sharing::kAlone)) {
  if (share_ != nullptr) others_ = watch(share_->fd());
}

UdpPort::~UdpPort() = default;

const SendSocket& UdpPort::send_socket(const network::Flow& flow) {
  const std::size_t index = flow.source_port % kSendSockets;
  if (index == 0) return first_send_socket_;
  SendSlot& slot = more_send_sockets_[index - 1];
  std::call_once(slot.once, [&] {
    if (auto opened = open_send_socket(address_, interface_, index)) {
      slot.opened = std::move(*opened);
    }
  });
  return slot.opened ? *slot.opened : first_send_socket_;
}

SendOutcome UdpPort::send(std::span<const Outgoing> frames) {
  std::size_t taken = 0;
  while (taken < frames.size()) {
    if (frames[taken].flow.is_ipv4() != address_.is_ipv4()) {
      ++taken;
      continue;
    }
    const SendOutcome outcome = send_run(frames.subspan(taken));
    taken += outcome.taken;
    if (outcome.status != SendStatus::kTaken) return {outcome.status, taken};
  }
  return {SendStatus::kTaken, taken};
}

network::Flow UdpPort::flow_on_wire(const network::Flow& flow) {
  network::Flow out = flow;
  out.source = address_;
  const auto line = line_->source_port(flow);
  out.source_port = line ? *line : send_socket(flow).port;
  out.hop_limit = std::max(flow.hop_limit, kLeastHopLimit);
  return out;
}

LinkState UdpPort::link_state() const {
  if (interface_ == 0) return LinkState::kUp;  // it never was listed
  const auto interface = find_interface(address_);
  if (!interface) return LinkState::kAddressGone;
  return interface->up ? LinkState::kUp : LinkState::kDown;
}

/// The first frames, as many as go together in one call.
SendOutcome UdpPort::send_run(std::span<const Outgoing> frames) {
  const bool together = segments_.load(std::memory_order_relaxed);
  return send_together(frames.first(together ? UdpRun::length(frames) : 1));
}

SendOutcome UdpPort::send_together(std::span<const Outgoing> frames) {
  UdpRun* const run = base::PerThread<UdpRun>::get();
  if (run == nullptr) return {SendStatus::kBusy, 0};  // no memory
  if (auto turn = line_->turn(frames.front().flow)) {
    if (send_over_line(*turn, *run, frames)) return {SendStatus::kTaken, frames.size()};
  }
  const SendSocket& socket = send_socket(frames.front().flow);
  network::Flow flow = frames.front().flow;
  flow.source = address_;
  flow.source_port = socket.port;
  const SocketAddress to = to_socket_address({flow.destination, wire::kRoceUdpPort}, interface_);
  const std::size_t readable = run->build(frames, flow, 0);  // what is unconnected does not count
  if (readable < frames.size()) {
    SendOutcome before;
    if (readable > 0) before = send_together(frames.first(readable));
    if (before.status != SendStatus::kTaken) return before;
    return {SendStatus::kFaulted, readable};
  }
  const int error_number = run->send_to(socket.socket.fd(), to);
  if (error_number == 0) return {SendStatus::kTaken, frames.size()};
  const SendError error = classify_send_error(error_number);
  if (error == SendError::kBusy) return {SendStatus::kBusy, 0};
  if (frames.size() > 1) {
    // Which frame it was, or whether this way takes no runs, shows when each goes by itself.
    if (refuses_segments(error_number)) segments_.store(false, std::memory_order_relaxed);
    return each_by_itself(frames, [this](auto one) { return send_together(one); });
  }
  if (error == SendError::kFaulted) return {SendStatus::kFaulted, 0};
  return {SendStatus::kTaken, 1};  // the network lost it
}

/// False: nothing was sent, and the usual way tells why.
bool UdpPort::send_over_line(UdpLine::Turn& turn, UdpRun& run, std::span<const Outgoing> frames) {
  network::Flow flow = frames.front().flow;
  flow.source = address_;
  flow.source_port = turn.source_port();
  if (run.build(frames, flow, turn.identification()) < frames.size()) return false;
  if (run.send(turn.fd()) != 0) {
    turn.give_up();
    return false;
  }
  turn.on_sent();
  return true;
}

std::size_t UdpPort::receive(Receiver& receiver, std::size_t max) {
  std::size_t handed_up = 0, fills = 0;
  for (std::size_t seen = 0; seen < max; ++seen) {
    if (!inbox_->has_frames()) {
      // A datagram by itself after a pause is likely to be the only one: to look for another would
      // delay the program that waits for this one.
      if (fills > 0 && !busy_) break;
      if (!fill_inbox()) {
        if (fills == 0) busy_ = false;
        break;
      }
      if (++fills > 1 || inbox_->frames_left() > kFewFrames) busy_ = true;
    }
    hand_up(receiver, &handed_up);
  }
  if (share_ != nullptr && ++polls_ >= polls_per_look(fills == 0)) {
    polls_ = 0;
    const std::size_t parcels = take_parcels(receiver, max);
    looks_in_vain_ = parcels > 0 ? 0 : std::min(looks_in_vain_ + 1, kManyLooks);
    handed_up += parcels;
  }
  if (groups_->any() && ++group_polls_ % kPollsPerGroupLook == 0) {
    handed_up += take_from_groups(receiver, max);
  }
  left_over_.store(inbox_->has_frames(), std::memory_order_release);
  return handed_up;
}

unsigned UdpPort::polls_per_look(bool idle) const {
  return (idle ? kPollsPerLook : kMostPollsPerLook) *
         (looks_in_vain_ >= kManyLooks ? kLessOften : 1);
}

void UdpPort::add_wait_fds(std::vector<int>& fds) const {
  for (const int fd : {receive_socket_.fd(), others_.get(), inlet_->fd()}) {
    if (fd >= 0) fds.push_back(fd);
  }
}

/// From where the last one came; now and then from the other, less and less often if in vain.
bool UdpPort::fill_inbox() {
  if (!inlet_->is_open()) return fill_from_own();
  const bool look_at_other = ++looks_at_one_ >= looks_per_other_;
  if (!look_at_other) return inlet_leads_ ? fill_from_inlet() : fill_from_own();
  looks_at_one_ = 0;
  if (inlet_leads_ ? fill_from_own() : fill_from_inlet()) {
    inlet_leads_ = !inlet_leads_;
    looks_per_other_ = 1;
    return true;
  }
  looks_per_other_ = std::min(2 * looks_per_other_, kMostLooksPerOther);
  return inlet_leads_ ? fill_from_inlet() : fill_from_own();
}

bool UdpPort::fill_from_inlet() {
  if (!fill_by(inlet_->fd())) return false;
  inlet_->note_taken();
  return true;
}

bool UdpPort::fill_from_own() {
  if (!fill_by(receive_socket_.fd())) return false;
  inlet_->note_missed(inbox_->from());
  return true;
}

/// By the shorter call while a program waits for one frame at a time.
bool UdpPort::fill_by(int fd) {
  const bool alone = lone_frames_ >= kLoneFrames && ++looks_ % kLooksPerQuality != 0 &&
                     !all_headers_.load(std::memory_order_relaxed);
  if (!(alone ? inbox_->fill_alone(fd) : inbox_->fill(fd))) {
    waited_ = true;
    return false;
  }
  if (inbox_->frames_left() > kFewFrames || inbox_->in_doubt()) {
    lone_frames_ = 0;
  } else if (std::exchange(waited_, false) || inbox_->bytes() <= kSmallBytes) {
    lone_frames_ = std::min(lone_frames_ + 1, 2 * kLoneFrames);
  } else {
    lone_frames_ -= lone_frames_ / 4;
  }
  return true;
}

void UdpPort::hand_up(Receiver& receiver, std::size_t* handed_up) {
  const Incoming* const incoming = inbox_->next();
  if (incoming == nullptr) [[unlikely]]
    return tell_dropped(receiver, inbox_->dropped());
  if (share_ != nullptr) {
    const Qpn number = wire::Bth::destination_of(incoming->packet.first<wire::Bth::kSize>());
    if (!share_->is_ours(number) && hand_over(number, *incoming)) return;
  }
  ++*handed_up;
  receiver.on_frame(*incoming);
}

void UdpPort::tell_dropped(Receiver& receiver, Drop drop) {
  switch (drop) {
    case Drop::kBadChecksum:
      return receiver.on_bad_checksum();
    case Drop::kMalformed:
      return receiver.on_malformed();
    case Drop::kProbe:
      return;
  }
}

/// To the process that it is for.
bool UdpPort::hand_over(Qpn number, const Incoming& incoming) {
  looks_in_vain_ = 0;  // places have changed: something may come to us, too
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return share_->hand_over(
      number,
      {inbox_->from(), incoming.flow.traffic_class, incoming.flow.hop_limit, incoming.packet},
      static_cast<Nanoseconds>(std::chrono::nanoseconds(now).count()));
}

std::size_t UdpPort::take_from_groups(Receiver& receiver, std::size_t max) {
  return groups_->take(max, [&](const Incoming* incoming, Drop drop) {
    if (incoming != nullptr) return receiver.on_frame(*incoming);
    tell_dropped(receiver, drop);
  });
}

void UdpPort::report_all_headers() {
  report_hop_limits(receive_socket_, address_.is_ipv4());
  inlet_->report_hop_limits();
  all_headers_.store(true, std::memory_order_relaxed);
}

Result<void> UdpPort::join(const Gid& group) {
  if (!others_) {
    return fail(Errc::kNotSupported, "group: a port that shares no address has no multicast");
  }
  return groups_->join(group, others_.get());
}

void UdpPort::leave(const Gid& group) { groups_->leave(group); }

std::size_t UdpPort::take_parcels(Receiver& receiver, std::size_t max) {
  std::size_t taken = 0;
  while (taken < max) {
    const auto parcel = share_->take();
    if (!parcel) break;
    const auto source = to_endpoint(parcel->from);
    if (!source || source->address.is_ipv4() != address_.is_ipv4()) continue;
    Incoming incoming;
    incoming.flow.source = source->address;
    incoming.flow.source_port = source->port;
    incoming.flow.destination = address_;
    incoming.flow.traffic_class = parcel->traffic_class;
    incoming.flow.hop_limit = parcel->hop_limit;
    incoming.packet = parcel->packet;
    ++taken;
    receiver.on_frame(incoming);
  }
  return taken;
}

std::optional<unsigned> UdpPort::number_slot() const {
  if (share_ == nullptr) return std::nullopt;
  return share_->slot();
}

}  // namespace weft::port
