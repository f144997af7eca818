#include "weft_node.h"

#include <span>
#include <string>

namespace weft::bench {

Node::Node(const verbs::DeviceOptions& options)
    : device(must(verbs::Device::open(options), "open a device:")),
      pd(must(device.allocate_pd(), "allocate a protection domain:")),
      send_cq(must(device.create_cq(2048), "create a completion queue:")),
      receive_cq(must(device.create_cq(2048), "create a completion queue:")) {}

verbs::QueuePair Node::connect(const Lane& lane, const QueuePairLimits& limits) const {
  auto qp =
      must(pd.create_queue_pair(send_cq, receive_cq, {.limits = limits}), "create a queue pair:");
  must(qp.connect(lane.swap(qp.endpoint())), "connect:");
  lane.meet();
  return qp;
}

Memory::Memory(const Node& node, Place place, std::size_t bytes) {
  if (place == Place::kArena) {
    arena_ = must(Arena::create(bytes + (64 << 10)), "create an arena:");
    data_ = static_cast<std::byte*>(arena_->allocate(bytes, 4096));
    if (data_ == nullptr) give_up("arena:", "no room");
    std::fill_n(data_, bytes, std::byte{0});
  } else {
    heap_ = Pages(bytes, std::byte{0});
    data_ = heap_.data();
  }
  region_ =
      must(node.pd.register_memory(
               data_, bytes, Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead),
           "register memory:");
}

Completion take_completion(const verbs::CompletionQueue& cq) {
  // Where it is polled to, there it stays: a copy would wait until what was just stored can be
  // read.
  Completion completion;
  while (cq.poll(std::span(&completion, 1)) == 0) continue;
  expect_good(completion);
  return completion;
}

void expect_good(const Completion& completion) {
  if (completion.ok()) return;
  const std::string what = std::string(to_string(completion.op)) + ":";
  give_up(what.c_str(), std::string(to_string(completion.status)).c_str());
}

QueuePairLimits limits_for(std::uint32_t depth) {
  return {.max_send_wr = depth, .max_recv_wr = depth, .max_inline_bytes = 8};
}

}  // namespace weft::bench
