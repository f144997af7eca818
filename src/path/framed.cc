#include "path/framed.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/fast_paths.h"
#include "base/per_thread.h"
#include "memory/flight.h"
#include "network/roce.h"
#include "path/context.h"
#include "port/port_control.h"
#include "queue/frame_receiver.h"
#include "transport/message.h"
#include "transport/rc.h"
#include "transport/uc.h"
#include "transport/ud.h"

namespace weft::path {
namespace {

using network::OutFrame;
using queue::Budget;
using queue::QueuePair;

constexpr std::size_t kBatch = 64;
/// What the largest datagrams hold, so that a long message leaves in as few as possible: a port
/// cuts them into frames.
constexpr std::size_t frames_per_batch(std::size_t mtu) {
  constexpr std::size_t kMostBytes = 65507, kUsualHeaders = wire::Bth::kSize + wire::kIcrcSize;
  const std::size_t in_one = std::min(kBatch, kMostBytes / (mtu + kUsualHeaders));
  return kBatch / in_one * in_one;
}
/// A program that sent so many requests together is likely to do so again.
constexpr std::size_t kBurst = 16;
/// The peer is told of marked frames no more often than this, as DCQCN does.
constexpr Nanoseconds kNoticePause_ns = 50'000;

// ---- the services behind one set of names ----------------------------------------------------

struct Rc {
  transport::RcRequester requester;
  transport::RcResponder responder;

  void on_frame(QueuePair& qp, const wire::Packet& packet, const port::Incoming&, Nanoseconds now) {
    if (transport::is_response(packet)) {
      const std::lock_guard guard(qp.send_lock);
      transport::on_response(requester, qp, packet, now);
    } else {
      const std::lock_guard guard(qp.recv_lock);
      transport::on_request(responder, qp, packet);
    }
  }
  bool fast_on_frame(QueuePair& qp, std::span<const std::byte> packet) {
    const std::lock_guard guard(qp.recv_lock);
    return transport::fast_on_request(responder, qp, packet);
  }
  bool next_answer(QueuePair& qp, OutFrame& frame) {
    return transport::next_answer(responder, qp, frame);
  }
  bool next_request(QueuePair& qp, Nanoseconds now, OutFrame& frame) {
    return transport::next_request(requester, qp, now, frame);
  }
  void on_timer(QueuePair& qp, Nanoseconds now) { transport::on_timer(requester, qp, now); }
  void on_sent(QueuePair&) {}
  void on_request_fault(QueuePair& qp, std::uint32_t element) {
    transport::on_fault(requester, qp, element);
  }
  void start_requester(QueuePair& qp) { transport::start(requester, qp); }
  void stop_requester(QueuePair& qp) { transport::stop(requester, qp); }
  Nanoseconds deadline() const { return transport::next_deadline(requester); }
  bool drained(const QueuePair&) const { return transport::drained(requester); }
  void stop_responder(QueuePair& qp) { transport::stop(responder, qp); }
  void on_answer_fault(QueuePair& qp, Psn psn) { transport::on_fault(responder, qp, psn); }
  bool may_gather(QueuePair& qp, bool in_bursts) const {
    return transport::may_gather(requester, qp, in_bursts);
  }
  std::size_t fast_short_sends(QueuePair& qp, Nanoseconds now, std::span<OutFrame> frames) {
    return transport::fast_short_sends(requester, qp, now, frames);
  }
  std::size_t fast_middles(QueuePair& qp, Nanoseconds now, const OutFrame& before,
                           std::span<OutFrame> frames) {
    return transport::fast_middles(requester, qp, now, before, frames);
  }
  bool has_requests(QueuePair& qp) const { return requester.cursor != qp.sq.tail(); }
  bool waits_for_sending(QueuePair& qp) const {
    return transport::waits_for_sending(requester, qp);
  }
  void acknowledge_all(const QueuePair& qp) { transport::acknowledge_all(responder, qp); }
  bool owes_only_ack(const QueuePair& qp) const { return transport::owes_only_ack(responder, qp); }
  bool owes_nothing(const QueuePair& qp) const { return transport::owes_nothing(responder, qp); }
  void on_congestion(Nanoseconds now) { requester.stream.on_mark(now); }
  void on_busy(QueuePair& qp, const OutFrame& frame, std::uint32_t reads, Nanoseconds now) {
    transport::on_busy(requester, qp, frame.element, frame.headers.bth.psn, reads, now);
  }
};

/// What the services without acknowledgements have in common.
struct Unacknowledged {
  bool may_gather(QueuePair&, bool) const { return false; }
  bool fast_on_frame(QueuePair&, std::span<const std::byte>) { return false; }
  std::size_t fast_short_sends(QueuePair&, Nanoseconds, std::span<OutFrame>) { return 0; }
  std::size_t fast_middles(QueuePair&, Nanoseconds, const OutFrame&, std::span<OutFrame>) {
    return 0;
  }
  bool has_requests(QueuePair&) const { return true; }
  /// Local work waits until everything before it was sent anyway.
  bool waits_for_sending(QueuePair&) const { return false; }
  void acknowledge_all(const QueuePair&) {}
  bool owes_only_ack(const QueuePair&) const { return false; }
  bool owes_nothing(const QueuePair&) const { return true; }
  void on_congestion(Nanoseconds) {}
  void on_busy(QueuePair&, const OutFrame&, std::uint32_t, Nanoseconds) {}  // it counts as lost
};

struct Uc : Unacknowledged {
  transport::UcRequester requester;
  transport::UcResponder responder;

