#include "host/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/assert.h"
#include "base/lock.h"
#include "host/fd_mark.h"

namespace weft::host {

constinit std::atomic<unsigned> detail::generation{0};
namespace {

struct Mapping {
  void* data;
  std::size_t size;
};

// Relaxed: a child's only thread wrote it.
constinit thread_local unsigned holds_of_thread = 0;

// Vectors of plain values: the child walks and clears them without touching the heap.
class ForkRegistry {
 public:
  static ForkRegistry& instance() {
    // Never destroyed: objects that outlive the static ones still register and unregister.
    static ForkRegistry& registry = *new ForkRegistry;
    return registry;
  }

  ForkRegistry() {
    const int error = pthread_atfork([] { instance().before_fork(); }, [] { instance().release(); },
                                     [] { instance().in_child(); });
    WEFT_ASSERT(error == 0);
  }

  void add(Mapping mapping) {
    const std::lock_guard lock(lock_);
    mappings_.insert(find(mapping.data), mapping);
  }

  void remove(void* data) {
    const std::lock_guard lock(lock_);
    const auto found = find(data);
    // In a child its parent's mappings are not known any more.
    if (found != mappings_.end() && found->data == data) mappings_.erase(found);
  }

  int add_fd(int fd) {
    const std::lock_guard lock(lock_);
    auto index = static_cast<std::size_t>(fd);
    if (index < fds_.size() && fds_[index]) {
      const int other = fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(fds_.size()));
      if (other < 0) return fd;
      close(fd);
      fd = other;
      index = static_cast<std::size_t>(fd);
    }
    if (index >= fds_.size()) fds_.resize(index + 1);
    fds_[index] = true;
    return fd;
  }

  void remove_fd(int fd) {
    const auto index = static_cast<std::size_t>(fd);
    const std::lock_guard lock(lock_);
    if (index < fds_.size()) fds_[index] = false;
  }

  void add(void (*function)()) {
    const std::lock_guard lock(lock_);
    functions_.push_back(function);
  }

  void enter() {
    const std::lock_guard lock(gate_);
    // relaxed: gate_ orders it before the look of whoever forks next.
    holds_.fetch_add(1, std::memory_order_relaxed);
  }

  void leave() {
    // release pairs with the acquire in before_fork(): the child sees what the hold protected.
    if (holds_.fetch_sub(1, std::memory_order_release) == 1) holds_.notify_all();
  }

 private:
  std::vector<Mapping>::iterator find(void* data) {
    return std::lower_bound(mappings_.begin(), mappings_.end(), data,
                            [](const Mapping& mapping, void* key) { return mapping.data < key; });
  }

  // gate_ keeps new holds out while those that exist end; they may still need lock_.
  void before_fork() {
    gate_.lock();
    for (;;) {
      const unsigned now = holds_.load(std::memory_order_acquire);
      if (now == 0) break;
      holds_.wait(now, std::memory_order_acquire);
    }
    lock_.lock();
  }

  void release() {
    lock_.unlock();
    gate_.unlock();
  }

  void in_child() {
    detail::generation.fetch_add(1, std::memory_order_relaxed);
    for (const Mapping& mapping : mappings_) replace(mapping);
    mappings_.clear();
    for (std::size_t fd = 0; fd < fds_.size(); ++fd) {
      // Not what the parent opened itself under a number that it took from us.
      if (fds_[fd] && is_ours(static_cast<int>(fd))) close(static_cast<int>(fd));
    }
    std::fill(fds_.begin(), fds_.end(), false);
    release();
    // By index: a function may register another.
    for (std::size_t i = 0; i < functions_.size(); ++i) functions_[i]();
  }

  static void replace(const Mapping& mapping) {
    constexpr int kFlags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (mmap(mapping.data, mapping.size, PROT_READ | PROT_WRITE, kFlags, -1, 0) != MAP_FAILED) {
      return;
    }
    // A child that dies when it touches the memory is better than one that writes to its parent's.
    if (mmap(mapping.data, mapping.size, PROT_NONE, kFlags, -1, 0) == MAP_FAILED) std::abort();
  }

  base::Lock gate_;
  std::atomic<unsigned> holds_{0};
  base::Lock lock_;                // for what follows
  std::vector<Mapping> mappings_;  // by address
  std::vector<bool> fds_;          // by number
  std::vector<void (*)()> functions_;
};

// From the start of the process, so that every fork is counted.
[[maybe_unused]] const ForkRegistry& at_start = ForkRegistry::instance();

}  // namespace

void forget_mapping_in_child(void* data, std::size_t size) {
  ForkRegistry::instance().add(Mapping{data, size});
}

void mapping_is_gone(void* data) { ForkRegistry::instance().remove(data); }

int close_in_child(int fd) {
  if (!mark_as_ours(fd)) {
    close(fd);
    return -1;
  }
  return ForkRegistry::instance().add_fd(fd);
}

void fd_is_gone(int fd) {
  forget_inode(fd);
  ForkRegistry::instance().remove_fd(fd);
}

void call_in_child(void (*function)()) { ForkRegistry::instance().add(function); }

ForkHold::ForkHold() {
  if (holds_of_thread++ == 0) ForkRegistry::instance().enter();
}

ForkHold::~ForkHold() {
  if (--holds_of_thread == 0) ForkRegistry::instance().leave();
}

}  // namespace weft::host
