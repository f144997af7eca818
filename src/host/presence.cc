#include "host/presence.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "host/arena_registry.h"
#include "host/fork.h"
#include "host/same_user.h"
#include "host/settings.h"
#include "host/system_error.h"
#include "obs/log.h"

namespace weft::host {
namespace {

constexpr std::uint32_t kBlocks = 1u << (24 - kBlockBits);
constexpr int kEventsPerServe = 64;
constexpr int kAcceptsPerServe = 64;
constexpr std::chrono::milliseconds kTired{10};

std::string name_of(const Gid& gid, std::uint32_t block) {
  std::string name = "weft/";
  for (const std::uint8_t byte : gid.raw) name += fmt::format("{:02x}", byte);
  return name + fmt::format("/{:03x}", block);
}

template <class T>
void erase(std::vector<std::shared_ptr<T>>& from, const std::shared_ptr<T>& what) {
  std::erase(from, what);
}

}  // namespace

Result<std::unique_ptr<Presence>> Presence::create(std::vector<Gid> addresses,
                                                   const base::Permutation24& hidden,
                                                   base::Random& random) {
  WEFT_ASSERT(!addresses.empty() && addresses.size() <= kMaxAddresses);
  auto page = ProcessPage::mine();
  if (!page) return tl::unexpected(page.error());
  // Whoever is shown no keys need not know how their numbers are made.
  const bool checks = host::owner_checks();
  auto tables = PublicTables::create(random.draw<std::uint32_t>() | 1,
                                     checks ? base::Permutation24(random) : hidden);
  if (!tables) return tl::unexpected(tables.error());
  std::unique_ptr<Presence> presence(new Presence);
  presence->addresses_ = std::move(addresses);
  presence->random_ = &random;
  presence->page_ = *page;
  presence->tables_ = std::move(*tables);
  presence->owner_checks_ = checks;
  const ForkHold hold;
  presence->epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!presence->epoll_) return system_error("epoll_create1", errno);
  return presence;
}

Presence::~Presence() {
  remove_exec_listener(*this);
  for (const auto& link : reached_) link->dead.store(true, std::memory_order_release);
}

// ---- names ----------------------------------------------------------------------------------

Result<std::uint32_t> Presence::claim_block(std::uint32_t slot, std::uint32_t slots) {
  Error last{Errc::kBusy, "every block of queue-pair numbers of this address is taken"};
  for (std::uint32_t attempt = 0; attempt < 4 * kBlocks; ++attempt) {
    // The first and the last block hold the numbers that are reserved.
    const std::uint32_t any = random_->draw<std::uint32_t>() % kBlocks;
    const std::uint32_t block = any - any % slots + slot;
    if (block == 0 || block == kBlocks - 1) continue;
    auto ok = listen(block);
    if (ok) {
      // Beyond what can be shown: numbers that only frames reach.
      tables_->add_block(block);
      return block;
    }
    last = ok.error();
    if (last.code != Errc::kBusy) break;
  }
  return tl::unexpected(last);
}

Result<void> Presence::listen(std::uint32_t block) {
  std::vector<LocalSocket> sockets;
  for (const Gid& address : addresses_) {
    auto socket = LocalSocket::listen(name_of(address, block));
    if (!socket) return tl::unexpected(socket.error());
    sockets.push_back(std::move(*socket));
  }
  const std::lock_guard guard(lock_);
  for (LocalSocket& socket : sockets) {
    auto watched = std::make_shared<Watched>();
    watched->socket = std::move(socket);
    watched->listens = true;
    const std::uint64_t id = next_id_++;
    if (!watch(watched->socket.fd(), id)) return system_error("epoll_ctl", errno);
    watched_.emplace(id, std::move(watched));
  }
  return {};
}

