#include "path/contexts.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "network/roce.h"
#include "path/framed.h"
#include "queue/frame_receiver.h"
#include "transport/timing.h"

namespace weft::path {
namespace {

using Phase = Context::Phase;

/// What is left alone for so long is met by no frame of its former peer any more.
constexpr Nanoseconds kRest_ns = 2'000'000'000;
constexpr unsigned kBlockBits = 12;  // host::kBlockBits

}  // namespace

Contexts::~Contexts() = default;

Contexts::Peer Contexts::peer_of(const Gid& local, const Gid& remote, std::uint32_t number) {
  return {local, remote, number >> kBlockBits};
}

Contexts::Peer Contexts::way_to(const Context& context) {
  const queue::QueuePair& core = context.core;
  return peer_of(core.local_gid, core.attributes.remote_gid, context.way_.value);
}

void Contexts::erase(Map& map, const Peer& peer, const Context& context) {
  const auto at = map.find(peer);
  if (at != map.end() && at->second == &context) map.erase(at);
}

Context* Contexts::find(const Gid& local, const Gid& remote, Qpn qpn) {
  const std::lock_guard guard(lock_);
  const auto at = sending_.find(peer_of(local, remote, qpn.value));
  return at == sending_.end() ? nullptr : at->second;
}

Context* Contexts::acquire(const Gid& local) {
  {
    const std::lock_guard guard(lock_);
    if (in_use_ >= settings_.most) return nullptr;
    ++in_use_;
    const Nanoseconds now = scheduler_.now();
    const auto rested = std::ranges::find_if(resting_, [&](const Resting& one) {
      return one.since + kRest_ns <= now && one.context->core.local_gid == local;
    });
    if (rested != resting_.end()) {
      Context* const context = rested->context;
      resting_.erase(rested);
      return context;
    }
  }
  port::Port* const port = find_port_(local);
  const auto core = port != nullptr ? make_core_() : fail(Errc::kNotFound, "no port");
  if (core) {
    (*core)->local_gid = local;
    auto context = std::make_unique<Context>(*this, **core);
    (*core)->path = make_context_path(*context, *port);
    if ((*core)->path != nullptr) {
      const std::lock_guard guard(lock_);
      by_number_.set((*core)->qpn.value, context.get());
      return all_.emplace_back(std::move(context)).get();
    }
  }
  const std::lock_guard guard(lock_);
  --in_use_;
  return nullptr;
}

void Contexts::give_back(Context& context) {
  const std::lock_guard guard(lock_);
  context.set_phase(Phase::kFree);
  resting_.push_back({&context, scheduler_.now()});
  --in_use_;
}

void Contexts::forget(Context& context) {
  const queue::QueuePair& core = context.core;
  const std::lock_guard guard(lock_);
  erase(sending_, way_to(context), context);
  erase(incoming_, {core.local_gid, core.attributes.remote_gid, context.peer_.value}, context);
}

void Contexts::stop_sending(Context& context) {
  const std::lock_guard guard(lock_);
  erase(sending_, way_to(context), context);
}

void Contexts::send_by(Context& context) {
  const std::lock_guard guard(lock_);
  sending_.try_emplace(way_to(context), &context);
}

Nanoseconds Contexts::patience_of(const QueuePairAttributes& attributes) {
  constexpr Nanoseconds kLongest_ns = 60'000'000'000;
  const Nanoseconds timeout = transport::ack_timeout_ns(attributes.timeout);
  return std::min(kLongest_ns, timeout) * (attributes.retry_count + 1u);
}

bool Contexts::may_accept(const Gid& from) {
  const std::lock_guard guard(lock_);
  transport::RequestLimit& limit = limits_[std::hash<Gid>()(from) % limits_.size()];
  if (limit.spent(scheduler_.now())) return false;
  limit.count(scheduler_.now());
  return true;
}

void Contexts::set_up(Context& context, Phase phase, const Gid& remote,
                      const QueuePairAttributes& like) {
  queue::QueuePair& core = context.core;
  core.attributes = like;
  core.attributes.remote_gid = remote;
  core.attributes.remote_qpn = Qpn(context.peer_.value);
  core.attributes.send_psn = Psn(random_.draw<std::uint32_t>());
  core.attributes.ack_policy = AckPolicy::kCoalesced;
  context.requester.windowed = settings_.windowed;
  context.owed_.reset();
  context.say_again_at_ = context.give_up_at_ = context.parked_until_ = kNever;
  context.pause_ns_ = 0;
  context.used_at_.store(scheduler_.now(), std::memory_order_relaxed);
  core.path->start_sending(core);
  {
    const std::lock_guard guard(context.lock_);
    context.takes_lines_ = true;
  }
  context.set_phase(phase);
  core.state.store(QpState::kReadyToSend, std::memory_order_release);
}

Context* Contexts::open(const Gid& local, const Gid& remote, Qpn qpn,
                        const QueuePairAttributes& like) {
  if (Context* const there = find(local, remote, qpn)) return there;
  Context* const context = acquire(local);
  if (context == nullptr) return nullptr;
  {
    const std::lock_guard send_guard(context->core.send_lock);
    const std::lock_guard recv_guard(context->core.recv_lock);
    context->initiator_ = true;
    context->name_ = random_.draw<std::uint64_t>();
    context->way_ = qpn;
    context->peer_ = {};
    set_up(*context, Phase::kAsking, remote, like);
    context->owed_ = wire::RdSetupKind::kRequest;
    context->give_up_at_ = scheduler_.now() + patience_of(like);
  }
  Context* other = nullptr;
  {
    const std::lock_guard guard(lock_);
    other = sending_.try_emplace(peer_of(local, remote, qpn.value), context).first->second;
  }
  if (other == context) return context;
  discard(*context);  // another thread was faster
  return other;
}

void Contexts::discard(Context& context) {
  {
    const std::lock_guard send_guard(context.core.send_lock);
    const std::lock_guard recv_guard(context.core.recv_lock);
    context.core.state.store(QpState::kReset, std::memory_order_release);
    context.owed_.reset();
    context.say_again_at_ = context.give_up_at_ = kNever;
  }
  give_back(context);
}

void Contexts::advance(Context& context) {
  queue::QueuePair& core = context.core;
  core.path->advance(core, queue::SendGuard(core.send_lock), {});
}

void Contexts::acknowledge_all() {
  std::vector<Context*> open;
  {
    const std::lock_guard guard(lock_);
    for (const auto& context : all_) {
      if (context->phase() == Phase::kOpen) open.push_back(context.get());
    }
  }
  for (Context* const context : open) {
    {
      const std::lock_guard guard(context->core.recv_lock);
      if (!context->responder.stream.has_unacknowledged()) continue;
    }
    context->core.path->frame_receiver()->acknowledge_all(context->core);
  }
}

// ---- setup ----------------------------------------------------------------------------------

void Contexts::on_setup(const wire::Packet& packet, const network::Flow& flow) {
  const auto setup = wire::RdSetup::parse(packet.payload);
  if (!setup || packet.bth.opcode != wire::Opcode::kRdSendOnly) {
    return counters_.add(obs::Counter::kMalformedFrames);
  }
  if (packet.bth.pkey != kDefaultPKey) return counters_.add(obs::Counter::kBadPartition);
  if (packet.deth.qkey != wire::kRdSetupQKey) return counters_.add(obs::Counter::kBadQKey);
  const EecNumber from(packet.deth.source_qp.value);
  if (setup->kind == wire::RdSetupKind::kRequest) return on_request(*setup, from, flow);
  Context* const context = named(setup->receiver, setup->name, flow);
  if (context == nullptr) {
    // Gone already: the reply to that may have been lost.
    if (setup->kind == wire::RdSetupKind::kDown) {
      return reply_by_itself(*setup, wire::RdSetupKind::kDownReply, from, flow);
    }
    return counters_.add(obs::Counter::kUnknownContexts);
  }
  switch (setup->kind) {
    case wire::RdSetupKind::kReply:
      return on_reply(*context, *setup, from);
    case wire::RdSetupKind::kReject: {
      const std::lock_guard guard(context->core.send_lock);
      if (context->phase() != Phase::kAsking) return;
      return transport::fail_context(context->requester, context->core,
                                     CompletionStatus::kRetryExceeded);
    }
    case wire::RdSetupKind::kDown:
      if (!context->on_down()) return;
      return reply_by_itself(*setup, wire::RdSetupKind::kDownReply, from, flow);
    case wire::RdSetupKind::kDownReply:
      return context->on_down_reply();
    case wire::RdSetupKind::kRequest:
      return;
  }
}

Context* Contexts::named(EecNumber number, std::uint64_t name, const network::Flow& flow) {
  Context* context = nullptr;
  {
    const std::lock_guard guard(lock_);
    context = by_number_.find(number.value);
  }
  if (context == nullptr) return nullptr;
  const std::lock_guard guard(context->core.send_lock);
  const bool is_it = context->phase() != Phase::kFree && context->name_ == name &&
                     context->core.local_gid == flow.destination &&
                     context->core.attributes.remote_gid == flow.source;
  return is_it ? context : nullptr;
}

void Contexts::on_request(const wire::RdSetup& setup, EecNumber from, const network::Flow& flow) {
  const Peer key{flow.destination, flow.source, from.value};
  Context* context = nullptr;
  {
    const std::lock_guard guard(lock_);
    const auto at = incoming_.find(key);
    if (at != incoming_.end()) context = at->second;
  }
  if (context != nullptr) {
    const std::lock_guard guard(context->core.send_lock);
    if (context->name_ != setup.name) {
      // The other end has been given up there, and its number serves another.
      transport::fail_context(context->requester, context->core, CompletionStatus::kRetryExceeded);
      context = nullptr;
    } else {
      context->owed_ = wire::RdSetupKind::kReply;
    }
  }
  if (context == nullptr) {
    if (!may_accept(flow.source)) return counters_.add(obs::Counter::kContextsRefused);
    context = accept(setup, from, flow);
  }
  if (context != nullptr) return advance(*context);
  counters_.add(obs::Counter::kContextsRefused);
  reply_by_itself(setup, wire::RdSetupKind::kReject, from, flow);
}

Context* Contexts::accept(const wire::RdSetup& setup, EecNumber from, const network::Flow& flow) {
  port::Port* const port = find_port_(flow.destination);
  Context* const context = port != nullptr ? acquire(flow.destination) : nullptr;
  if (context == nullptr) return nullptr;
  {
    const std::lock_guard send_guard(context->core.send_lock);
    const std::lock_guard recv_guard(context->core.recv_lock);
    context->initiator_ = false;
    context->name_ = setup.name;
    context->way_ = Qpn(from.value);
    context->peer_ = from;
    QueuePairAttributes like;
    like.path_mtu = std::min(setup.mtu, port->max_mtu());
    like.receive_psn = setup.first_psn;
    like.max_rd_atomic = std::min(like.max_rd_atomic, setup.reads);
    like.timeout = setup.timeout;
    like.retry_count = setup.retry_count;
    set_up(*context, Phase::kOpen, flow.source, like);
    context->requester.windowed = settings_.windowed && setup.windowed;
    transport::start(context->responder, context->core);
    context->owed_ = wire::RdSetupKind::kReply;
  }
  counters_.add(obs::Counter::kContextsMade);
  const std::lock_guard guard(lock_);
  incoming_[{flow.destination, flow.source, from.value}] = context;
  sending_.try_emplace(peer_of(flow.destination, flow.source, from.value), context);
  return context;
}

void Contexts::on_reply(Context& context, const wire::RdSetup& setup, EecNumber from) {
  queue::QueuePair& core = context.core;
  {
    const std::lock_guard send_guard(core.send_lock);
    const std::lock_guard recv_guard(core.recv_lock);
    if (context.phase() != Phase::kAsking || context.name_ != setup.name) return;
    context.peer_ = from;
    core.attributes.remote_qpn = Qpn(from.value);
    core.attributes.path_mtu = std::min(core.attributes.path_mtu, setup.mtu);
    core.attributes.receive_psn = setup.first_psn;
    core.attributes.max_rd_atomic = std::min(core.attributes.max_rd_atomic, setup.reads);
    context.requester.windowed = context.requester.windowed && setup.windowed;
    context.owed_.reset();
    context.say_again_at_ = context.give_up_at_ = kNever;
    core.path->start_sending(core);
    transport::start(context.responder, core);
    context.set_phase(Phase::kOpen);
  }
  counters_.add(obs::Counter::kContextsMade);
  advance(context);
}

void Contexts::reply_by_itself(const wire::RdSetup& setup, wire::RdSetupKind kind, EecNumber from,
                               const network::Flow& flow) {
  port::Port* const port = find_port_(flow.destination);
  if (port == nullptr) return;
  wire::RdSetup reply = setup;
  reply.kind = kind;
  reply.receiver = from;
  network::OutFrame frame;
  frame.headers.bth = {};
  frame.headers.bth.opcode = wire::Opcode::kRdSendOnly;
  frame.headers.bth.dest_qp = Qpn(from.value);
  frame.headers.rdeth = {};
  frame.headers.deth = {wire::kRdSetupQKey, Qpn(setup.receiver.value)};
  frame.add_inline(reply.bytes());
  frame.finish();
  network::Flow back;
  back.source = flow.destination;
  back.destination = flow.source;
  back.source_port = network::source_port_for(Qpn(0), Qpn(from.value));
  const std::array<port::Outgoing, 1> out{{{&frame, back}}};
  port->send(out);  // lost, it is asked for again
}

Contexts::Size Contexts::size() const {
  const std::lock_guard guard(lock_);
  return {in_use_, static_cast<std::uint32_t>(all_.size())};
}

}  // namespace weft::path
