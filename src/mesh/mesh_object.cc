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

// The queue pairs go before the memory of the links: behind them no work is under way.
MeshObject::~MeshObject() {
  for (const auto& link : links_) {
    if (link != nullptr) link->end();
  }
  lanes_.clear();
  greeter_.reset();
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