  void on_frame(QueuePair& qp, const wire::Packet& packet, const port::Incoming&, Nanoseconds now) {
    const std::lock_guard guard(qp.recv_lock);
    transport::on_request(responder, qp, packet, now);
  }
  bool next_request(QueuePair& qp, Nanoseconds now, OutFrame& frame) {
    return transport::next_request(requester, qp, now, frame);
  }
  void on_request_fault(QueuePair& qp, std::uint32_t element) {
    transport::on_fault(requester, qp, element);
  }
  void start_requester(QueuePair& qp) { transport::start(requester, qp); }
  void stop_requester(QueuePair& qp) { transport::stop(requester, qp); }
  bool next_answer(QueuePair&, OutFrame&) { return false; }
  void on_timer(QueuePair&, Nanoseconds) {}
  void on_sent(QueuePair& qp) { transport::on_sent(requester, qp); }
  Nanoseconds deadline() const { return requester.delay_until; }
  bool drained(const QueuePair& qp) const {
    return requester.offset == 0 && requester.cursor == qp.sq.head() &&
           requester.delay_until == kNever;
  }
  void stop_responder(QueuePair& qp) { transport::stop(responder, qp); }
  void on_answer_fault(QueuePair&, Psn) {}  // it gives none
};

struct Ud : Unacknowledged {
  transport::UdRequester requester;

  void on_frame(QueuePair& qp, const wire::Packet& packet, const port::Incoming& incoming,
                Nanoseconds) {
    const std::lock_guard guard(qp.recv_lock);
    transport::on_datagram(qp, packet,
                           network::make_grh(incoming.flow, incoming.packet.size() + 4));
  }
  bool next_request(QueuePair& qp, Nanoseconds now, OutFrame& frame) {
    return transport::next_request(requester, qp, now, frame);
  }
  void on_request_fault(QueuePair& qp, std::uint32_t element) {
    transport::on_fault(requester, qp, element);
  }
  void start_requester(QueuePair& qp) { transport::start(requester, qp); }
  void stop_requester(QueuePair& qp) { transport::stop(requester, qp); }
  bool next_answer(QueuePair&, OutFrame&) { return false; }
  void on_timer(QueuePair&, Nanoseconds) {}
  void on_sent(QueuePair& qp) { transport::on_sent(requester, qp); }
  Nanoseconds deadline() const { return requester.delay_until; }
  bool drained(const QueuePair& qp) const {
    return requester.cursor == qp.sq.head() && requester.delay_until == kNever;
  }
  void stop_responder(QueuePair&) {}
  void on_answer_fault(QueuePair&, Psn) {}
};

/// One end of an end-to-end context.
struct Rd : Unacknowledged {
  Context& context;

