#include "host/strange_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "base/lock.h"

namespace weft::host {
namespace {

/// A peer can make so many wait; those behind them wait too, and nobody else.
constexpr std::size_t kMostClosers = 8;

struct Closers {
  base::Lock lock;
  std::deque<int> fds;
  std::size_t threads = 0;
  std::size_t idle = 0;  ///< of those, with nothing to close
  std::atomic<std::uint32_t> given{0};

  static Closers& instance() {
    static Closers& closers = *[] {
      call_in_child([] {  // the threads are the parent's, and so is what they close
        Closers& own = instance();
        new (&own.lock) base::Lock;
        own.fds.clear();
        own.threads = own.idle = 0;
      });
      return new Closers;
    }();
    return closers;
  }

  /// The next one; waits for it.
  int take() {
    for (;;) {
      std::uint32_t seen = 0;
      {
        const std::lock_guard guard(lock);
        if (!fds.empty()) {
          const int fd = fds.front();
          fds.pop_front();
          return fd;
        }
        // Under the lock that whoever gives one holds: what comes from here on ends the wait.
        seen = given.load(std::memory_order_relaxed);
        ++idle;
      }
      given.wait(seen, std::memory_order_relaxed);
      const std::lock_guard guard(lock);
      --idle;
    }
  }
};

/// It never ends: a thread's end frees and unmaps memory, and libraries such as libfabric patch the
/// functions that do so while other threads run.
void* close_all(void*) {
  pthread_setname_np(pthread_self(), "weft-closer");
  for (;;) close(Closers::instance().take());
}

bool start_closer() {
  sigset_t all, before;
  sigfillset(&all);  // signals are the program's
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t closer;
  const bool started = pthread_create(&closer, nullptr, close_all, nullptr) == 0;
  if (started) pthread_detach(closer);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

/// What peers send each other in good faith, and a few more: the kernel asks nobody before it
/// closes them. Found out by calls that wait for nobody either (fstat may). Names of files begin
/// with a slash.
bool closes_at_once(int fd) {
  if (fcntl(fd, F_GET_SEALS) >= 0) return true;  // memory
  std::array<char, 64> target;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = readlink(path.c_str(), target.data(), target.size());
  const std::string_view name(target.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  return name == "anon_inode:[pidfd]" || name.starts_with("pidfd:") ||
         name == "anon_inode:[eventfd]";
}

}  // namespace

void close_aside(int fd) {
  Closers& closers = Closers::instance();
  {
    const std::lock_guard guard(closers.lock);
    closers.fds.push_back(fd);
    closers.given.fetch_add(1, std::memory_order_relaxed);
    closers.given.notify_one();
    if (closers.idle >= closers.fds.size() || closers.threads == kMostClosers) return;
    ++closers.threads;
  }
  if (start_closer()) return;
  const std::lock_guard guard(closers.lock);
  --closers.threads;
}

void StrangeFd::reset() {
  if (!fd_) return;
  if (closes_at_once(fd_.get())) {
    fd_.reset();
  } else {
    close_aside(fd_.release());
  }
}

}  // namespace weft::host
