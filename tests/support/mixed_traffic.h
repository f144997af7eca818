// A bit of everything at random on one connection between processes: reads, writes, sends,
// atomics, binds and invalidations, from and to heap and arena memory. Counts what was posted and
// what completed. Used by both ends, of which one may be killed at any moment.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>

#include "support/guarded_memory.h"
#include "support/neighbour_side.h"

namespace weft::test {

/// What one end tells the other before they connect.
struct TrafficOffer {
  verbs::Endpoint end;
  std::array<RemoteAddress, 2> memory;  ///< of TrafficMemory::kBytes each
};

/// Memory that outlives connections.
struct TrafficMemory {
  static constexpr std::size_t kBytes = 320 * 1024;
  static constexpr std::uint32_t kMessageBytes = 2048;
  static constexpr std::uint32_t kMessages = 32;

  explicit TrafficMemory(const verbs::ProtectionDomain& pd)
      : regions{granted[0].grant(pd, kAllAccess), granted[1].grant(pd, kAllAccess)},
        own_regions{own[0].grant(pd, kAllAccess), own[1].grant(pd, kAllAccess)},
        inbox_region(inbox.grant(pd, kAllAccess)) {}

  bool guards_intact() const {
    return granted[0].guards_intact() && granted[1].guards_intact() && own[0].guards_intact() &&
           own[1].guards_intact() && inbox.guards_intact();
  }

  // The peer's to use, then this end's.
  std::array<GuardedMemory, 2> granted{GuardedMemory(MemoryKind::kHeap, kBytes),
                                       GuardedMemory(MemoryKind::kArena, kBytes)};
  std::array<GuardedMemory, 2> own{GuardedMemory(MemoryKind::kHeap, kBytes),
                                   GuardedMemory(MemoryKind::kArena, kBytes)};
  GuardedMemory inbox{MemoryKind::kHeap, std::size_t{kMessageBytes} * kMessages};
  std::array<verbs::MemoryRegion, 2> regions, own_regions;
  verbs::MemoryRegion inbox_region;
};

class MixedTraffic {
 public:
  MixedTraffic(const verbs::Device& device, const verbs::ProtectionDomain& pd,
               TrafficMemory& memory, Service service, unsigned seed)
      : memory_(memory),
        service_(service),
        random_(seed),
        cq_(*device.create_cq(1024)),
        qp_(*pd.create_queue_pair(cq_, cq_,
                                  {.service = service, .limits = {.max_inline_bytes = 64}})),
        lent_(*pd.allocate_window(verbs::WindowType::kType2)),
        kept_(*pd.allocate_window(verbs::WindowType::kType1)) {}

  Qpn number() const { return qp_.number(); }
  TrafficOffer offer() const {
    return {qp_.endpoint(), {memory_.regions[0].remote(), memory_.regions[1].remote()}};
  }
  bool connect(const TrafficOffer& peer) {
    peer_ = peer.memory;
    if (!qp_.connect(peer.end)) return false;
    for (std::uint32_t i = 0; i < TrafficMemory::kMessages; ++i) post_receive(i);
    return true;
  }

  /// Takes what has completed; false when there was nothing.
  bool take() {
    std::array<Completion, 64> completions;
    const std::size_t n = cq_.poll(completions);
    for (std::size_t i = 0; i < n; ++i) on_completion(completions[i]);
    return n > 0;
  }
  /// One more request, if there is room.
  void post_something() {
    if (failed() || sends_posted_ - sends_completed_ >= kOutstanding) return;
    const std::uint32_t roll = draw(100);
    if (roll < 30) return rdma(SendOp::kWrite);
    if (roll < 35) return rdma(SendOp::kWriteImmediate);
    if (roll < 50) return send();
    if (roll < 60) return bind_kept();
    if (roll < 65) return lend();
    if (service_ != Service::kReliableConnection) return;
    if (roll < 75) return return_lent();
    if (roll < 90) return rdma(SendOp::kRead);
    atomic(roll < 95 ? SendOp::kCompareSwap : SendOp::kFetchAdd);
  }
  /// A message.
  void send() {
    const Sge sge = memory_.own_regions[draw(2)].sge(4096, draw(TrafficMemory::kMessageBytes));
    SendRequest request;
    request.sges = {&sge, 1};
    post(request);
  }
  bool failed() const { return failed_; }
  QpState state() const { return qp_.state(); }
  bool all_sent() const { return sends_posted_ == sends_completed_; }
  bool all_completed() const { return all_sent() && receives_posted_ == receives_completed_; }
  /// What is left comes back flushed.
  void give_up() { WEFT_REQUIRE(qp_.modify(QpState::kError)); }
  std::uint64_t completed() const { return sends_completed_ + receives_completed_; }

 private:
  static constexpr std::uint64_t kOutstanding = 24;
  static constexpr std::uint64_t kReceiveTag = 1u << 16;
  static constexpr std::uint64_t kLendTag = 1u << 17;

