// One queue pair by itself, for tests that play its peer, its network and its clock: the queue pair
// with memory, keys and completion queues, a scheduler that only takes notes, and a record of the
// events. Owned by the test; one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "memory/host_vmm.h"
#include "memory/key_table.h"
#include "obs/counters.h"
#include "queue/queue_pair.h"

namespace weft::test {

inline constexpr Access kAllRemote =
    Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;
inline constexpr PdId kPd{3};

/// Virtual time, and a note of what was asked for.
class NotingScheduler final : public queue::Scheduler {
 public:
  Nanoseconds now() override { return time_ns; }
  void run_soon(queue::QueuePair&) override { ++soon; }
  void run_at(queue::QueuePair&, Nanoseconds when) override { earliest = std::min(earliest, when); }

  Nanoseconds time_ns = 1'000;
  Nanoseconds earliest = kNever;
  int soon = 0;
};

class NotingSink final : public queue::EventSink {
 public:
  void on_event(queue::QueuePair&, queue::QpEvent event) override { events.push_back(event); }
  void on_limit_reached(queue::ReceiveQueue&) override { ++limits; }
  std::size_t count(queue::QpEvent event) const {
    return static_cast<std::size_t>(std::count(events.begin(), events.end(), event));
  }

  std::vector<queue::QpEvent> events;
  int limits = 0;
};

struct EndSetup {
  Service service = Service::kReliableConnection;
  QueuePairLimits limits{64, 64, 4, 4, 128};
  QueuePairAttributes attributes{};
  QpState state = QpState::kReadyToSend;
  std::uint32_t completions = 4096;
  std::size_t memory_bytes = 128 * 1024;
  Access exposed_access = Access::kLocalWrite | kAllRemote;
};

/// The lower half of the memory is for buffers of its own; the upper half, but for a margin at
/// either end, is what the peer may touch.
class QueueEnd {
 public:
  static constexpr std::size_t kMarginBytes = 64;

  explicit QueueEnd(const EndSetup& setup, Qpn qpn = Qpn(0x11), Qpn peer = Qpn(0x22))
      : bytes_(setup.memory_bytes),
        storage_(static_cast<std::byte*>(std::aligned_alloc(4096, setup.memory_bytes)), &std::free),
        send_cq(setup.completions, nullptr),
        recv_cq(setup.completions, nullptr) {
    std::fill_n(storage_.get(), bytes_, std::byte{0xEE});
    own = *keys.register_region(
        {&vmm, kPd, address(), bytes_, Access::kLocalWrite | Access::kWindowBind, std::nullopt});
    exposed = expose(setup.exposed_access);
    qp.qpn = qpn;
    qp.service = setup.service;
    qp.state = setup.state;
    qp.pd = kPd;
    qp.space = &vmm;
    qp.shared = &shared;
    qp.send_cq = &send_cq;
    qp.recv_cq = &recv_cq;
    qp.attributes = setup.attributes;
    qp.attributes.remote_qpn = peer;
    qp.sq.configure(setup.limits);
    qp.rq = std::make_unique<queue::ReceiveQueue>();
    qp.rq->configure(setup.limits.max_recv_wr, setup.limits.max_recv_sge);
  }
  QueueEnd(const QueueEnd&) = delete;
  QueueEnd& operator=(const QueueEnd&) = delete;

  std::span<std::byte> memory() { return {storage_.get(), bytes_}; }
  std::uint64_t address(std::size_t at = 0) const {
    return reinterpret_cast<std::uint64_t>(storage_.get()) + at;
  }
  std::size_t exposed_at() const { return bytes_ / 2 + kMarginBytes; }
  std::size_t exposed_bytes() const { return bytes_ / 2 - 2 * kMarginBytes; }
  std::span<std::byte> exposed_memory() { return memory().subspan(exposed_at(), exposed_bytes()); }
  RemoteAddress remote(std::size_t at = 0) const {
    return {address(exposed_at() + at), exposed.rkey};
  }
  /// Another key for the exposed range.
  memory::RegionKeys expose(Access access) {
    return *keys.register_region(
        {&vmm, kPd, address(exposed_at()), exposed_bytes(), access, std::nullopt});
  }

  Sge sge(std::size_t at, std::uint32_t length) const { return {address(at), length, own.lkey}; }
  std::vector<std::byte> copy_of(std::size_t at, std::size_t n) {
    const auto part = memory().subspan(at, n);
    return {part.begin(), part.end()};
  }

  Result<void> post_send(const SendRequest& request) { return queue::enqueue_send(qp, request); }
  void post_receive(std::uint64_t wr_id, std::size_t at, std::uint32_t length) {
    const Sge one = sge(at, length);
    WEFT_ASSERT(qp.rq->post({wr_id, {&one, 1}}).has_value());
  }

  std::vector<Completion> take_sends() { return take(send_cq); }
  std::vector<Completion> take_receives() { return take(recv_cq); }
  std::uint64_t counted(obs::Counter counter) const { return counters.get(counter); }
  QpState state() const { return qp.state.load(); }

 private:
  static std::vector<Completion> take(queue::CompletionQueue& cq) {
    std::vector<Completion> all(cq.size());
    all.resize(cq.poll(all));
    return all;
  }

  std::size_t bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> storage_;

 public:
  memory::HostVmm vmm;
  base::SeededRandom random{7};
  memory::KeyTable keys{random, 256};
  obs::Counters counters;
  NotingScheduler scheduler;
  NotingSink sink;
  queue::Shared shared{&keys, &counters, &scheduler, &sink};
  queue::CompletionQueue send_cq;
  queue::CompletionQueue recv_cq;
  memory::RegionKeys own;
  memory::RegionKeys exposed;
  queue::QueuePair qp;
};

inline void fill_pattern(std::span<std::byte> bytes, std::uint32_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(seed * 31 + i * 7 + i / 251);
  }
}

}  // namespace weft::test
