#include "worlds/atomics.h"

#include <fmt/format.h>

namespace weft::worlds {

void CounterCheck::succeeded(std::uint64_t add, std::uint64_t old, sim::Judge& judge) {
  in_doubt_ -= add;
  confirmed_ += add;
  if (!olds_.insert(old).second) {
    judge.violated(fmt::format("{}: two fetch-and-adds both found the value {}", name_, old));
  }
}

void CounterCheck::check_final(std::uint64_t value, sim::Judge& judge) const {
  const std::uint64_t grown = value - initial_;
  if (grown < confirmed_ || grown > confirmed_ + in_doubt_) {
    judge.violated(
        fmt::format("{}: it grew by {}, but additions of {} succeeded and of {} are in "
                    "doubt",
                    name_, grown, confirmed_, in_doubt_));
  }
}

void SwapCheck::posted(std::uint64_t swap) {
  offered_.insert(swap);
  ++in_doubt_;
}

void SwapCheck::succeeded(std::uint64_t compare, std::uint64_t swap, std::uint64_t old,
                          sim::Judge& judge) {
  --in_doubt_;
  if (!offered_.contains(old)) {
    return judge.violated(
        fmt::format("{}: compare-and-swap found {:#x}, which nobody ever stored", name_, old));
  }
  latest_ = old;
  if (old != compare) return;
  latest_ = swap;
  if (!successor_.emplace(old, swap).second) {
    judge.violated(fmt::format("{}: two compare-and-swaps both replaced {:#x}", name_, old));
  }
}

void SwapCheck::check_final(std::uint64_t value, sim::Judge& judge) const {
  if (!offered_.contains(value)) {
    return judge.violated(
        fmt::format("{}: it holds {:#x}, which nobody ever stored", name_, value));
  }
  if (in_doubt_ > 0) return;
  std::uint64_t end = initial_;
  std::size_t links = 0;
  for (auto next = successor_.find(end); next != successor_.end(); next = successor_.find(end)) {
    end = next->second;
    if (++links > successor_.size()) break;
  }
  if (end != value || links != successor_.size()) {
    judge.violated(
        fmt::format("{}: it holds {:#x}, but the chain of {} swaps ends after {} at "
                    "{:#x}",
                    name_, value, successor_.size(), links, end));
  }
}

}  // namespace weft::worlds
