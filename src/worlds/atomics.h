// Checkers for memory words that many queue pairs change by atomics at the same time. They know
// each request that was posted and what came back, and judge the word's final value. Owned by the
// process whose word it is; one thread.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>

#include "sim/judge.h"

namespace weft::worlds {

/// A word that fetch-and-add counts up. Additions are positive, so each old value is seen once.
class CounterCheck {
 public:
  CounterCheck(std::string name, std::uint64_t initial)
      : name_(std::move(name)), initial_(initial) {}

  void posted(std::uint64_t add) { in_doubt_ += add; }
  void succeeded(std::uint64_t add, std::uint64_t old, sim::Judge& judge);
  /// A request that did not succeed stays in doubt: it may have happened, once.
  void check_final(std::uint64_t value, sim::Judge& judge) const;

 private:
  std::string name_;
  std::uint64_t initial_;
  std::uint64_t confirmed_ = 0, in_doubt_ = 0;
  std::set<std::uint64_t> olds_;
};

/// A word that compare-and-swap changes; every value that is swapped in is used once.
class SwapCheck {
 public:
  SwapCheck(std::string name, std::uint64_t initial)
      : name_(std::move(name)), initial_(initial), latest_(initial) {
    offered_.insert(initial);
  }

  /// The value that a request may expect to find.
  std::uint64_t guess() const { return latest_; }
  void posted(std::uint64_t swap);
  void succeeded(std::uint64_t compare, std::uint64_t swap, std::uint64_t old, sim::Judge& judge);
  void check_final(std::uint64_t value, sim::Judge& judge) const;

 private:
  std::string name_;
  std::uint64_t initial_, latest_;
  std::uint64_t in_doubt_ = 0;
  std::set<std::uint64_t> offered_;
  std::unordered_map<std::uint64_t, std::uint64_t> successor_;  ///< old value to new one
};

}  // namespace weft::worlds