bool Presence::watch(int fd, std::uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  return epoll_ctl(epoll_.checked(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Presence::forget(std::uint64_t id) {
  const std::lock_guard guard(lock_);
  watched_.erase(id);
}

// ---- events ---------------------------------------------------------------------------------

void Presence::serve() {
  if (!serving_.try_lock()) return;
  const std::lock_guard serving(serving_, std::adopt_lock);
  std::array<epoll_event, kEventsPerServe> events;
  const int epoll = epoll_.checked();
  if (epoll < 0) return lose_everything();
  const int n = epoll_wait(epoll, events.data(), kEventsPerServe, 0);
  for (int i = 0; i < n; ++i) {
    on_event(events[static_cast<std::size_t>(i)].data.u64,
             events[static_cast<std::size_t>(i)].events);
  }
  if (n > 0) page_->wakes_were_taken();
  if (host::arenas_gone() != arenas_gone_.load(std::memory_order_relaxed) ||
      some_do_not_listen_.load(std::memory_order_relaxed)) {
    const std::lock_guard guard(lock_);
    withdraw_arenas();
  }
  release_arenas();
}

void Presence::lose_everything() {
  const std::lock_guard guard(lock_);
  if (watched_.empty()) return;
  obs::log().warn(
      "the program has closed weft's descriptors: connections with other processes end, and no "
      "other process finds this device any more; open another one");
  for (const auto& link : reached_) link->dead.store(true, std::memory_order_release);
  for (const auto& link : served_) link->dead.store(true, std::memory_order_release);
  outbound_changed_.store(true, std::memory_order_release);
  reached_.clear();
  served_.clear();
  watched_.clear();
}

void Presence::on_event(std::uint64_t id, std::uint32_t events) {
  std::shared_ptr<Watched> watched;
  {
    const std::lock_guard guard(lock_);
    const auto found = watched_.find(id);
    if (found == watched_.end()) return;
    watched = found->second;
  }
  if (watched->listens) return accept_from(*watched);
  if (watched->outbound != nullptr) {
    Outbound& link = *watched->outbound;
    link.serve();
    const bool gone =
        (events & (EPOLLHUP | EPOLLERR)) != 0 || (link.usable() && !link.process.alive());
    if (gone) link.dead.store(true, std::memory_order_release);
    if (!link.dead.load(std::memory_order_acquire)) return;
    link.drop_arenas();
    releasing_.push_back(watched->outbound);
    const int epoll = epoll_.checked();
    if (link.pidfd() >= 0) epoll_ctl(epoll, EPOLL_CTL_DEL, link.pidfd(), nullptr);
    if (link.socket_fd() >= 0) epoll_ctl(epoll, EPOLL_CTL_DEL, link.socket_fd(), nullptr);
    {
      const std::lock_guard guard(lock_);
      if (link.listed) {
        erase(reached_, watched->outbound);
      } else {
        outbound_changed_.store(true, std::memory_order_release);
      }
    }
    return forget(id);
  }
  if (watched->inbound != nullptr) {
    // An initiator wakes us, and says nothing else after its hello: whatever came is its end.
    Inbound& link = *watched->inbound;
    const auto woken = link.socket.take_wake();
    if (woken && (*woken || !link.gone())) return;
    link.dead.store(true, std::memory_order_release);
    const int epoll = epoll_.checked();
    if (link.pidfd) epoll_ctl(epoll, EPOLL_CTL_DEL, link.pidfd.get(), nullptr);
    epoll_ctl(epoll, EPOLL_CTL_DEL, link.socket.fd(), nullptr);
    {
      const std::lock_guard guard(lock_);
      forget_gone();
    }
    return forget(id);
  }
  answer(id, *watched);
}

void Presence::accept_from(Watched& listener) {
  for (int i = 0; i < kAcceptsPerServe; ++i) {
    auto socket = listener.socket.accept();
    if (!socket) {
      // No descriptor is left for one who waits: to look again at once would not help.
      if (socket.error().code == Errc::kOutOfMemory) std::this_thread::sleep_for(kTired);
      return;
    }
    const auto peer = socket->peer();
    if (!peer || !is_same_user(peer->uid, socket->fd())) {
      obs::log().info("a process of user {} was turned away: same-host links are for one user",
                      peer ? peer->uid : 0);
      continue;
    }
    const std::lock_guard guard(lock_);
    const std::uint64_t id = next_id_++;
    auto watched = std::make_shared<Watched>();
    watched->socket = std::move(*socket);
    if (watch(watched->socket.fd(), id)) watched_.emplace(id, std::move(watched));
  }
}

void Presence::answer(std::uint64_t id, Watched& caller) {
  auto hello = caller.socket.receive(sizeof(Handshake), 0);
  if (!hello && hello.error().code == Errc::kTimedOut) return;
  if (!hello) return forget(id);
  auto link = welcome(std::move(caller.socket), std::move(*hello));
  if (!link) {
    if (link.error().code != Errc::kNotFound) {  // one that ended meanwhile
      obs::log().warn("a process on this host called and was not understood: {}",
                      link.error().message);
    }
    return forget(id);
  }
  forget(id);  // it has another number now
  {
    const std::lock_guard guard(receive_lock);
    inbound_.push_back(*link);
  }
  links_.fetch_add(1, std::memory_order_relaxed);
}

Result<std::shared_ptr<Inbound>> Presence::welcome(LocalSocket socket, Message hello) {
  const auto note = parse_handshake(hello);
  if (!note || note->note != Note::kHello || note->owner_checks) {
    return fail(Errc::kInvalidArgument, "hello: not of this version");
  }
  auto link = std::make_shared<Inbound>();
  auto process = ProcessView::receive(std::move(hello.fds[0]));
  if (!process) return tl::unexpected(process.error());
  auto ring = SharedMemory::receive(std::move(hello.fds[1]), kRingMemoryBytes, kRingMemoryBytes,
                                    SharedMemory::Peers::kWrite);
  if (!ring) return tl::unexpected(ring.error());
  ring->close_fd();
  link->process = std::move(*process);
  link->ring = RingConsumer(std::move(*ring));
  link->fence = page_->cannot_membarrier() || link->process.cannot_membarrier();
  if (note->has_pidfd) link->pidfd = take_pidfd(std::move(hello.fds[2]));
  link->addresses.assign(note->addresses.begin(), note->addresses.begin() + note->address_count);

  Handshake reply;
  reply.note = Note::kWelcome;
  reply.address_count = static_cast<std::uint16_t>(addresses_.size());
  std::copy(addresses_.begin(), addresses_.end(), reply.addresses.begin());
  const Fd pidfd = open_own_pidfd();
  std::vector<int> fds{page_->fd(), tables_->fd()};
  reply.has_pidfd = bool(pidfd);
  if (pidfd) fds.push_back(pidfd.get());
  reply.owner_checks = owner_checks_;

  const std::lock_guard guard(lock_);
  if (auto ok = socket.send(std::as_bytes(std::span(&reply, 1)), fds); !ok) {
    return tl::unexpected(ok.error());
  }
  link->socket = std::move(socket);
  for (const std::uint32_t arena : offered_arenas_) {
    Handshake offer;
    offer.note = Note::kArena;
    offer.arena = arena;
    std::shared_ptr<ArenaObject> keep;
    std::size_t bytes = 0;
    const int fd = arena_fd(arena, &bytes, &keep);
    if (fd < 0) continue;
    offer.arena_bytes = bytes;
    static_cast<void>(link->socket.send(std::as_bytes(std::span(&offer, 1)), std::array{fd}));
  }
  const std::uint64_t id = next_id_++;
  auto watched = std::make_shared<Watched>();
  watched->inbound = link;
  // The socket is watched already, under the caller's number, which now finds nobody: once more,
  // with the new one.
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  epoll_ctl(epoll_.checked(), EPOLL_CTL_MOD, link->socket.fd(), &event);
  if (link->pidfd) watch(link->pidfd.get(), id);
  watched_.emplace(id, std::move(watched));
  served_.push_back(link);
  return link;
}

// ---- calling others -------------------------------------------------------------------------

Result<std::shared_ptr<Outbound>> Presence::reach(const Gid& gid, Qpn qpn) {
  const std::uint32_t block = qpn.value >> kBlockBits;
  {
    const std::lock_guard guard(lock_);
    for (const auto& link : reached_) {
      if (!link->dead.load(std::memory_order_acquire) &&
          (link->has(gid, block) || link->calls(gid, block))) {
        return link;
      }
    }
  }
  return call(gid, block);
}

Result<std::shared_ptr<Outbound>> Presence::call(const Gid& gid, std::uint32_t block) {
  auto socket = LocalSocket::connect(name_of(gid, block));
  if (!socket) return tl::unexpected(socket.error());
  const auto peer = socket->peer();
  if (!peer) return tl::unexpected(peer.error());
  if (!is_same_user(peer->uid, socket->fd())) {
    return fail(Errc::kNotPermitted,
                fmt::format("the process at that address belongs to user {}, not to {}: same-host "
                            "links are for one user; use addresses of your own on the network{}",
                            peer->uid, geteuid(),
                            peer->uid != geteuid() ? ""
                                                   : " (in this user namespace many users have "
                                                     "that number)"));
  }
  auto ring = RingProducer::create();
  if (!ring) return tl::unexpected(ring.error());
  Handshake hello;
  hello.note = Note::kHello;
  hello.address_count = static_cast<std::uint16_t>(addresses_.size());
  std::copy(addresses_.begin(), addresses_.end(), hello.addresses.begin());
  const Fd pidfd = open_own_pidfd();
  std::vector<int> fds{page_->fd(), ring->fd()};
  hello.has_pidfd = bool(pidfd);
  if (pidfd) fds.push_back(pidfd.get());
  if (auto ok = socket->send(std::as_bytes(std::span(&hello, 1)), fds); !ok) {
    return tl::unexpected(ok.error());
  }
  auto link = std::make_shared<Outbound>(std::move(*socket), std::move(*ring), peer->pid);
  link->fence = page_->cannot_membarrier();
  link->owner_checks = owner_checks_;
  link->set_called(gid, block);
  {
    const std::lock_guard guard(lock_);
    const std::uint64_t id = next_id_++;
    auto watched = std::make_shared<Watched>();
    watched->outbound = link;
    link->set_watch(epoll_.get(), id);
    if (!watch(link->socket_fd(), id)) return system_error("epoll_ctl", errno);
    watched_.emplace(id, std::move(watched));
    reached_.push_back(link);
    outbound_changed_.store(true, std::memory_order_release);
  }
  links_.fetch_add(1, std::memory_order_relaxed);
  return link;
}

void Presence::list_outbound() {
  if (!outbound_changed_.exchange(false, std::memory_order_acq_rel)) return;
  const std::lock_guard guard(lock_);
  // Each comes once, also one that died before anybody looked: its owners have to be told. Whoever
  // walks takes the dead out.
  for (const auto& link : reached_) {
    if (!std::exchange(link->listed, true)) outbound_.push_back(link);
  }
  std::erase_if(reached_, [](const auto& link) {
    return link->dead.load(std::memory_order_acquire) && link->listed;
  });
}

// ---- keys -----------------------------------------------------------------------------------

void Presence::show(std::uint32_t slot, const memory::KeyTable::Entry& entry) {
  if (owner_checks_) return;
  const std::uint32_t arena = tables_->show_key(slot, entry);
  if (arena != 0) offer_arena(arena);
}

void Presence::offer_arena(std::uint32_t arena) {
  const std::lock_guard guard(lock_);
  if (std::find(offered_arenas_.begin(), offered_arenas_.end(), arena) != offered_arenas_.end()) {
    return;
  }
  std::shared_ptr<ArenaObject> keep;
  Handshake offer;
  offer.note = Note::kArena;
  offer.arena = arena;
  std::size_t bytes = 0;
  const int fd = arena_fd(arena, &bytes, &keep);
  if (fd < 0) return;
  offer.arena_bytes = bytes;
  withdraw_arenas();  // the helper may be asleep, and a program make and destroy many
  offered_arenas_.push_back(arena);
  for (const auto& link : served_) {
    // One whose queue is full reaches the arena by system calls.
    static_cast<void>(link->socket.send(std::as_bytes(std::span(&offer, 1)), std::array{fd}));
  }
}

void Presence::withdraw_arenas() {
  arenas_gone_.store(host::arenas_gone(), std::memory_order_relaxed);
  std::erase_if(offered_arenas_, [this](std::uint32_t arena) {
    if (hold_arena(arena) != nullptr) return false;
    for (const auto& link : served_) link->arenas_gone.push_back(arena);
    return true;
  });
  bool full = false;
  for (const auto& link : served_) {
    std::erase_if(link->arenas_gone, [&](std::uint32_t arena) {
      Handshake note;
      note.note = Note::kArenaGone;
      note.arena = arena;
      const auto told = link->socket.send(std::as_bytes(std::span(&note, 1)), {});
      const bool later = !told && told.error().code == Errc::kBusy;
      full = full || later;
      return !later;
    });
  }
  some_do_not_listen_.store(full, std::memory_order_relaxed);
}

void Presence::release_arenas() {
  const std::uint64_t dropped = Outbound::arenas_dropped();
  if (dropped == arenas_dropped_ && releasing_.empty()) return;
  {
    const std::lock_guard guard(lock_);
    if (dropped != arenas_dropped_) {
      releasing_.insert(releasing_.end(), reached_.begin(), reached_.end());
    }
    arenas_dropped_ = dropped;
  }
  std::erase_if(releasing_, [this](const auto& link) { return link->release_arenas(*page_); });
}

/// Those who hung up stay until their last thread has ended: it may be in the middle of a copy.
void Presence::forget_gone() {
  std::erase_if(served_, [](const std::shared_ptr<Inbound>& link) {
    return link->dead.load(std::memory_order_acquire) && link->gone();
  });
}

void Presence::drain_word(std::uint64_t word, bool fenced) {
  wait_while([word](const ProcessView& process) { return process.in_flight(word); }, fenced);
}

void Presence::wait_for_copies() {
  wait_while([this](const ProcessView& process) { return process.in_flight_at(tag()); }, false);
}

template <class InFlight>
void Presence::wait_while(InFlight in_flight, bool fenced) {
  std::vector<std::shared_ptr<Inbound>> links;
  {
    const std::lock_guard guard(lock_);
    forget_gone();
    if (served_.empty()) return;
    links = served_;
  }
  if (fenced) {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // its partner is in check_target()
  } else {
    page_->barrier();
  }
  constexpr int kSpins = 2000;
  constexpr int kStallNaps = 5000;  // of 20 us
  for (const auto& link : links) {
    for (int turn = 0; in_flight(link->process); ++turn) {
      if (turn < kSpins) {
        base::relax();
        continue;
      }
      if (link->gone()) break;
      const timespec nap{0, 20'000};
      nanosleep(&nap, nullptr);
      if (turn == kSpins + kStallNaps) {
        obs::log().warn(
            "a revocation has waited 100 ms for another process, which is in the middle of a copy "
            "or stopped; it goes on waiting");
      }
    }
  }
}

}  // namespace weft::host
