// A queue pair of the reliable datagram service, as the contexts see it that carry its messages:
// part of its path, which alone knows what it is. Lives as long as that.
#pragma once

namespace weft::queue {

class DatagramEnd {
 protected:
  ~DatagramEnd() = default;
};

}  // namespace weft::queue
