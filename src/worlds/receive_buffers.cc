#include "worlds/receive_buffers.h"

#include <algorithm>

namespace weft::worlds {
namespace {

/// Room between the elements of one scatter list, which nobody may write.
constexpr std::uint32_t kGap = 24;

}  // namespace

ReceiveBuffers::ReceiveBuffers(sim::Stage& stage, Process& process, std::uint32_t card,
                               std::uint32_t count, std::uint32_t bytes, std::uint32_t max_sge)
    : stage_(stage),
      process_(process),
      bytes_(bytes),
      max_sge_(max_sge),
      buffers_(count),
      region_([&] {
        const std::uint32_t each = bytes + kGap * (max_sge + 1);
        const std::uint64_t ea = process.shadow.allocate(each * count);
        for (std::uint32_t i = 0; i < count; ++i) buffers_[i].ea = ea + std::uint64_t{each} * i;
        return process.domains[card]
            .register_range(ea, std::uint64_t{each} * count, Access::kLocalWrite)
            .value();
      }()) {
  for (std::uint32_t i = 0; i < count; ++i) free_.push_back(i);
}

void ReceiveBuffers::scatter(Buffer& buffer) {
  buffer.sges.clear();
  const std::uint64_t elements = stage_.between(1, max_sge_);
  std::uint64_t at = buffer.ea + stage_.random.below(kGap);
  std::uint32_t left = bytes_;
  for (std::uint64_t i = 1; i <= elements; ++i) {
    const auto n = i == elements ? left : static_cast<std::uint32_t>(stage_.random.below(left + 1));
    buffer.sges.push_back({at - buffers_.front().ea + region_.address(), n, region_.lkey()});
    buffer.grants.push_back(process_.shadow.grant(at, n));
    at += n + stage_.random.below(kGap);
    left -= n;
  }
}

void ReceiveBuffers::post(std::size_t most, const Post& post) {
  while (most-- > 0 && !free_.empty()) {
    const std::uint32_t index = free_.back();
    const std::uint64_t wr_id = stage_.next_wr_id++ | kReceiveMark;
    Buffer& buffer = buffers_[index];
    scatter(buffer);
    if (!post({wr_id, buffer.sges})) {
      for (GrantId& grant : buffer.grants) process_.shadow.revoke(grant);
      buffer.grants.clear();
      return;
    }
    free_.pop_back();
    posted_[wr_id] = index;
  }
}

const ReceiveBuffers::Buffer* ReceiveBuffers::completed(std::uint64_t wr_id) {
  const auto found = posted_.find(wr_id);
  if (found == posted_.end()) return nullptr;
  Buffer& buffer = buffers_[found->second];
  free_.push_back(found->second);
  posted_.erase(found);
  for (GrantId& grant : buffer.grants) process_.shadow.revoke(grant);
  buffer.grants.clear();
  return &buffer;
}

void ReceiveBuffers::abandon() {
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    for (GrantId& grant : buffers_[i].grants) process_.shadow.revoke(grant);
    buffers_[i].grants.clear();
  }
  posted_.clear();
  free_.clear();
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) free_.push_back(i);
}

std::vector<std::byte> ReceiveBuffers::content(const Buffer& buffer, std::uint32_t length) const {
  std::vector<std::byte> bytes(length);
  std::uint32_t done = 0;
  for (const Sge& sge : buffer.sges) {
    const std::uint32_t n = std::min(sge.length, length - done);
    const std::uint64_t ea = sge.address - region_.address() + buffers_.front().ea;
    process_.shadow.load(ea, std::span(bytes).subspan(done, n));
    done += n;
  }
  bytes.resize(done);
  return bytes;
}

SharedReceive::SharedReceive(sim::Stage& stage, Process& process, std::uint32_t card,
                             std::uint32_t bytes)
    : queue(process.domains[card].create_srq(kBuffers, kMaxSge).value()),
      buffers(stage, process, card, kBuffers, bytes, kMaxSge) {}

void SharedReceive::refill() {
  buffers.post(kBuffers, [this](const ReceiveRequest& request) { return queue.post(request); });
}

}  // namespace weft::worlds
