#include "mesh/mesh_object.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/random.h"

namespace weft::mesh {
namespace {

constexpr std::uint32_t kGreeterDepth = 256;
constexpr std::uint32_t kSpare = 64;

template <class T>
Result<void> within(const char* name, T value, T least, T most) {
  if (value >= least && value <= most) return {};
  return fail(Errc::kInvalidArgument,
              fmt::format("options.{}: {} is outside {} to {}", name, value, least, most));
}

Result<void> check(const Options& options) {
  if (auto ok = channel::check(options.settings); !ok) return tl::unexpected(ok.error());
  Result<void> ok = within("lanes", options.lanes, 1u, 64u);
  if (ok) ok = within("lane_depth", options.lane_depth, 64u, 16'384u);
  if (ok) ok = within("notices", options.notices, 16u, 65'536u);
  if (ok) ok = within("max_peers", options.max_peers, 1u, 1u << 24);
  if (ok) ok = within<Nanoseconds>("idle_ns", options.idle_ns, 1'000'000, kNever / 2);
  if (ok) {
    ok = within<Nanoseconds>("greeting_timeout_ns", options.greeting_timeout_ns, 1'000'000,
                             kNever / 2);
  }
  return ok;
}

channel::Settings settings_of(const Options& options) {
  channel::Settings settings = options.settings;
  settings.lean = true;
  settings.loan_end = channel::LoanEnd::kSenderCloses;
  return settings;
}

tl::unexpected<Error> no_such_peer() { return fail(Errc::kNotFound, "peer: is not in the table"); }

}  // namespace

MeshObject::MeshObject(const verbs::Device& device, const Options& options,
                       verbs::ProtectionDomain pd, verbs::MemoryRegion everything)
    : options_(options),
      settings_(settings_of(options)),
      device_(device),
      pd_(std::move(pd)),
      everything_(std::move(everything)),
      budget_(options.budget_bytes),
      ground_{settings_, pd_, everything_.lkey(), budget_},
      peers_(base::system_random().draw<std::uint64_t>()) {}

// The queue pairs go first: behind them no work is under way.
MeshObject::~MeshObject() {
  lanes_.clear();
  greeter_.reset();
  for (const auto& link : links_) {
    if (link != nullptr) link->end();
  }
  if (epoll_ >= 0) ::close(epoll_);
  if (timer_ >= 0) ::close(timer_);
}

Result<std::shared_ptr<MeshObject>> MeshObject::open(const verbs::Device& device,
                                                     const Options& options) {
  if (auto ok = check(options); !ok) return tl::unexpected(std::move(ok.error()));
  auto pd = device.allocate_pd();
  if (!pd) return tl::unexpected(std::move(pd.error()));
  auto everything = pd->register_address_space(Access::kLocalWrite);
  if (!everything) return tl::unexpected(std::move(everything.error()));
  std::shared_ptr<MeshObject> mesh(
      new MeshObject(device, options, std::move(*pd), std::move(*everything)));
  if (auto ok = mesh->open_lanes(); !ok) return tl::unexpected(std::move(ok.error()));
  if (auto ok = mesh->open_epoll(); !ok) return tl::unexpected(std::move(ok.error()));
  return mesh;
}

// All work of all queue pairs may complete before this end looks, each with an error of its own.
Result<void> MeshObject::open_lanes() {
  auto events = device_.create_channel();
  if (!events) return tl::unexpected(std::move(events.error()));
  events_ = std::move(*events);
  const std::uint32_t completions =
      kGreeterDepth + options_.lanes * options_.lane_depth + options_.notices + kSpare;
  auto cq = device_.create_cq(completions, *events_);
  if (!cq) return tl::unexpected(std::move(cq.error()));
  cq_ = std::move(*cq);
  auto receives = pd_.create_srq(options_.notices, 1);
  if (!receives) return tl::unexpected(std::move(receives.error()));
  receives_ = std::move(*receives);
  notes_.resize(std::size_t{options_.notices} * Note::kBytes);
  for (std::uint32_t i = 0; i < options_.notices; ++i) {
    if (auto ok = post_receive(i); !ok) return ok;
  }
  auto greeter = Lane::open(pd_, *cq_, *receives_, options_, kGreeterDepth);
  if (!greeter) return tl::unexpected(std::move(greeter.error()));
  greeter_ = std::move(*greeter);
  for (std::uint32_t i = 0; i < options_.lanes; ++i) {
    auto lane = Lane::open(pd_, *cq_, *receives_, options_, options_.lane_depth);
    if (!lane) return tl::unexpected(std::move(lane.error()));
    lanes_.push_back(std::move(*lane));
  }
  address_ = {device_.address(options_.port), greeter_->number()};
  return {};
}

Result<void> MeshObject::post_receive(std::uint64_t index) {
  const Sge to{reinterpret_cast<std::uint64_t>(&notes_[index * Note::kBytes]), Note::kBytes,
               everything_.lkey()};
  return receives_->post({.wr_id = kReceiveId | index, .sges = {&to, 1}});
}

Result<void> MeshObject::open_epoll() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ < 0 || timer_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event) != 0 ||
      epoll_ctl(epoll_, EPOLL_CTL_ADD, events_->fd(), &event) != 0) {
    return fail(Errc::kSystem, fmt::format("epoll: {}", std::strerror(errno)));
  }
  return {};
}

