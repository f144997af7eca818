#include "path/neighbour_outbox.h"

#include <algorithm>
#include <vector>

namespace weft::path {

void NeighbourOutbox::wait_for_room(queue::QueuePair& qp) {
  std::vector<void*>& waiting = link_.waiting;
  if (std::find(waiting.begin(), waiting.end(), &qp) == waiting.end()) waiting.push_back(&qp);
}

void NeighbourOutbox::forget(const queue::QueuePair& qp) {
  set_waits(false);
  hold();
  link_.ring.forget(&qp);
  std::erase(link_.waiting, &qp);
  leave();
}

}  // namespace weft::path
