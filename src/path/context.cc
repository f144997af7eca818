#include "path/context.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "memory/flight.h"
#include "path/contexts.h"
#include "path/rd_path.h"
#include "transport/message.h"
#include "transport/timing.h"

namespace weft::path {
namespace {

using queue::QueuePair;
using queue::Route;
using queue::SendQueue;
using queue::SendWqe;

/// The list of an element, or its inline data.
std::size_t bytes_behind(const SendWqe& wqe) {
  static_assert(network::kMaxSge * sizeof(Sge) <= network::kMaxInlineBytes);
  return wqe.is_inline() ? wqe.length : wqe.num_sge * sizeof(Sge);
}

/// The source still is the queue pair that posted it, with its path.
bool is_same(const Route& route) {
  return route.source->epoch.load(std::memory_order_acquire) == route.epoch;
}

RdPath& path_of(const QueuePair& qp) { return static_cast<RdPath&>(*qp.path->datagram_end()); }

}  // namespace

// ---- lines ----------------------------------------------------------------------------------

bool Context::add_line(Line&) {
  const std::lock_guard guard(lock_);
  if (!takes_lines_) return false;
  ++lines_;
  return true;
}

bool Context::list(Line& line) {
  const std::lock_guard guard(lock_);
  if (!takes_lines_) return false;
  if (std::exchange(line.listed, true)) return true;
  append(line);
  return true;
}

void Context::append(Line& line) {
  line.next = nullptr;
  (last_line_ != nullptr ? last_line_->next : first_line_) = &line;
  last_line_ = &line;
  ++listed_;
}

Line* Context::take_first() {
  Line* const line = first_line_;
  first_line_ = line->next;
  if (first_line_ == nullptr) last_line_ = nullptr;
  --listed_;
  return line;
}

void Context::remove_line(Line& line) {
  {
    const std::lock_guard guard(lock_);
    for (std::uint32_t n = std::exchange(line.listed, false) ? listed_ : 0; n > 0; --n) {
      Line* const one = take_first();
      if (one != &line) append(*one);
    }
    if (--lines_ > 0 || takes_lines_) return;
  }
  owner_.give_back(*this);
}

bool Context::pull(QueuePair& context, Nanoseconds now) {
  if (phase() != Phase::kOpen) return false;
  const std::lock_guard guard(lock_);
  if (listed_ > 0) used_at_.store(now, std::memory_order_relaxed);
  parked_until_ = kNever;
  bool contended = false;
  for (std::uint32_t n = listed_; n > 0; --n) {
    Line& line = *take_first();
    if (line.parked_until > now) {
      parked_until_ = std::min(parked_until_, line.parked_until);
      append(line);
      continue;
    }
    const std::unique_lock source(line.qp->send_lock, std::try_to_lock);
    if (source && take_message(line, context)) return true;
    contended = contended || !source;
    append(line);
  }
  if (contended) context.shared->scheduler->run_soon(context);
  return false;
}

bool Context::take_message(Line& line, QueuePair& context) {
  SendQueue& from = line.qp->sq;
  const SendWqe& wqe = from.at(line.first);
  if (bytes_behind(wqe) > context.sq.inline_room() && !context.sq.widen()) return false;
  SendWqe* const copy = context.sq.reserve();
  if (copy == nullptr) return false;
  std::memcpy(&SendQueue::route_of(*copy), &SendQueue::route_of(wqe),
              sizeof(Route) + sizeof(SendWqe) + bytes_behind(wqe));
  Route& route = SendQueue::route_of(*copy);
  const std::uint32_t next = std::exchange(route.index, line.first);
  // Whoever waits for room in its queue waits for an acknowledgement, too.
  const bool fills = 2 * (from.tail() - from.head()) >= from.capacity();
  const auto flags = static_cast<unsigned>(wqe.flags) & ~static_cast<unsigned>(SendFlags::kFence);
  copy->flags = static_cast<SendFlags>(flags);
  if (fills) copy->flags = copy->flags | SendFlags::kSignaled;
  copy->started = copy->finished = false;
  context.sq.commit();
  line.first = next;
  ++line.taken;
  if (--line.waiting > 0) {
    append(line);
  } else {
    line.listed = false;
  }
  return true;
}

// ---- what the requester asks for ------------------------------------------------------------

bool Context::keep_source(const Route& route) {
  memory::Flight::keep(route.source);
  return is_same(route);
}

bool Context::hold_source(const Route& route) {
  memory::Flight::publish(memory::Hold::kSelf, route.source);
  if (is_same(route)) return true;
  memory::Flight::clear(memory::Hold::kSelf);
  return false;
}

void Context::finish(const SendWqe& wqe, CompletionStatus status) {
  const Route& route = SendQueue::route_of(wqe);
  if (route.source == nullptr) return;
  const std::lock_guard guard(route.source->send_lock);
  if (is_same(route)) path_of(*route.source).on_done(*route.source, route.index, *this, status);
}

void Context::put_back(const SendWqe& wqe) {
  const Route& route = SendQueue::route_of(wqe);
  const std::lock_guard guard(route.source->send_lock);
  if (is_same(route)) path_of(*route.source).put_back(*route.source, route.index, *this);
}

bool Context::park(const SendWqe& wqe, Nanoseconds until) {
  const Route& route = SendQueue::route_of(wqe);
  const std::lock_guard guard(route.source->send_lock);
  return is_same(route) && path_of(*route.source).park(*route.source, *this, until);
}

void Context::end(Phase phase) {
  core.state.store(QpState::kReset, std::memory_order_release);
  owed_.reset();
  say_again_at_ = give_up_at_ = parked_until_ = kNever;
  {
    const std::lock_guard guard(core.recv_lock);
    abandon_message(responder);
    transport::start(responder, core);  // without what it kept for its peer
  }
  core.sq.release();
  requester.cursor = core.sq.tail();
  set_phase(phase);
  owner_.forget(*this);
}

void Context::fail_all() {
  core.count(obs::Counter::kContextsFailed);
  end(Phase::kDead);
  bool unused = false;
  {
    const std::lock_guard guard(lock_);
    takes_lines_ = false;
    while (first_line_ != nullptr) {
      Line& line = *take_first();
      line.listed = false;
      core.shared->scheduler->run_soon(*line.qp);
    }
    unused = lines_ == 0;
  }
  if (unused) owner_.give_back(*this);
}

// ---- nobody uses it -------------------------------------------------------------------------

bool Context::stop_taking_lines() {
  owner_.stop_sending(*this);  // first, so that who finds it closed finds another one
  const bool works = !core.sq.empty() || !requester.stream.all_acknowledged() ||
                     requester.phase != transport::RdRequester::Phase::kFlowing;
  {
    const std::lock_guard guard(lock_);
    if (!works && lines_ == 0) {
      takes_lines_ = false;
      return true;
    }
  }
  owner_.send_by(*this);
  return false;
}

Nanoseconds Context::idle_at() const {
  const Nanoseconds idle_ns = owner_.settings().idle_ns;
  if (idle_ns == kNever) return kNever;
  // Who made it ends it, unless that one is there no more, or would wait for much longer.
  return used_at_.load(std::memory_order_relaxed) + (initiator_ ? idle_ns : 4 * idle_ns);
}

void Context::on_idle(Nanoseconds now) {
  used_at_.store(now, std::memory_order_relaxed);
  if (!stop_taking_lines()) return;
  set_phase(Phase::kClosing);
  owed_ = wire::RdSetupKind::kDown;
  pause_ns_ = 0;
  give_up_at_ = now + owner_.patience_of(core.attributes);
}

void Context::take_down() {
  core.count(obs::Counter::kContextsIdle);
  end(Phase::kFree);
  owner_.give_back(*this);
}

bool Context::on_down() {
  const std::lock_guard guard(core.send_lock);
  if (phase() == Phase::kOpen) {
    if (!stop_taking_lines()) return false;  // it will see what is on its way
  } else if (phase() != Phase::kClosing) {
    return true;
  }
  take_down();
  return true;
}

void Context::on_down_reply() {
  const std::lock_guard guard(core.send_lock);
  if (phase() == Phase::kClosing) take_down();
}

/// The other end goes on.
void Context::reopen() {
  const std::lock_guard guard(core.send_lock);
  if (phase() != Phase::kClosing) return;
  owed_.reset();
  say_again_at_ = give_up_at_ = kNever;
  {
    const std::lock_guard lines_guard(lock_);
    takes_lines_ = true;
  }
  set_phase(Phase::kOpen);
  owner_.send_by(*this);
}

// ---- for the path ---------------------------------------------------------------------------

void Context::on_frame(const wire::Packet& packet, Nanoseconds now) {
  if (phase() == Phase::kClosing && !transport::is_response(packet)) reopen();
  if (phase() != Phase::kOpen) return core.count(obs::Counter::kWrongState);
  used_at_.store(now, std::memory_order_relaxed);
  if (transport::is_response(packet)) {
    const std::lock_guard guard(core.send_lock);
    if (phase() == Phase::kOpen) transport::on_response(requester, core, packet, now);
    return;
  }
  const std::lock_guard guard(core.recv_lock);
  if (phase() != Phase::kOpen) return;
  if (packet.info().operation == wire::Operation::kResync) {
    return transport::on_request(responder, core, nullptr, nullptr, packet);
  }
  QueuePair* to = owner_.table_.peek(packet.bth.dest_qp);
  std::unique_lock<base::BiasedLock> target_guard;
  if (to != nullptr && to != &core) target_guard = std::unique_lock(to->recv_lock);
  const bool takes = target_guard && to->qpn == packet.bth.dest_qp && to->can_receive() &&
                     to->service == Service::kReliableDatagram && to->path != nullptr &&
                     to->path->datagram_end() != nullptr && to->local_gid == core.local_gid;
  if (takes && packet.deth.qkey == to->attributes.qkey) {
    return transport::on_request(responder, core, to, &path_of(*to).target(), packet);
  }
  if (takes && responder.stream.expects(packet.bth.psn) && !responder.refuses) {
    core.count(obs::Counter::kBadQKey);
  }
  if (target_guard) target_guard.unlock();
  transport::on_request(responder, core, nullptr, nullptr, packet);
}

bool Context::emit_setup(Nanoseconds now, network::OutFrame& frame) {
  if (!owed_) return false;
  const wire::RdSetupKind kind = *owed_;
  owed_.reset();
  wire::RdSetup setup;
  setup.kind = kind;
  setup.windowed = requester.windowed;
  setup.reads = core.attributes.max_dest_rd_atomic;
  setup.first_psn = core.attributes.send_psn;
  setup.mtu = core.attributes.path_mtu;
  setup.timeout = core.attributes.timeout;
  setup.retry_count = core.attributes.retry_count;
  setup.receiver = peer_;
  setup.name = name_;
  transport::begin_frame(core, Psn(0), frame);
  frame.headers.bth.opcode = wire::Opcode::kRdSendOnly;
  frame.headers.bth.dest_qp = way_;
  frame.headers.rdeth = {};
  frame.headers.deth = {wire::kRdSetupQKey, core.qpn};
  frame.element = core.sq.tail();
  frame.add_inline(setup.bytes());
  frame.finish();
  if (kind == wire::RdSetupKind::kRequest || kind == wire::RdSetupKind::kDown) {
    constexpr Nanoseconds kFirstPause_ns = 2'000'000, kMostPause_ns = 500'000'000;
    pause_ns_ = pause_ns_ == 0 ? kFirstPause_ns : std::min(2 * pause_ns_, kMostPause_ns);
    say_again_at_ = now + pause_ns_;
  }
  return true;
}

bool Context::next_request(Nanoseconds now, network::OutFrame& frame) {
  if (emit_setup(now, frame)) return true;
  return phase() == Phase::kOpen && transport::next_request(requester, core, now, frame);
}

bool Context::next_answer(network::OutFrame& frame) {
  return phase() == Phase::kOpen && transport::next_answer(responder, core, frame);
}

void Context::on_timer(Nanoseconds now) {
  if (now >= give_up_at_) {
    if (phase() == Phase::kClosing) return take_down();
    return transport::fail_context(requester, core, CompletionStatus::kRetryExceeded);
  }
  if (now >= say_again_at_) {
    say_again_at_ = kNever;
    owed_ = phase() == Phase::kClosing ? wire::RdSetupKind::kDown : wire::RdSetupKind::kRequest;
  }
  if (now >= parked_until_) parked_until_ = kNever;  // whoever sends next looks at the lines
  if (phase() != Phase::kOpen) return;
  transport::on_timer(requester, core, now);
  if (phase() == Phase::kOpen && now >= idle_at()) on_idle(now);
}

Nanoseconds Context::deadline() const {
  const Nanoseconds own = std::min(say_again_at_, give_up_at_);
  if (phase() != Phase::kOpen) return own;
  return std::min({own, transport::next_deadline(requester), parked_until_, idle_at()});
}

bool Context::has_requests() const {
  if (owed_ || requester.resync_due || requester.cursor != core.sq.tail()) return true;
  if (!core.sq.empty() && core.sq.front().finished) return true;
  const std::lock_guard guard(lock_);
  return first_line_ != nullptr;
}

bool Context::owes_nothing() const {
  return !responder.verdict_owed && transport::owes_nothing(responder, core);
}

}  // namespace weft::path
