#include "path/neighbour_outbox.h"

#include <algorithm>
#include <vector>

namespace weft::path {

host::Record* NeighbourOutbox::reserve(queue::QueuePair& qp, std::uint32_t bytes) {
  hold();
  host::Record* record = link_.ring.reserve(bytes);
  if (record == nullptr) [[unlikely]] {
    std::vector<void*>& waiting = link_.waiting;
    if (std::find(waiting.begin(), waiting.end(), &qp) == waiting.end()) waiting.push_back(&qp);
  }
  return record;
}

void NeighbourOutbox::forget(const queue::QueuePair& qp) {
  set_waits(false);
  hold();
  link_.ring.forget(&qp);
  std::erase(link_.waiting, &qp);
  leave();
}

}  // namespace weft::path
