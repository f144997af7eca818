#include "queue/xrc_domain.h"

#include <mutex>
#include <utility>

namespace weft::queue {

void XrcDomain::add(SrqNumber number, Member member) {
  const std::lock_guard guard(lock_);
  members_[number] = std::move(member);
}

void XrcDomain::remove(SrqNumber number) {
  Member gone;  // ends without the lock
  const std::lock_guard guard(lock_);
  const auto at = members_.find(number);
  if (at == members_.end()) return;
  gone = std::move(at->second);
  members_.erase(at);
  if (targets_ > 0) removed_.push_back(std::move(gone));
}

void XrcDomain::add_target() {
  const std::lock_guard guard(lock_);
  ++targets_;
}

void XrcDomain::remove_target() {
  std::vector<Member> gone;
  const std::lock_guard guard(lock_);
  if (--targets_ == 0) gone.swap(removed_);
}

bool XrcDomain::select(QueuePair& qp, SrqNumber number) {
  const std::lock_guard guard(lock_);
  const auto at = members_.find(number);
  if (at == members_.end()) return false;
  qp.shared_receive = at->second.receives;
  qp.recv_cq = at->second.cq;
  qp.pd = at->second.pd;
  return true;
}

}  // namespace weft::queue
