#include "verbs/helper.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <thread>

#include "base/assert.h"
#include "verbs/process.h"

namespace weft::verbs {
namespace {

/// How long a program that polled may pause before the helper takes over.
constexpr Nanoseconds kDoze_ns = 2'000'000;
constexpr Nanoseconds kLongest_ns = 1'000'000'000;
constexpr int kRoundsPerServe = 64;
constexpr std::size_t kMaxFds = 64;

}  // namespace

Helper& Helper::process() {
  static Helper* helper = new Helper(*process_environment().clock);
  return *helper;
}

Helper::Helper(path::Clock& clock) : clock_(clock) {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  WEFT_ASSERT(wake_fd_ >= 0);
}

void Helper::attach(path::Engine& engine) {
  {
    const std::lock_guard guard(mutex_);
    clients_.push_back({&engine, engine.polls()});
  }
  engine.set_wake([this](Nanoseconds deadline) { wake(deadline); });
  if (!engine.wait_fds().empty()) {
    start();
    eventfd_write(wake_fd_, 1);  // it sleeps without this engine's sockets
  }
}

void Helper::detach(path::Engine& engine) {
  engine.set_wake(nullptr);
  const std::lock_guard guard(mutex_);
  std::erase_if(clients_, [&](const Client& client) { return client.engine == &engine; });
}

void Helper::start() {
  if (started_.exchange(true, std::memory_order_acq_rel)) return;
  sigset_t all, before;
  sigfillset(&all);  // signals are the program's, but for those that the memory guard turns back
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Helper::wake(Nanoseconds deadline) {
  if (!started_.load(std::memory_order_acquire)) return start();
  // seq_cst on both sides: either we see the sleeper's note, or it sees our work before it sleeps.
  if (deadline < asleep_until_.load(std::memory_order_seq_cst)) eventfd_write(wake_fd_, 1);
}

/// One pass over all engines. False: nothing was left to do.
bool Helper::serve(Nanoseconds* deadline, bool* polled) {
  const std::lock_guard guard(mutex_);
  bool did = false;
  *deadline = kNever;
  *polled = false;
  for (Client& client : clients_) {
    const std::uint64_t polls = client.engine->polls();
    if (polls != client.polls_seen) {
      client.polls_seen = polls;
      *polled = true;  // the program does its own work
      continue;
    }
    for (int round = 0; round < kRoundsPerServe && client.engine->progress(); ++round) did = true;
    *deadline = std::min(*deadline, client.engine->next_deadline());
    if (client.engine->has_runnable()) *deadline = 0;
  }
  return did;
}

void Helper::sleep(Nanoseconds deadline, bool polled) {
  std::array<pollfd, kMaxFds> fds;
  nfds_t count = 0;
  fds[count++] = {wake_fd_, POLLIN, 0};
  const Nanoseconds now = clock_.now();
  Nanoseconds until = std::min(deadline, now + (polled ? kDoze_ns : kLongest_ns));
  if (!polled) {
    const std::lock_guard guard(mutex_);
    for (const Client& client : clients_) {
      for (const int fd : client.engine->wait_fds()) {
        if (count < kMaxFds) fds[count++] = {fd, POLLIN, 0};
      }
    }
    asleep_until_.store(until, std::memory_order_seq_cst);
    // What was handed over before the note was readable is found by looking once more.
    for (const Client& client : clients_) {
      if (client.engine->has_runnable()) until = now;
      until = std::min(until, client.engine->next_deadline());
    }
  }
  if (until > now) {
    const Nanoseconds pause = until - now;
    const timespec limit{static_cast<time_t>(pause / 1'000'000'000),
                         static_cast<long>(pause % 1'000'000'000)};
    ppoll(fds.data(), count, &limit, nullptr);
  }
  asleep_until_.store(0, std::memory_order_seq_cst);
  eventfd_t drained;
  eventfd_read(wake_fd_, &drained);
}

void Helper::run() {
  pthread_setname_np(pthread_self(), "weft-helper");
  for (;;) {
    Nanoseconds deadline = kNever;
    bool polled = false;
    if (!serve(&deadline, &polled)) sleep(deadline, polled);
  }
}

}  // namespace weft::verbs