  explicit Rd(Context& of) : context(of) {}

  void on_frame(QueuePair&, const wire::Packet& packet, const port::Incoming&, Nanoseconds now) {
    context.on_frame(packet, now);
  }
  bool next_request(QueuePair&, Nanoseconds now, OutFrame& frame) {
    return context.next_request(now, frame);
  }
  bool next_answer(QueuePair&, OutFrame& frame) { return context.next_answer(frame); }
  void on_timer(QueuePair&, Nanoseconds now) { context.on_timer(now); }
  void on_sent(QueuePair&) {}
  void on_request_fault(QueuePair& qp, std::uint32_t element) {
    transport::on_fault(context.requester, qp, element);
  }
  void on_answer_fault(QueuePair& qp, Psn psn) { transport::on_fault(context.responder, qp, psn); }
  void start_requester(QueuePair& qp) { transport::start(context.requester, qp); }
  void stop_requester(QueuePair&) {}
  void stop_responder(QueuePair&) {}
  Nanoseconds deadline() const { return context.deadline(); }
  bool drained(const QueuePair&) const { return false; }
  std::size_t fast_middles(QueuePair& qp, Nanoseconds now, const OutFrame& before,
                           std::span<OutFrame> frames) {
    return transport::fast_middles(context.requester, qp, now, before, frames);
  }
  bool has_requests(QueuePair&) const { return context.has_requests(); }
  bool waits_for_sending(QueuePair& qp) const {
    return transport::waits_for_sending(context.requester, qp);
  }
  void acknowledge_all(const QueuePair& qp) { transport::acknowledge_all(context.responder, qp); }
  bool owes_only_ack(const QueuePair& qp) const {
    return !context.responder.verdict_owed && transport::owes_only_ack(context.responder, qp);
  }
  bool owes_nothing(const QueuePair&) const { return context.owes_nothing(); }
  void on_congestion(Nanoseconds now) { context.requester.stream.on_mark(now); }
  void on_busy(QueuePair& qp, const OutFrame& frame, std::uint32_t reads, Nanoseconds now) {
    transport::on_busy(context.requester, qp, frame.element, frame.headers.bth.psn, reads, now);
  }
};

void start_responder(Rc& rc, QueuePair& qp) { transport::start(rc.responder, qp); }
void start_responder(Uc& uc, QueuePair& qp) { transport::start(uc.responder, qp); }
void start_responder(Ud&, QueuePair&) {}
void start_responder(Rd&, QueuePair&) {}

template <class Machine>
constexpr bool kReliable = std::is_same_v<Machine, Rc> || std::is_same_v<Machine, Rd>;

// ---- transmission ----------------------------------------------------------------------------

/// Frames under construction; one set per thread, since a thread transmits for one queue pair at a
/// time.
struct Batch {
  std::array<OutFrame, kBatch> frames;
  std::array<port::Outgoing, kBatch> outgoing;
  std::size_t count = 0;
  std::size_t answers = 0;  ///< of them, the first ones
  std::uint64_t bytes = 0;
  bool was_delayed = false;  ///< it has an acknowledgement that had been delayed

  /// For another frame, whatever memory it names, and the queue pair whose message it is.
  static bool has_keys_left() { return memory::Flight::has_room_to_keep(network::kMaxSge + 1); }
  void clear() {
    for (std::size_t i = 0; i < count; ++i) frames[i].release();
    count = answers = 0;
    bytes = 0;
    was_delayed = false;
  }
};
using ThisBatch = base::PerThread<Batch>;

template <class Machine>
class Framed final : public queue::Path, public queue::FrameReceiver {
 public:
  template <class... Args>
  Framed(QueuePair& qp, port::Port& port, Args&... args) : port_(port), machine_{args...} {
    start_responder(machine_, qp);
    set_way(qp);
  }

  queue::FrameReceiver* frame_receiver() override { return this; }

  bool fast_post(QueuePair&, const SendRequest&) override { return false; }

