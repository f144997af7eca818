// A raw queue pair with its buffers, for tests that exchange packets one at a time. What cannot be
// had throws. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "obs/counters.h"
#include "support/raw_packets.h"
#include "support/verbs_kit.h"
#include "verbs/controller.h"

namespace weft::test {

class RawNode {
 public:
  explicit RawNode(const char* address, RawFraming framing = RawFraming::kPacket)
      : node_(must(verbs::Device::open({.ports = {{.address = address}}}))),
        qp_(node_.create({.service = Service::kRawDatagram, .raw_framing = framing})),
        inbox_(node_, kSlots * kSlotBytes),
        outbox_(node_, kSlotBytes) {
    must(qp_.activate());
    for (std::uint64_t i = 0; i < kSlots; ++i) give(i);
  }

  QueuePair& qp() { return qp_; }
  std::uint64_t count(obs::Counter counter) const {
    return node_.device.controller()->counters().get(counter);
  }

  void send(const Bytes& packet) {
    std::ranges::copy(packet, outbox_.bytes.begin());
    must(qp_.post_send(outbox_.sge(0, static_cast<std::uint32_t>(packet.size()))));
    if (!must(node_.sends.wait(kPatience)).ok()) throw std::runtime_error("a send failed");
  }

  /// The next packet; nothing: none came in time.
  std::optional<Bytes> receive(std::chrono::nanoseconds patience = kPatience) {
    const auto came = node_.receives.wait(patience);
    if (!came) return std::nullopt;
    if (!came->ok()) throw std::runtime_error("a receive failed");
    const auto begin = inbox_.bytes.begin() + static_cast<long>(came->wr_id * kSlotBytes);
    Bytes packet(begin, begin + came->byte_count);
    give(came->wr_id);
    return packet;
  }

  /// Polls until so many were counted; false: they were not, or more.
  bool counts(obs::Counter counter, std::uint64_t want) {
    const auto deadline = Steady::now() + kPatience;
    while (count(counter) < want && Steady::now() < deadline) node_.device.next_event();
    return count(counter) == want;
  }

 private:
  static constexpr std::uint64_t kSlots = 64, kSlotBytes = 2048;
  void give(std::uint64_t slot) {
    must(qp_.post_receive(inbox_.sge(slot * kSlotBytes, kSlotBytes), slot));
  }

  Node node_;
  QueuePair qp_;
  Memory inbox_, outbox_;
};

}  // namespace weft::test
