// Where checkers report what must not happen. The first violation is kept, with its time; it is not
// thrown, because checkers are called from inside production code that holds locks. The world stops
// before its next event. Owned by the world; one thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"

namespace weft::sim {

struct Violation {
  std::string reason;
  Nanoseconds when = 0;
};

class Judge {
 public:
  explicit Judge(base::Clock& clock) : clock_(clock) {}

  void violated(std::string reason) {
    if (!first_) first_ = Violation{std::move(reason), clock_.now()};
  }
  const std::optional<Violation>& violation() const { return first_; }
  bool content() const { return !first_.has_value(); }

 private:
  base::Clock& clock_;
  std::optional<Violation> first_;
};

}  // namespace weft::sim
