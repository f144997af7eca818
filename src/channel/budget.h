// How much registered memory the channels of one context may take together, and who gets some of it
// when not all can have what they want. Belongs to a context, under its lock; sans-IO.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::channel {

class Budget {
 public:
  explicit Budget(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  void add_channel() { ++channels_; }
  void remove_channel() { --channels_; }

  /// A channel that has `has` asks for `more`. Within its fair share it gets it while there is any;
  /// beyond it only from what exceeds a quarter of the budget, which is kept for the others.
  bool take(std::uint64_t has, std::uint64_t more) {
    const bool fair = has + more <= share();
    const std::uint64_t reserve = fair ? 0 : limit_ / 4;
    if (used_ + more + reserve > limit_) {
      ++refusals_;
      return false;
    }
    used_ += more;
    peak_ = std::max(peak_, used_);
    return true;
  }
  /// For what nobody needs yet: only while half of the budget stays free.
  bool take_spare(std::uint64_t bytes) {
    if (used_ + bytes > limit_ / 2) return false;
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return true;
  }
  void give_back(std::uint64_t bytes) { used_ -= bytes; }

  std::uint64_t share() const { return limit_ / std::max<std::uint64_t>(channels_, 1); }
  /// Somebody was refused and there is little left: who has more than a share should shrink.
  bool tight() const { return used_ > limit_ / 2 && refusals_ > 0; }
  std::uint64_t limit() const { return limit_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t peak() const { return peak_; }
  std::uint64_t channels() const { return channels_; }
  std::uint64_t refusals() const { return refusals_; }

 private:
  const std::uint64_t limit_;
  std::uint64_t used_ = 0, peak_ = 0, channels_ = 0, refusals_ = 0;
};

}  // namespace weft::channel
