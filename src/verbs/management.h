// Management datagrams: what arrives for queue pair 1 of any device of this process, and the way
// out for what is sent from it. There is one sink for the process, which the connection manager
// sets; without one such frames count as sent to an unknown queue pair. Any thread.
#pragma once

#include <cstddef>
#include <span>

#include "weft/types.h"

namespace weft::verbs {

class Controller;

inline constexpr std::size_t kManagementBytes = 256;

/// The bytes live until the call returns. Nothing in them was checked.
struct ManagementDatagram {
  Gid source, destination;
  std::span<const std::byte, kManagementBytes> bytes;
};

class ManagementSink {
 public:
  virtual ~ManagementSink() = default;
  /// By a thread that polls or by the helper: must neither wait nor close a device.
  virtual void on_datagram(Controller& controller, const ManagementDatagram& datagram) = 0;
};

/// Once, before the first device opens; the sink lives for ever.
void set_management_sink(ManagementSink& sink);
/// Null: none.
ManagementSink* management_sink();

}  // namespace weft::verbs
