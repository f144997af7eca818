#include "path/kept_datagrams.h"

#include <new>
#include <span>

#include "path/direct_copy.h"

namespace weft::path {

using queue::QueuePair;
using queue::SendWqe;

KeptDatagrams::~KeptDatagrams() {
  while (first_ != nullptr) pop();
}

void KeptDatagrams::pop() {
  Copy* const gone = first_;
  first_ = gone->next;
  bytes_ -= gone->bytes;
  ::operator delete(gone);
}

KeptDatagrams::Copy* KeptDatagrams::copy(QueuePair& qp, std::uint32_t index) const {
  SendWqe& wqe = qp.sq.at(index);
  const bool is_message = wqe.op == SendOp::kSend || wqe.op == SendOp::kSendImmediate;
  const std::size_t bytes = sizeof(Copy) + sizeof(SendWqe) + wqe.length;
  if (!is_message || wqe.is_inline() || bytes_ + bytes > kMostBytes) return nullptr;
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, std::nothrow));
  if (memory == nullptr) return nullptr;
  std::byte* const payload = memory + sizeof(Copy) + sizeof(SendWqe);
  if (gather(qp, wqe, 0, {payload, wqe.length}) != CompletionStatus::kSuccess) {
    ::operator delete(memory);  // it fails when its turn comes
    return nullptr;
  }
  auto* const element = new (memory + sizeof(Copy)) SendWqe(wqe);
  element->flags = element->flags | SendFlags::kInline;
  element->num_sge = 0;
  auto* const made = new (memory) Copy;
  made->index = index;
  made->bytes = bytes;
  return made;
}

void KeptDatagrams::keep(QueuePair& qp) {
  static_cast<void>(front(qp));
  const std::uint32_t head = qp.sq.head();
  if (seen_ - head > qp.sq.tail() - head) seen_ = head;  // those that it has seen are complete
  for (; seen_ != qp.sq.tail(); ++seen_) {
    Copy* const made = copy(qp, seen_);
    if (made == nullptr) continue;
    bytes_ += made->bytes;
    (first_ == nullptr ? first_ : last_->next) = made;
    last_ = made;
  }
}

SendWqe& KeptDatagrams::front(QueuePair& qp) {
  const std::uint32_t head = qp.sq.head();
  while (first_ != nullptr && first_->index - head >= qp.sq.tail() - head) pop();
  if (first_ == nullptr || first_->index != head) return qp.sq.front();
  return *reinterpret_cast<SendWqe*>(first_ + 1);
}

}  // namespace weft::path
