#include "host/link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "obs/log.h"

namespace weft::host {
namespace {

std::atomic<std::uint64_t> dropped_arenas{0};

/// A target that sends and sends keeps nobody here.
constexpr int kNotesPerReceive = 256;

bool not_allowed(int error) { return error == EPERM || error == ENOSYS || error == EACCES; }

}  // namespace

bool Inbound::gone() const {
  // A process closes its files when its last thread has left them, but a program may close them
  // too: then it lives on, and so may a copy of one of its threads. poll skips a negative fd.
  std::array<pollfd, 2> ends{pollfd{socket.fd(), POLLHUP, 0}, pollfd{pidfd.get(), POLLIN, 0}};
  ::poll(ends.data(), ends.size(), 0);
  return ends[1].revents != 0 || (ends[0].revents != 0 && !process.alive());
}

bool Outbound::has(const Gid& gid, std::uint32_t block) const {
  return usable() && std::find(addresses_.begin(), addresses_.end(), gid) != addresses_.end() &&
         tables.has_block(block);
}

void Outbound::hang_up() {
  dead.store(true, std::memory_order_release);
  socket_.hang_up();  // whoever watches the socket clears up
}

// ---- what the target sends ------------------------------------------------------------------

void Outbound::receive(int timeout_ms) {
  const std::lock_guard guard(socket_lock_);
  if (timeout_ms > 0) socket_.wait(timeout_ms);
  // Looked at first: a wake that comes meanwhile must not be taken in place of a note.
  for (int i = 0; i < kNotesPerReceive && socket_.note_is_next() && take_next(); ++i) {
  }
}

void Outbound::serve() {
  const std::lock_guard guard(socket_lock_);
  for (int i = 0; i < kNotesPerReceive && take_next(); ++i) {
  }
}

/// False: there is no more.
bool Outbound::take_next() {
  if (dead.load(std::memory_order_acquire)) return false;
  auto message = socket_.receive(sizeof(Handshake), 0);
  if (!message) {
    if (message.error().code != Errc::kTimedOut) hang_up();
    return false;
  }
  if (!message->is_wake()) take(std::move(*message));
  return true;
}

void Outbound::take(Message message) {
  const auto note = parse_handshake(message);
  if (!note || note->note == Note::kHello) return hang_up();
  if (note->note == Note::kArena) return take_arena(*note, std::move(message));
  if (note->note == Note::kArenaGone) return drop_arena(note->arena);
  if (welcome_.load(std::memory_order_relaxed)) return hang_up();
  auto seen = ProcessView::receive(std::move(message.fds[0]));
  auto shown = PublicView::receive(std::move(message.fds[1]));
  if (!seen || !shown) return hang_up();
  process = std::move(*seen);
  tables = std::move(*shown);
  fence = fence || process.cannot_membarrier();
  if (note->has_pidfd) pidfd_ = take_pidfd(std::move(message.fds[2]));
  if (pidfd_ && is_ours(epoll_)) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = watched_as_;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, pidfd_.get(), &event);
  }
  addresses_.assign(note->addresses.begin(), note->addresses.begin() + note->address_count);
  owner_checks = owner_checks || note->owner_checks;
  if (pid_ == 0 && !owner_checks) refuse_copies("its process number is not visible from here", 0);
  welcome_.store(true, std::memory_order_release);
}

// ---- arenas ---------------------------------------------------------------------------------

void Outbound::take_arena(const Handshake& note, Message message) {
  if (owner_checks) return;
  auto memory = SharedMemory::receive(std::move(message.fds[0]), note.arena_bytes, note.arena_bytes,
                                      SharedMemory::Peers::kWrite);
  if (!memory) return;  // it is reached by system calls, then
  memory->close_fd();
  {
    const std::lock_guard guard(arena_lock_);
    arenas_.try_emplace(note.arena, std::move(*memory));
  }
  arenas_changed.fetch_add(1, std::memory_order_release);
}

std::uint64_t Outbound::arenas_dropped() { return dropped_arenas.load(std::memory_order_acquire); }

// The target may lie, and threads may be in the middle of a copy there: the memory stays mapped
// until they have ended, and nobody begins another one.
void Outbound::drop_arena(std::uint32_t number) {
  {
    const std::lock_guard guard(arena_lock_);
    auto found = arenas_.extract(number);
    if (found.empty()) return;
    dropped_.push_back(std::move(found.mapped()));
  }
  arenas_changed.fetch_add(1, std::memory_order_release);
  dropped_arenas.fetch_add(1, std::memory_order_release);
}

void Outbound::drop_arenas() {
  {
    const std::lock_guard guard(arena_lock_);
    if (arenas_.empty()) return;
    for (auto& [number, memory] : arenas_) dropped_.push_back(std::move(memory));
    arenas_.clear();
  }
  arenas_changed.fetch_add(1, std::memory_order_release);
  dropped_arenas.fetch_add(1, std::memory_order_release);
}

bool Outbound::release_arenas(const ProcessPage& page) {
  std::vector<SharedMemory> dropped;
  {
    const std::lock_guard guard(arena_lock_);
    dropped.swap(dropped_);
  }
  if (dropped.empty() || !welcome_.load(std::memory_order_acquire) || page.settled(tables.tag())) {
    return true;
  }
  const std::lock_guard guard(arena_lock_);
  for (SharedMemory& memory : dropped) dropped_.push_back(std::move(memory));
  return false;
}

std::span<std::byte> Outbound::arena(std::uint32_t number) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    {
      const std::lock_guard guard(arena_lock_);
      const auto found = arenas_.find(number);
      if (found != arenas_.end()) return found->second.bytes();
    }
    if (attempt == 0) receive(0);
  }
  return {};
}

// ---- copies by system call ------------------------------------------------------------------

void Outbound::refuse_copies(const char* why, int error) const {
  if (copy_refused_.exchange(true, std::memory_order_relaxed)) return;
  obs::log().warn(
      "process {}: its memory cannot be reached from here ({}{}{}); data goes through the ring "
      "and is copied there",
      pid_, why, error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "");
}

bool Outbound::copy(Direction direction, std::span<const iovec> near, std::span<const iovec> far,
                    std::size_t length) const {
  if (!process.alive()) {
    errno = ESRCH;
    return false;
  }
  if (process.closed_to_copies()) {
    errno = EAGAIN;
    return false;
  }
  const bool reads = direction == Direction::kRead;
  const auto call = reads ? process_vm_readv : process_vm_writev;
  const ssize_t n = call(pid_, near.data(), near.size(), far.data(), far.size(), 0);
  if (n == static_cast<ssize_t>(length)) return true;
  if (n >= 0) errno = EFAULT;
  if (not_allowed(errno)) refuse_copies(reads ? "process_vm_readv" : "process_vm_writev", errno);
  return false;
}

}  // namespace weft::host