  void on_frame(QueuePair& qp, const wire::Packet& packet, const port::Incoming& incoming,
                Nanoseconds now) override {
    machine_.on_frame(qp, packet, incoming, now);
    if (!incoming.flow.is_marked() || std::is_same_v<Machine, Ud>) return;
    const std::lock_guard guard(qp.recv_lock);
    if (now < noticed_at_ + kNoticePause_ns && noticed_at_ != 0) return;
    noticed_at_ = now;
    owes_notice_ = true;
  }

  bool fast_on_frame(QueuePair& qp, std::span<const std::byte> packet) override {
    return base::fast_paths.on() && machine_.fast_on_frame(qp, packet);
  }

  void on_congestion(QueuePair& qp, Nanoseconds now) override {
    qp.count(obs::Counter::kCongestionNotices);
    const std::lock_guard guard(qp.send_lock);
    machine_.on_congestion(now);
  }

  void advance(QueuePair& qp, queue::SendGuard guard, Budget budget) override {
    // A program that polls will do so again soon; meanwhile it may post more, and all of it goes
    // out in one call. Something is under way, so nothing waits for longer than its answer takes.
    if (program_polls_.load(std::memory_order_relaxed) &&
        machine_.may_gather(qp, last_burst_ >= kBurst)) {
      const bool first = !std::exchange(gathering_, true);
      tell_if_drained(qp);  // it is resumed, and may be drained again before anything leaves
      guard.unlock();
      if (first) qp.shared->scheduler->run_soon(qp);
      return;
    }
    guard.unlock();
    transmit(qp, budget);
  }

  void run(QueuePair& qp, Nanoseconds looked_at) override {
    {
      const queue::SendGuard guard(qp.send_lock);
      armed_for_ = kNever;
      machine_.on_timer(qp, looked_at);
    }
    transmit(qp, {});
  }

  bool answer(QueuePair& qp, bool program_polls) override {
    program_polls_.store(program_polls, std::memory_order_relaxed);
    if (qp.state.load(std::memory_order_relaxed) == QpState::kReadyToSend) {
      bool idle = false;
      {
        const std::lock_guard guard(qp.send_lock);
        idle = !machine_.has_requests(qp);
      }
      if (idle) {
        const std::lock_guard guard(qp.recv_lock);
        if (machine_.owes_nothing(qp) && !owes_notice_) return false;
        if (program_polls && !owes_notice_ && machine_.owes_only_ack(qp) &&
            !transport::acknowledges_each(qp.attributes) && ack_delay_.delay()) {
          return true;
        }
      }
    }
    transmit(qp, {});
    return false;
  }

  void release(QueuePair& qp) override {
    {
      const std::lock_guard guard(qp.recv_lock);
      if (!ack_delay_.is_delayed()) return;  // it left with something
    }
    transmit(qp, {});
  }

  void acknowledge_all(QueuePair& qp) override {
    {
      const std::lock_guard guard(qp.recv_lock);
      machine_.acknowledge_all(qp);
    }
    transmit(qp, {});
  }

  /// Of the peer nothing is known that it does not say.
  queue::PeerView look_at_peer(QueuePair&, RemoteKey) override {
    queue::PeerView out;
    const port::PortControl* const control = port_.control();
    switch (control != nullptr ? control->link_state() : port::LinkState::kUp) {
      case port::LinkState::kAddressGone:
        out.peer = queue::PeerView::Peer::kAddressGone;
        break;
      case port::LinkState::kDown:
        out.peer = queue::PeerView::Peer::kLinkDown;
        break;
      case port::LinkState::kUp:
        break;
    }
    return out;
  }

  void start_sending(QueuePair& qp) override {
    if constexpr (std::is_same_v<Machine, Rd>) set_way(qp);
    machine_.start_requester(qp);
  }

  void stop(QueuePair& qp) override {
    machine_.stop_requester(qp);
    if (qp.state.load(std::memory_order_relaxed) != QpState::kSendQueueError) {
      machine_.stop_responder(qp);
    }
  }