  struct Lending {
    std::uint64_t magic;
    RemoteAddress window;
  };
  static constexpr std::uint64_t kMagic = 0x11CE'2222'3333'4444;

  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }
  std::uint32_t draw_length() {
    constexpr std::array<std::uint32_t, 8> kLengths{8, 8, 64, 700, 4096, 5000, 65'536, 300'001};
    return kLengths[draw(kLengths.size())];
  }

  void post_receive(std::uint64_t i) {
    constexpr std::uint32_t kBytes = TrafficMemory::kMessageBytes;
    if (qp_.post_receive(memory_.inbox_region.sge(i * kBytes, kBytes), kReceiveTag | i)) {
      ++receives_posted_;
    }
  }
  void post(SendRequest request, std::uint64_t tag = 0) {
    request.wr_id = tag;
    if (qp_.post_send(request)) ++sends_posted_;
  }

  void rdma(SendOp op) {
    const std::uint32_t n = draw_length();
    const auto room = static_cast<std::uint32_t>(TrafficMemory::kBytes - n);
    const Sge sge = memory_.own_regions[draw(2)].sge(draw(room), n);
    SendRequest request;
    request.op = op;
    request.sges = {&sge, 1};
    request.remote = peer_[draw(2)];
    // To the very ends now and then: the guards are next to them.
    const std::uint32_t where = draw(4);
    request.remote.address += where == 0 ? 0 : where == 1 ? room : draw(room);
    post(request);
  }
  void atomic(SendOp op) {
    const Sge sge = memory_.own_regions[draw(2)].sge(8 * draw(100), 8);
    SendRequest request;
    request.op = op;
    request.sges = {&sge, 1};
    request.remote = peer_[draw(2)];
    request.remote.address += 8 * draw(TrafficMemory::kBytes / 8);
    request.operand = 1;
    post(request);
  }
  /// Bound, and unbound behind it, without anybody knowing.
  void bind_kept() {
    const verbs::MemoryRegion& region = memory_.regions[draw(2)];
    post(kept_.bind_request(region, 64 * draw(100), 4096, Access::kRemoteWrite));
    if (draw(2) == 0) post(kept_.bind_request(region, 0, 0, Access::kNone));
  }
  /// Bound and lent to the peer, which takes the key out of use.
  void lend() {
    if (lent_out_ || service_ != Service::kReliableConnection) return;
    lent_out_ = true;
    const verbs::MemoryRegion& region = memory_.regions[draw(2)];
    const std::uint64_t offset = 4096 + 8 * draw(512);
    post(lent_.bind_request(region, offset, 4096, Access::kRemoteWrite));
    const Lending lending{kMagic, {region.remote(offset).address, lent_.rkey()}};
    const Sge sge{reinterpret_cast<std::uint64_t>(&lending), sizeof lending, {}};
    SendRequest request;
    request.flags = SendFlags::kSignaled | SendFlags::kInline;
    request.sges = {&sge, 1};
    post(request);
  }
  void return_lent() {
    if (!borrowed_) return;
    const Sge sge = memory_.own_regions[draw(2)].sge(8192, 4096);
    SendRequest write;
    write.op = SendOp::kWrite;
    write.sges = {&sge, 1};
    write.remote = *borrowed_;
    post(write);
    SendRequest give_back;
    give_back.op = SendOp::kSendInvalidate;
    give_back.invalidate_key = borrowed_->key;
    borrowed_.reset();
    post(give_back);
  }

  void on_completion(const Completion& completion) {
    const bool receive = (completion.wr_id & kReceiveTag) != 0;
    ++(receive ? receives_completed_ : sends_completed_);
    if (!completion.ok()) {
      failed_ = true;
      return;
    }
    if (!receive) return;
    const std::uint64_t i = completion.wr_id & (kReceiveTag - 1);
    Lending lending;
    std::memcpy(&lending, memory_.inbox.data() + i * TrafficMemory::kMessageBytes, sizeof lending);
    if (completion.has_invalidate) {
      lent_out_ = false;
    } else if (completion.byte_count == sizeof lending && lending.magic == kMagic) {
      borrowed_ = lending.window;
    }
    if (!failed_) post_receive(i);
  }

  TrafficMemory& memory_;
  const Service service_;
  std::mt19937 random_;
  verbs::CompletionQueue cq_;
  verbs::QueuePair qp_;
  verbs::MemoryWindow lent_, kept_;
  std::array<RemoteAddress, 2> peer_;
  std::optional<RemoteAddress> borrowed_;
  bool lent_out_ = false;
  bool failed_ = false;
  std::uint64_t sends_posted_ = 0, sends_completed_ = 0;
  std::uint64_t receives_posted_ = 0, receives_completed_ = 0;
};

}  // namespace weft::test
