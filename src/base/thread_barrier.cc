#include "base/thread_barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace weft::base {
namespace {

/// Much longer than any processor keeps a store to itself.
constexpr timespec kStoreNap{0, 1'000'000};

bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
/// A filter that the program put on itself later.
std::atomic<bool> refused{false};

}  // namespace

bool can_order_threads() { return registered && !refused.load(std::memory_order_relaxed); }

void order_all_threads() {
  if (can_order_threads()) {
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
    if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
      return;
    }
    refused.store(true, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  nanosleep(&kStoreNap, nullptr);
}

}  // namespace weft::base
