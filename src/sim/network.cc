#include "sim/network.h"

#include <cstring>
#include <utility>

#include "base/assert.h"
#include "sim/pattern.h"
#include "wire/datagram.h"

namespace weft::sim {

void seal(SimFrame& frame) {
  wire::Icrc icrc = network::start_icrc(frame.flow, frame.size - frame.packet_at);
  icrc.add_first(frame.packet());
  icrc.store(std::span(frame.bytes).subspan(frame.size - wire::kIcrcSize).first<wire::kIcrcSize>());
}

std::uint32_t Network::add_endpoint(const Gid& address, std::uint32_t node, std::string name) {
  const auto number = static_cast<std::uint32_t>(endpoints_.size());
  const bool fresh = by_address_.emplace(address, number).second;
  WEFT_ASSERT(fresh);
  endpoints_.push_back({address, node, nullptr, kNone});
  stage_.trace.name_endpoint(std::move(name));
  return number;
}

Nanoseconds Network::delay_between(std::uint32_t source, std::uint32_t destination) const {
  const std::uint64_t way = std::uint64_t{source} << 32 | destination;
  return least_ns_ + mix(way) % (most_ns_ - least_ns_ + 1);
}

void Network::drop(SimFrame* frame, What fate, std::uint64_t Stats::*counter) {
  ++(stage_.stats.*counter);
  stage_.trace.frame(fate, *frame);
  pool_.give_back(frame);
}

SimFrame* Network::copy_of(const SimFrame& frame) {
  SimFrame* copy = pool_.take();
  copy->source = frame.source;
  copy->destination = frame.destination;
  copy->size = frame.size;
  copy->packet_at = frame.packet_at;
  copy->intact = frame.intact;
  copy->flow = frame.flow;
  std::memcpy(copy->bytes.data(), frame.bytes.data(), frame.size);
  return copy;
}

void Network::corrupt(SimFrame& frame) {
  // The receiver has to find out by itself, so the true check code must be there first.
  if (frame.intact) seal(frame);
  frame.intact = false;
  const std::uint64_t flips = stage_.between(1, 4);
  for (std::uint64_t i = 0; i < flips; ++i) {
    const std::uint64_t bit = stage_.random.below(std::uint64_t{frame.size} * 8);
    frame.bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
  ++stage_.stats.corrupted;
  stage_.trace.frame(What::kCorrupted, frame);
}

std::uint32_t Network::find(const Gid& address) {
  if (found_last_ != kNone && endpoints_[found_last_].address == address) return found_last_;
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return kNone;
  return found_last_ = found->second;
}

void Network::transmit(std::uint32_t source, SimFrame* frame) {
  base::SeededRandom& random = stage_.random;
  ++stage_.stats.frames;
  if (tap_) {
    if (frame->intact) seal(*frame);
    tap_(stage_.now(), frame->all());
  }
  frame->source = source;
  frame->destination = kNone;
  const std::uint32_t destination = find(frame->flow.destination);
  if (destination == kNone) return drop(frame, What::kNobodyThere, &Stats::nobody);
  frame->destination = destination;
  stage_.trace.frame(What::kSent, *frame);
  const bool from_inside = (cut_off_ >> endpoints_[source].node & 1) != 0;
  const bool to_inside = (cut_off_ >> endpoints_[destination].node & 1) != 0;
  if (from_inside != to_inside) return drop(frame, What::kCut, &Stats::cut);
  if (faults_.loss_ppm > 0 && random.chance_ppm(faults_.loss_ppm)) {
    return drop(frame, What::kLost, &Stats::lost);
  }
  Nanoseconds when = stage_.now() + delay_between(source, destination);
  if (faults_.duplicate_ppm > 0 && random.chance_ppm(faults_.duplicate_ppm)) {
    ++stage_.stats.duplicated;
    stage_.trace.frame(What::kDuplicated, *frame);
    schedule(copy_of(*frame), when + random.below(faults_.jitter_ns + 1));
  }
  if (faults_.corrupt_ppm > 0 && random.chance_ppm(faults_.corrupt_ppm)) corrupt(*frame);
  if (faults_.jitter_ppm > 0 && random.chance_ppm(faults_.jitter_ppm)) {
    ++stage_.stats.reordered;
    stage_.trace.frame(What::kDelayed, *frame);
    when += random.below(faults_.jitter_ns + 1);
  }
  schedule(frame, when);
}

void Network::schedule(SimFrame* frame, Nanoseconds when) {
  Endpoint& endpoint = endpoints_[frame->destination];
  if (endpoint.open_batch != kNone && batches_[endpoint.open_batch].when == when) {
    return batches_[endpoint.open_batch].frames.push(frame);
  }
  std::uint32_t batch = 0;
  if (free_batches_.empty()) {
    batch = static_cast<std::uint32_t>(batches_.size());
    batches_.emplace_back();
  } else {
    batch = free_batches_.back();
    free_batches_.pop_back();
  }
  batches_[batch].when = when;
  batches_[batch].endpoint = frame->destination;
  batches_[batch].frames.push(frame);
  endpoint.open_batch = batch;
  stage_.events.at(when, *this, batch);
}

void Network::on_event(std::uint64_t token) {
  const auto number = static_cast<std::uint32_t>(token);
  FrameList frames = std::exchange(batches_[number].frames, {});
  Endpoint& endpoint = endpoints_[batches_[number].endpoint];
  if (endpoint.open_batch == number) endpoint.open_batch = kNone;
  free_batches_.push_back(number);
  while (SimFrame* frame = frames.pop()) {
    if (endpoint.inbox == nullptr) {
      drop(frame, What::kNobodyThere, &Stats::nobody);
    } else if (endpoint.inbox->waiting() >= faults_.inbox_frames) {
      drop(frame, What::kOverflowed, &Stats::overflowed);
    } else {
      endpoint.inbox->on_arrival(frame);
    }
  }
  if (endpoint.inbox != nullptr) endpoint.inbox->on_arrivals_end();
}

}  // namespace weft::sim
