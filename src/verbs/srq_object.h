// What is behind a SharedReceiveQueue handle. Shared by the handle and the queue pairs that take
// from it.
#pragma once

#include <cstdint>
#include <memory>

#include "queue/receive_queue.h"

namespace weft::verbs {

struct PdObject;
struct CqObject;

struct SrqObject : queue::ReceiveQueue {
  std::shared_ptr<PdObject> pd;
  std::shared_ptr<CqObject> cq;  ///< of extended connections
  std::uint32_t number = 0;

  static SrqObject& of(queue::ReceiveQueue& queue) { return static_cast<SrqObject&>(queue); }
};

}  // namespace weft::verbs
