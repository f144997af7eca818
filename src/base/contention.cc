#include "base/contention.h"

#include <sys/resource.h>

#include <algorithm>
#include <ctime>

namespace weft::base {

ThreadTime thread_time() {
  timespec cpu{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {
      static_cast<Nanoseconds>(cpu.tv_sec) * 1'000'000'000 + static_cast<Nanoseconds>(cpu.tv_nsec),
      usage.ru_nvcsw};
}

bool Contention::look(Nanoseconds now, const ThreadTime& used) {
  const Nanoseconds elapsed = now - window_from_;
  const Nanoseconds ran = used.cpu_ns - before_.cpu_ns;
  const bool slept = used.sleeps != before_.sleeps;
  const bool kept_off = window_from_ != 0 && !slept && elapsed < kPause_ns &&
                        elapsed - std::min(ran, elapsed) > elapsed / 4;
  window_from_ = now;
  before_ = used;
  next_look_ = now + kWindow_ns;
  if (!kept_off) return false;
  period_ns_ = until_ != 0 && now - until_ < period_ns_ ? std::min(2 * period_ns_, kLongest_ns)
                                                        : kShortest_ns;
  until_ = now + period_ns_;
  // What it uses until then says nothing: it sleeps.
  next_look_ = until_;
  window_from_ = 0;
  return true;
}

}  // namespace weft::base