Result<Peer> MeshObject::peer(const Address& address) {
  if (address == address_) return fail(Errc::kInvalidArgument, "address: is this mesh's own");
  if (address.qpn.value > kMask24) {
    return fail(Errc::kInvalidArgument, "address.qpn: has more than 24 bits");
  }
  if (const auto known = peers_.find(address)) return *known;
  if (peers_.size() >= options_.max_peers) {
    return fail(Errc::kOutOfMemory,
                fmt::format("peers: the table has its {} (options.max_peers)", options_.max_peers));
  }
  return peers_.add(address);
}

Link* MeshObject::current(Peer peer) const {
  const std::uint32_t number = peers_[peer].link;
  return number == kNoLink ? nullptr : links_[number].get();
}

Result<std::size_t> MeshObject::try_send(Peer to, std::span<const std::byte> message) {
  if (!peers_.has(to)) return no_such_peer();
  if (message.empty()) return fail(Errc::kInvalidArgument, "message: is empty");
  const PeerEntry& entry = peers_[to];
  if (entry.closed != 0) return fail(Errc::kInvalidState, "the peer was closed: see take_closed()");
  Link* link = current(to);
  if (link == nullptr) {
    poll();  // it may have asked meanwhile
    if (entry.link == kNoLink && entry.closed == 0 && entry.greeted == 0)
      starved_ = !greet(to) || starved_;
    return 0;
  }
  if (link->phase == Phase::kClosing || link->phase == Phase::kLeaving)
    return fail(Errc::kInvalidState, "the peer is being closed");
  if (link->phase != Phase::kOpen) {
    poll();
    return 0;
  }
  const iovec element{const_cast<std::byte*>(message.data()), message.size()};
  channel::Endpoint& endpoint = link->endpoint();
  const std::uint64_t rest = endpoint.send().rest_bytes();
  if (rest != 0 && message.size() > rest) {
    return fail(Errc::kInvalidArgument, "message: the rest of the message before it is missing");
  }
  const std::size_t taken = endpoint.take({&element, 1}, 0, now_);
  link->last_event_ns = now_;
  if (taken == message.size()) {
    if (endpoint.unnotified() || endpoint.busy()) activate(*link);
    return taken;
  }
  link->blocked = true;
  activate(*link);
  if (taken == 0) poll();
  return taken;
}

Result<void> MeshObject::send(Peer to, std::span<const std::byte> message, Deadline deadline) {
  for (;;) {
    auto taken = try_send(to, message);
    if (!taken) return tl::unexpected(std::move(taken.error()));
    message = message.subspan(*taken);
    if (message.empty()) return {};
    if (*taken > 0) continue;
    if (std::chrono::steady_clock::now() >= deadline) {
      if (take_back_lent(to)) return {};  // it was read in the last moment
      return fail(Errc::kTimedOut, "the message could not be sent in time");
    }
    wait(deadline);
  }
}

