#include "base/short_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::base {
namespace {

/// As linux/sched/types.h has it, whose names clash with the C library's.
struct SchedulerAttributes {
  std::uint32_t size = sizeof(SchedulerAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulerAttributes) == 48);

}  // namespace

void ask_for_short_slices() {
  SchedulerAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;  // whoever chose another one knows better
  attributes.runtime_ns = kShortestSlice_ns;
  attributes.flags = 0;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace weft::base
