#include "port/fault_port.h"

#include <algorithm>
#include <utility>

#include "network/address.h"
#include "network/roce.h"
#include "obs/log.h"
#include "wire/icrc.h"

namespace weft::port {
namespace {

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

std::size_t packet_bits(const Incoming& frame) {
  const std::size_t ip = frame.flow.is_ipv4() ? wire::Ipv4::kSize : wire::Ipv6::kSize;
  return 8 * (ip + wire::Udp::kSize + frame.packet.size() + wire::kIcrcSize);
}

/// BTH to ICRC, as it came from the socket.
std::vector<std::byte> datagram_of(const Incoming& frame) {
  std::vector<std::byte> bytes(frame.packet.begin(), frame.packet.end());
  bytes.resize(bytes.size() + wire::kIcrcSize);
  wire::Icrc icrc = network::start_icrc(frame.flow, bytes.size());
  icrc.add_first(frame.packet).store(std::span(bytes).last<wire::kIcrcSize>());
  return bytes;
}

}  // namespace

class FaultPort::Arrivals final : public Receiver {
 public:
  Arrivals(FaultPort& port, Receiver& above, Nanoseconds now)
      : port_(port), counts_(port.counts_), above_(above), now_(now) {}

  void on_frame(const Incoming& arrived) override {
    const Fate fate = port_.fates_.next();
    ++counts_.frames;
    Incoming frame = arrived;
    if (fate.marked && frame.flow.is_markable()) {
      ++counts_.marked;
      frame.flow.traffic_class |= network::kMarked;
    }
    if (fate.lost) {
      ++counts_.lost;
    } else if (fate.corrupted) {
      corrupt(frame, fate);
    } else {
      schedule(frame, fate);
    }
  }
  void on_bad_checksum() override { above_.on_bad_checksum(); }
  void on_malformed() override { above_.on_malformed(); }

  std::size_t handed_up = 0;

 private:
  /// Tells what the receiver's check would tell; what passes it goes on.
  void corrupt(const Incoming& frame, const Fate& fate) {
    ++counts_.corrupted;
    std::vector<std::byte> bytes = datagram_of(frame);
    for (std::size_t i = 0; i < fate.flips; ++i) {
      const std::uint64_t bit = fate.flip_at[i] % (8 * bytes.size());
      bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
    Incoming corrupted = frame;
    corrupted.packet = std::span(bytes).first(frame.packet.size());
    wire::Icrc icrc = network::start_icrc(frame.flow, bytes.size());
    if (!icrc.add_first(corrupted.packet).matches(std::span(bytes).last<wire::kIcrcSize>())) {
      return above_.on_bad_checksum();
    }
    schedule(corrupted, fate);
  }

  void schedule(const Incoming& frame, const Fate& fate) {
    // As at a full switch, before the link: what finds no room takes no time there.
    if (port_.held_.size() >= kMostHeld) {
      ++counts_.overflowed;
      return;
    }
    Nanoseconds when = std::max(time_carried(frame) + fate.delay_ns, port_.last_in_order_);
    port_.last_in_order_ = when;
    if (fate.reordered) {
      ++counts_.reordered;
      when += fate.hold_up_ns;
    }
    pass_on(when, frame);
    if (fate.duplicated) {
      ++counts_.duplicated;
      pass_on(when + fate.copy_hold_up_ns, frame);
    }
  }

  /// When the link is done with it.
  Nanoseconds time_carried(const Incoming& frame) {
    const std::uint64_t rate = port_.spec_.rate_bits;
    if (rate == 0) return now_;
    const Nanoseconds takes = (packet_bits(frame) * kNanosecondsPerSecond + rate - 1) / rate;
    return port_.link_free_at_ = std::max(port_.link_free_at_, now_) + takes;
  }

  void pass_on(Nanoseconds when, const Incoming& frame) {
    if (when > now_) return port_.hold(when, frame);
    ++handed_up;
    above_.on_frame(frame);
  }

  FaultPort& port_;
  FaultCounts& counts_;
  Receiver& above_;
  const Nanoseconds now_;
};

FaultPort::FaultPort(std::unique_ptr<Port> inner, const FaultSpec& spec, std::uint64_t seed,
                     Now now)
    : PortWrapper(std::move(inner)), spec_(spec), clock_(std::move(now)), fates_(spec, seed) {}

FaultPort::~FaultPort() {
  obs::log().info(
      "address {}: of {} frames that arrived {} were lost, {} came twice, {} were corrupted, {} "
      "were held up, {} were marked, {} found no room",
      network::to_string(address()), counts_.frames, counts_.lost, counts_.duplicated,
      counts_.corrupted, counts_.reordered, counts_.marked, counts_.overflowed);
}

std::size_t FaultPort::receive(Receiver& receiver, std::size_t max) {
  const Nanoseconds now = clock_();
  std::size_t handed_up = release(receiver, now, max);
  if (handed_up < max) {
    // What is handed up at once comes after all that was due, since none of that is left.
    Arrivals arrivals(*this, receiver, now);
    inner().receive(arrivals, max - handed_up);
    handed_up += arrivals.handed_up;
  }
  // seq_cst here and below: a thread that goes to sleep notes until when and then looks at the
  // deadline; one that sets a deadline then looks at the note. One of them sees the other's.
  earliest_.store(held_.empty() ? kNever : held_.front().when, std::memory_order_seq_cst);
  return handed_up;
}

Nanoseconds FaultPort::next_deadline() const {
  return std::min(earliest_.load(std::memory_order_seq_cst), inner().next_deadline());
}

bool FaultPort::later(const Held& a, const Held& b) {
  return a.when != b.when ? a.when > b.when : a.number > b.number;
}

void FaultPort::hold(Nanoseconds until, const Incoming& frame) {
  held_.push_back({until, next_number_++, frame.flow, {frame.packet.begin(), frame.packet.end()}});
  std::push_heap(held_.begin(), held_.end(), later);
}

std::size_t FaultPort::release(Receiver& receiver, Nanoseconds now, std::size_t max) {
  std::size_t released = 0;
  while (released < max && !held_.empty() && held_.front().when <= now) {
    std::pop_heap(held_.begin(), held_.end(), later);
    const Held frame = std::move(held_.back());
    held_.pop_back();
    ++released;
    receiver.on_frame({frame.flow, frame.packet});
  }
  return released;
}

}  // namespace weft::port