  void transmit(QueuePair& qp, Budget budget) {
    // Whoever brings the count from 0 to 1 transmits, also for those who come meanwhile.
    if (callers_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
    std::uint32_t seen = 1;
    bool more = true;
    do {
      more = transmit_all(qp, budget);
      seen = callers_.fetch_sub(seen, std::memory_order_acq_rel) - seen;
      // A budget that ran out leaves the rest, ours and theirs, to the scheduler.
    } while (seen != 0 && more);
    if (seen != 0) callers_.store(0, std::memory_order_release);
    if (!more || seen != 0) qp.shared->scheduler->run_soon(qp);
    arm(qp);
  }

 private:
  void set_way(const QueuePair& qp) {
    most_frames_ = frames_per_batch(bytes(qp.attributes.path_mtu));
    flow_.source = qp.local_gid;
    flow_.destination = qp.attributes.remote_gid;
    flow_.source_port = network::source_port_for(qp.qpn, qp.attributes.remote_qpn);
    flow_.traffic_class = network::kMarkable;
  }

  /// False: the budget ran out, the port is busy or there is no memory, and there may be more.
  bool transmit_all(QueuePair& qp, Budget& budget) {
    if (ThisBatch::get() == nullptr) [[unlikely]]
      return false;
    Batch& batch = ThisBatch::known();
    for (bool more = true; more;) {
      more = build(qp, budget);
      port::SendOutcome outcome;
      if (batch.count > 0) outcome = port_.send({batch.outgoing.data(), batch.count});
      const bool kept = memory::Flight::keeps_any();
      // Before any lock is taken: its holder may be waiting for these keys.
      memory::Flight::release_kept();
      if (batch.was_delayed) {
        const std::lock_guard guard(qp.recv_lock);
        ack_delay_.learn(batch.count > batch.answers);
      }
      if (batch.count == 0) {
        if (!kept) break;
        more = true;  // what was kept was refused, and something may have waited for its release
        continue;
      }
      account(qp, outcome);
      batch.clear();
      more = more || outcome.status != port::SendStatus::kTaken;
      // What is left of it is not worth a call of its own.
      const std::uint64_t batch_bytes = most_frames_ * bytes(qp.attributes.path_mtu);
      if (more && (budget.bytes < batch_bytes || budget.requests == 0)) return false;
    }
    return true;
  }

  /// True: there may be more than fits in a batch. Whoever adds something meanwhile asks for
  /// another round.
  bool build(QueuePair& qp, Budget& budget) {
    Batch& batch = ThisBatch::known();
    {
      const std::lock_guard guard(qp.recv_lock);
      batch.was_delayed = ack_delay_.end();
      if (std::exchange(owes_notice_, false)) {
        build_notice(qp, batch.frames[batch.count]);
        qp.count(obs::Counter::kCongestionNoticesSent);
        add(budget);
      }
      while (batch.count < kBatch && budget.requests > 0 && Batch::has_keys_left()) {
        if (!machine_.next_answer(qp, batch.frames[batch.count])) break;
        add(budget);
      }
      batch.answers = batch.count;
    }
    bool sends_first = false;
    {
      std::unique_lock guard(qp.send_lock, std::defer_lock);
      // Not waited for while keys are kept: its holder may wait for one who waits for them.
      if (memory::Flight::keeps_any()) {
        sends_first = !guard.try_lock();
      } else {
        guard.lock();
      }
      if (guard) {
        build_requests(qp, budget);
        sends_first = machine_.waits_for_sending(qp);
      }
    }
    // An acknowledgement is short: behind equal frames it leaves in the same call as they.
    if (batch.answers == 1 && batch.count > 1 &&
        batch.frames[0].headers.info().operation == wire::Operation::kAcknowledge) {
      std::rotate(batch.outgoing.begin(), batch.outgoing.begin() + 1,
                  batch.outgoing.begin() + static_cast<std::ptrdiff_t>(batch.count));
    }
    // Requests of a reliable connection wait for nothing that sending them brings about; those of
    // the others do, and so may answers.
    return !kReliable<Machine> || sends_first || batch.answers > 0 || batch.count >= most_frames_ ||
           !Batch::has_keys_left() || budget.bytes == 0 || budget.requests == 0;
  }

  /// A congestion notification packet: 16 reserved bytes.
  static void build_notice(QueuePair& qp, OutFrame& frame) {
    constexpr std::array<std::byte, wire::kCnpPayloadBytes> kReserved{};
    transport::begin_frame(qp, Psn(0), frame);
    frame.headers.bth.opcode = wire::Opcode::kCnp;
    frame.headers.bth.becn = true;
    frame.add_inline(kReserved);
    frame.finish();
  }

  /// With the send lock held.
  void build_requests(QueuePair& qp, Budget& budget) {
    Batch& batch = ThisBatch::known();
    gathering_ = false;
    const bool idle = qp.sq.empty() && !std::is_same_v<Machine, Rd>;
    const Nanoseconds now = idle ? 0 : qp.shared->scheduler->now();
    std::size_t messages = 0;
    while (batch.count < most_frames_ && budget.bytes > 0 && budget.requests > 0 &&
           Batch::has_keys_left()) {
      if (const std::size_t shorts = add_shorts(qp, now, budget)) {
        messages += shorts;
        continue;
      }
      if (!machine_.next_request(qp, now, batch.frames[batch.count])) break;
      const OutFrame& first = batch.frames[batch.count];
      const bool whole = first.headers.info().is_last_or_only();
      messages += whole ? 1 : 0;
      add(budget);
      if (!whole && base::fast_paths.on()) add_middles(qp, now, first, budget);
    }
    if (messages > 0) last_burst_ = messages;
    tell_if_drained(qp);
  }

  std::size_t add_shorts(QueuePair& qp, Nanoseconds now, Budget& budget) {
    if (!base::fast_paths.on()) return 0;
    Batch& batch = ThisBatch::known();
    const std::size_t most = std::min<std::size_t>(most_frames_ - batch.count, budget.requests);
    const std::size_t n =
        machine_.fast_short_sends(qp, now, {batch.frames.data() + batch.count, most});
    add(budget, n);
    return n;
  }

  void add_middles(QueuePair& qp, Nanoseconds now, const OutFrame& first, Budget& budget) {
    Batch& batch = ThisBatch::known();
    const std::uint32_t mtu = bytes(qp.attributes.path_mtu);
    const std::uint64_t frames_left = (budget.bytes + mtu - 1) / mtu;
    const std::size_t most = std::min<std::uint64_t>(
        {most_frames_ - std::min(most_frames_, batch.count), budget.requests, frames_left});
    const std::size_t n =
        machine_.fast_middles(qp, now, first, {batch.frames.data() + batch.count, most});
    add(budget, n);
  }

  /// The next frames, which are built.
  void add(Budget& budget, std::size_t frames = 1) {
    Batch& batch = ThisBatch::known();
    const network::Flow flow = flow_;
    std::uint64_t payload = 0;
    for (const std::size_t end = batch.count + frames; batch.count < end; ++batch.count) {
      const OutFrame& frame = batch.frames[batch.count];
      port::Outgoing& out = batch.outgoing[batch.count];
      out.frame = &frame;
      out.flow = flow;
      if constexpr (std::is_same_v<Machine, Ud>) {
        out.flow.destination = frame.destination.gid;
        out.flow.traffic_class = frame.destination.traffic_class;
        out.flow.hop_limit = frame.destination.hop_limit;
        out.flow.flow_label = frame.destination.flow_label;
      }
      payload += frame.payload_bytes();
    }
    batch.bytes += payload;
    budget.bytes -= std::min(budget.bytes, payload);
    budget.requests -= static_cast<std::uint32_t>(frames);
  }

  void account(QueuePair& qp, const port::SendOutcome& outcome) {
    Batch& batch = ThisBatch::known();
    qp.count(obs::Counter::kFramesSent, outcome.taken);
    qp.count(obs::Counter::kBytesSent, batch.bytes);
    if (outcome.status == port::SendStatus::kFaulted) return on_fault(qp, outcome.taken);
    const std::lock_guard guard(qp.send_lock);
    machine_.on_sent(qp);
    if (outcome.status == port::SendStatus::kBusy) on_busy(qp, outcome.taken);
  }

  /// Requests are offered again; an answer counts as lost on the way, and is asked for again.
  void on_busy(QueuePair& qp, std::size_t index) {
    Batch& batch = ThisBatch::known();
    const OutFrame* first = nullptr;
    std::uint32_t reads = 0;
    for (; index < batch.count; ++index) {
      const OutFrame* frame = batch.outgoing[index].frame;
      if (is_answer(frame)) continue;
      if (first == nullptr) first = frame;
      reads += frame->headers.info().has_payload ? 0 : 1;
    }
    if (first != nullptr) machine_.on_busy(qp, *first, reads, qp.shared->scheduler->now());
  }

  static bool is_answer(const OutFrame* frame) {
    Batch& batch = ThisBatch::known();
    return static_cast<std::size_t>(frame - batch.frames.data()) < batch.answers;
  }

  /// The memory of a gather list, or of a region that the peer reads, has gone.
  void on_fault(QueuePair& qp, std::size_t index) {
    Batch& batch = ThisBatch::known();
    qp.count(obs::Counter::kVanishedMemory);
    const OutFrame& frame = *batch.outgoing[index].frame;
    if (is_answer(&frame)) {
      const std::lock_guard guard(qp.recv_lock);
      machine_.on_answer_fault(qp, frame.headers.bth.psn);
    } else {
      const std::lock_guard guard(qp.send_lock);
      machine_.on_request_fault(qp, frame.element);
    }
  }

  void tell_if_drained(QueuePair& qp) {
    if (qp.state.load(std::memory_order_relaxed) != QpState::kSendQueueDrained) {
      told_drained_ = false;
    } else if (!told_drained_ && machine_.drained(qp)) {
      told_drained_ = true;
      qp.shared->events->on_event(qp, queue::QpEvent::kSendQueueDrained);
    }
  }

  void arm(QueuePair& qp) {
    const std::lock_guard guard(qp.send_lock);
    const Nanoseconds deadline = machine_.deadline();
    if (deadline >= armed_for_) return;  // it fires earlier and then asks again
    armed_for_ = deadline;
    qp.shared->scheduler->run_at(qp, deadline);
  }

  port::Port& port_;
  network::Flow flow_;
  std::size_t most_frames_ = 0;  ///< that are built together
  std::atomic<std::uint32_t> callers_{0};
  bool told_drained_ = false;
  /// The frames that came last were taken by the program's own poll.
  std::atomic<bool> program_polls_{false};
  // Under the send lock:
  bool gathering_ = false;      ///< requests wait for others
  std::size_t last_burst_ = 0;  ///< so many messages left together
  Nanoseconds armed_for_ = kNever;
  // Under the receive lock:
  transport::AckDelay ack_delay_;
  bool owes_notice_ = false;  ///< frames came marked
  Nanoseconds noticed_at_ = 0;
  Machine machine_;
};

}  // namespace

std::unique_ptr<queue::Path> make_framed_path(QueuePair& qp, port::Port& port) {
  switch (qp.service) {
    case Service::kReliableConnection:
      return std::unique_ptr<queue::Path>(new (std::nothrow) Framed<Rc>(qp, port));
    case Service::kUnreliableConnection:
      return std::unique_ptr<queue::Path>(new (std::nothrow) Framed<Uc>(qp, port));
    case Service::kUnreliableDatagram:
      if (port.control() != nullptr) port.control()->report_all_headers();
      return std::unique_ptr<queue::Path>(new (std::nothrow) Framed<Ud>(qp, port));
    case Service::kReliableDatagram:
      break;  // its messages go by contexts
  }
  return nullptr;
}

std::unique_ptr<queue::Path> make_context_path(Context& context, port::Port& port) {
  return std::unique_ptr<queue::Path>(new (std::nothrow) Framed<Rd>(context.core, port, context));
}

}  // namespace weft::path
