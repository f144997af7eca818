// Two processes that do the same plan, each its side of it: the parent forks the child before
// either has touched RDMA, tells it over a pipe which port to connect to, and both go on. Or both
// were started by somebody else, who joined them with pipes: then they may be on two hosts. For
// measuring and showing channels; one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/channel.h"

namespace weft::demo {

enum class Side { kHere, kThere };

/// Ends the program with a message: a tool has nobody to hand an error to.
[[noreturn]] void give_up(const std::string& why);

template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error().message);
  return std::move(*result);
}
inline void must(const Result<void>& result) {
  if (!result) give_up(result.error().message);
}

/// A side that was started by itself, and the pipes to the other.
struct PairEnd {
  Side side = Side::kHere;
  int in = -1, out = -1;
};

class Pair {
 public:
  /// Without an end: forks, and the child's side is kThere. `address` is where kHere listens.
  Pair(const std::string& address, const channel::ContextOptions& options,
       std::optional<PairEnd> end = {});
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  Side side() const { return side_; }
  bool here() const { return side_ == Side::kHere; }
  channel::Context& context() { return *context_; }
  /// One more connection of the pair; both sides call it at the same point of the plan.
  channel::Channel open(const channel::Settings& settings);
  std::vector<channel::Channel> open_many(const channel::Settings& settings, int count);
  /// Each side takes a core for itself, where there are two: the scheduler may otherwise keep both
  /// on one for seconds, and what is measured then is the scheduler. To be called last: threads
  /// that begin later stay on that core too.
  void take_core() const;
  /// Both sides have come here.
  void meet();
  /// The other side's number.
  std::uint64_t exchange(std::uint64_t mine);

 private:
  void split();

  Side side_ = Side::kHere;
  pid_t child_ = -1;
  int out_ = -1, in_ = -1;
  std::string address_;
  std::optional<channel::Context> context_;
};

}  // namespace weft::demo