// The memory is the caller's again when its call ends. True: the peer has read all of it.
bool MeshObject::take_back_lent(Peer to) {
  Link* link = current(to);
  const std::uint32_t loan = link != nullptr ? link->endpoint().send().lent_by_take() : 0;
  if (loan == 0) return false;
  channel::Endpoint& endpoint = link->endpoint();
  endpoint.recall(loan);
  if (!endpoint.send().loan_done(loan)) endpoint.revoke(loan);
  return !endpoint.was_left(loan) && endpoint.send().rest_bytes() == 0;
}

std::optional<Message> MeshObject::try_receive() {
  for (bool polled = false;; polled = true) {
    while (!ready_.empty()) {
      const std::shared_ptr<Link> link = std::move(ready_.front());
      ready_.pop_front();
      auto incoming = link->endpoint().look();
      if (!incoming) {
        link->ready = false;
        if (link->phase != Phase::kEnded && link->endpoint().failed()) {
          lose(*link, std::string(link->endpoint().error()));
        }
        continue;
      }
      ++link->views;
      link->last_event_ns = now_;
      ready_.push_back(link);
      if (!link->active && link->phase == Phase::kOpen) activate(*link);
      return Message(link, link->peer, {incoming->data, incoming->length}, incoming->frame,
                     incoming->region.handle);
    }
    if (polled) return std::nullopt;
    poll();
  }
}

std::vector<Closed> MeshObject::take_closed() {
  for (const Closed& one : closed_) peers_[one.peer].closed = 0;
  return std::exchange(closed_, {});
}

bool MeshObject::close_step(Peer peer) {
  Link* link = current(peer);
  if (link == nullptr) return true;
  if (link->phase == Phase::kOpen) {
    link->phase = Phase::kClosing;
    link->blocked = true;
    activate(*link);
  }
  if (link->phase == Phase::kAsking) {
    close_now(peer);
    return true;
  }
  if (link->phase == Phase::kClosing && link->endpoint().finish(false)) leave(*link);
  return false;
}

void MeshObject::close_now(Peer peer) {
  Link* link = current(peer);
  if (link == nullptr) return;
  if (link->phase != Phase::kAsking && link->phase != Phase::kLeaving) {
    link->send_note(link->lane(), NoteKind::kGone, address_);
  }
  end(*link);
}

bool MeshObject::has_said_all() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return lane->is_through(); });
}

Result<void> MeshObject::close(const std::vector<Peer>& peers, Deadline deadline) {
  std::vector<Peer> left = peers;
  for (;;) {
    poll();
    std::erase_if(left, [this](Peer peer) { return close_step(peer); });
    if (left.empty() && has_said_all()) return {};
    if (std::chrono::steady_clock::now() >= deadline) break;
    wait(deadline);
  }
  for (const Peer peer : left) close_now(peer);
  return fail(Errc::kTimedOut, "not all of what was sent was taken in time");
}

std::vector<Peer> MeshObject::open_peers() const {
  std::vector<Peer> open;
  for (const auto& link : links_) {
    if (link != nullptr && current(link->peer) == link.get()) open.push_back(link->peer);
  }
  return open;
}

PeerStatistics MeshObject::statistics(Peer peer) const {
  PeerStatistics out;
  const Link* link = peers_.has(peer) ? current(peer) : nullptr;
  if (link == nullptr) return out;
  constexpr State kStates[] = {State::kGreeting, State::kIdle,    State::kOpen, State::kParting,
                               State::kClosing,  State::kClosing, State::kIdle};
  out.state = kStates[static_cast<std::size_t>(link->phase)];
  out.registered_bytes = link->charged_bytes();
  const channel::Endpoint& endpoint = link->endpoint();
  const channel::SendFigures& send = endpoint.send().figures();
  const channel::ReceiveFigures& receive = endpoint.receive().figures();
  out.send_phase = endpoint.send().phase(), out.receive_phase = endpoint.receive().phase();
  out.messages_sent = send.messages, out.bytes_sent = send.bytes;
  out.messages_received = receive.messages, out.bytes_received = receive.bytes;
  out.grows = send.grows, out.shrinks = send.shrinks, out.refusals = send.refusals;
  out.bells = endpoint.bells();
  return out;
}

Figures MeshObject::figures() const {
  Figures out = figures_;
  out.peers = peers_.size();
  out.open = links_.size() - free_numbers_.size();
  out.table_bytes = peers_.bytes();
  out.registered_bytes = budget_.used();
  return out;
}

}  // namespace weft::mesh
