// Something beside the ports from which work comes to an engine, such as the packets of a raw port.
// The engine does not own it; it is made before its first use and stays until the controller's end.
#pragma once

#include <vector>

namespace weft::path {

class Source {
 public:
  /// Takes a bounded amount of what has come; true if there was something. Any thread; `missed`
  /// becomes true when another one is at it, or when there may be more.
  virtual bool poll(bool& missed) = 0;
  /// Descriptors one of which is readable when poll() would find something.
  virtual void add_wait_fds(std::vector<int>& fds) const = 0;

 protected:
  ~Source() = default;
};

}  // namespace weft::path
