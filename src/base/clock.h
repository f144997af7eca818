// Where time comes from: the steady clock of a process, the virtual one of a simulation. Outlives
// what it is given to; threads as the implementation says.
#pragma once

#include "weft/types.h"

namespace weft::base {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanoseconds now() = 0;
};

}  // namespace weft::base
