// Two halves of the demonstration on two hosts: a TCP connection by which they agree, and tell each
// other how far they are. Whoever listens is the one that prints. Belongs to the program; one
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "demo/pair.h"

namespace weft::demo {

/// What one side says about itself.
struct Report {
  std::uint64_t used_bytes = 0, sent = 0, verified = 0, bytes = 0, wrong = 0;
  std::uint64_t stop = 0;  ///< what the side that prints wants, and its echo
};

/// One side waits at `port` for the other, on whatever address; both give up after a while.
PairEnd await_other_host(std::uint16_t port);
PairEnd meet_other_host(const std::string& host, std::uint16_t port);

/// Reports of the other side, whole ones, as far as they have come; false: none has.
class Reports {
 public:
  explicit Reports(const PairEnd& end) : end_(end) {}
  void send(const Report& report) const;
  bool take(Report& newest);
  /// The same, but waits for one.
  Report next();

 private:
  bool read_one(Report& report, bool wait);

  const PairEnd end_;
  std::size_t filled_ = 0;  // bytes of one that has not come whole
  Report partial_;
};

}  // namespace weft::demo
