#include "verbs/controller.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "memory/flight.h"
#include "network/frame.h"
#include "obs/log.h"
#include "path/direct.h"
#include "path/framed.h"
#include "path/rd_path.h"
#include "queue/frame_receiver.h"
#include "transport/qp_state.h"
#include "verbs/limits.h"
#include "verbs/modify_attributes.h"

namespace weft::verbs {
namespace {

Result<void> check_setup(const ControllerSetup& setup) {
  const bool adapter = setup.kind == NodeKind::kIoAdapter;
  const std::size_t most = adapter ? kMaxAdapterPorts : kMaxPorts;
  if (setup.ports.empty() || setup.ports.size() > most) {
    return fail(Errc::kInvalidArgument,
                fmt::format("ports: {} given, {} has 1 to {}", setup.ports.size(),
                            adapter ? "an I/O adapter" : "a host", most));
  }
  if (setup.max_queue_pairs > kMaxQueuePairs) {
    return fail(Errc::kInvalidArgument, fmt::format("max_queue_pairs: {} is more than {}",
                                                    setup.max_queue_pairs, kMaxQueuePairs));
  }
  return {};
}

DeviceInfo describe(const ControllerSetup& setup, base::Random& random) {
  DeviceInfo info;
  info.name = setup.name;
  info.guid = random.draw<std::uint64_t>();
  info.kind = setup.kind;
  info.ports = static_cast<std::uint8_t>(setup.ports.size());
  info.max_queue_pairs = setup.max_queue_pairs;
  if (info.max_queue_pairs == 0) {
    info.max_queue_pairs = setup.kind == NodeKind::kHost ? kHostQueuePairs : kAdapterQueuePairs;
  }
  info.max_queue_depth = kMaxQueueDepth;
  info.max_sge = network::kMaxSge;
  info.max_inline_bytes = network::kMaxInlineBytes;
  info.max_completions = kMaxCompletions;
  info.max_rd_atomic = kMaxRdAtomic;
  info.max_contexts = kMaxContexts;
  return info;
}

}  // namespace

/// What the handles share: its end closes the controller.
struct Controller::Life {
  ~Life() {
    if (controller->inherited()) {
      static auto& kept = *new std::vector<std::shared_ptr<Controller>>;
      kept.push_back(std::move(controller));
      return;
    }
    controller->environment_.directory->remove(controller.get());
    if (controller->on_close_) controller->on_close_();
  }
  std::shared_ptr<Controller> controller;
};

Result<std::shared_ptr<Controller>> Controller::create(const Environment& environment,
                                                       ControllerSetup setup) {
  if (auto ok = check_setup(setup); !ok) return tl::unexpected(ok.error());
  std::shared_ptr<Controller> controller(new Controller(environment, std::move(setup)));
  if (environment.has_neighbours && controller->path_policy_ == PathPolicy::kAutomatic) {
    controller->join_neighbours();
  }
  for (const PortSetup& port : controller->ports_) {
    // One that insists on frames is not to be found by those who would rather copy.
    if (port.wire == nullptr || controller->path_policy_ == PathPolicy::kAutomatic) {
      environment.directory->add(port.address, controller);
    }
    if (port.wire != nullptr) controller->engine_.add_port(*port.wire);
  }
  auto life = std::make_shared<Life>();
  life->controller = controller;
  return std::shared_ptr<Controller>(std::move(life), controller.get());
}

Controller::Controller(const Environment& environment, ControllerSetup setup)
    : environment_(environment),
      info_(describe(setup, *environment.random)),
      path_policy_(setup.path),
      context_settings_(setup.contexts),
      ports_(std::move(setup.ports)),
      keys_(*environment.random),
      queue_pairs_(*environment.random, info_.max_queue_pairs, info_.max_contexts),
      engine_(*environment.clock, *this, counters_),
      gsi_(environment.agents, counters_) {
  shared_.keys = &keys_;
  shared_.counters = &counters_;
  shared_.scheduler = &engine_;
  shared_.events = &events_;
  shared_.serves_rdma = info_.kind == NodeKind::kHost;
  for (const PortSetup& port : ports_) {
    if (port.wire != nullptr) gsi_.add_port(port.address, *port.wire);
  }
  if (const auto slot = number_slot()) queue_pairs_.numbers().set_slot(*slot, host::kNumberSlots);
}

std::optional<unsigned> Controller::number_slot() const {
  for (const PortSetup& port : ports_) {
    if (port.number_slot) return port.number_slot;
  }
  return std::nullopt;
}

void Controller::join_neighbours() {
  std::vector<Gid> addresses;
  for (const PortSetup& port : ports_) addresses.push_back(port.address);
  auto presence = host::Presence::create(std::move(addresses), keys_.hidden(), random());
  if (!presence) {
    return obs::log().warn("{}: other processes of this host are not reached directly: {}",
                           info_.name, presence.error().message);
  }
  neighbours_ = std::make_unique<path::Neighbours>(
      std::move(*presence), *this, engine_,
      [this](const std::function<void(queue::QueuePair&)>& visit) {
        queue_pairs_.for_each(visit);
      });
  host::Presence& host = neighbours_->presence();
  keys_.set_publisher(&host);
  groups_.set_names(neighbours_->groups());
  queue_pairs_.numbers().set_claim([&host, slot = number_slot()] {
    return slot ? host.claim_block(*slot, host::kNumberSlots) : host.claim_block();
  });
  engine_.set_neighbours(*neighbours_);
}

Controller::~Controller() = default;

Result<void> Controller::check_ours() const {
  if (!inherited()) return {};
  return fail(Errc::kInvalidState,
              "device: it belongs to the parent process, from before fork; open one here");
}

Mtu Controller::max_mtu(std::uint8_t port) const {
  const PortSetup& setup = ports_[port - 1u];
  return setup.wire != nullptr ? setup.wire->max_mtu() : Mtu::k4096;
}

// ---- queue pairs ----------------------------------------------------------------------------

bool Controller::has_unfetched(Qpn qpn) {
  if (inherited()) return false;
  engine_.progress();  // what has reached this process counts, although nobody has looked yet
  queue::QueuePair* const qp = find(qpn);
  if (qp == nullptr) return false;
  // A target of extended connections has no completion queue of its own.
  const bool any =
      qp->xrc_domain == nullptr && qp->recv_cq != nullptr && qp->recv_cq->has_received(qpn);
  memory::Flight::clear(memory::Hold::kPeer);
  return any;
}

Result<queue::QueuePair*> Controller::create_queue_pair(const QueuePairSetup& setup) {
  if (auto ok = check_ours(); !ok) return tl::unexpected(ok.error());
  const auto acquired = queue_pairs_.acquire(info_.name);
  if (!acquired) return acquired;
  queue::QueuePair* const qp = *acquired;
  if (setup.shared_receive == nullptr && qp->rq == nullptr) {
    qp->rq.reset(new (std::nothrow) queue::ReceiveQueue);
    if (qp->rq == nullptr) {
      queue_pairs_.release(*qp);
      return fail(Errc::kOutOfMemory, "no memory for a receive queue");
    }
  }
  qp->shown =
      neighbours_ != nullptr ? neighbours_->presence().tables().queue_pair(qp->qpn) : nullptr;
  qp->service = setup.service;
  qp->signal_all = setup.signal_all;
  qp->pd = setup.pd;
  qp->space = setup.space;
  qp->shared = &shared_;
  qp->send_cq = setup.send_cq;
  qp->recv_cq = setup.recv_cq;
  qp->shared_receive = setup.shared_receive;
  qp->extended_initiator = setup.extended_initiator;
  qp->xrc_domain = setup.xrc_domain;
  qp->local_gid = ports_.front().address;
  qp->attributes = {};
  qp->attributes.send_psn = Psn(random().draw<std::uint32_t>());
  qp->last_receive_told = false;
  if (qp->last_initiated == 0) {
    qp->last_initiated = random().draw<std::uint64_t>() >> 2 | 1;
    qp->last_served = qp->last_initiated | std::uint64_t{1} << 63;
  }
  const bool datagrams = setup.service == Service::kReliableDatagram;
  if (datagrams) serve_contexts();
  qp->sq.configure(setup.limits, datagrams);
  if (qp->rq != nullptr) qp->rq->configure(setup.limits.max_recv_wr, setup.limits.max_recv_sge);
  return qp;
}

void Controller::serve_contexts() {
  const std::lock_guard guard(contexts_lock_);
  if (contexts_owner_ != nullptr) return;
  const auto port_of = [this](const Gid& local) -> port::Port* {
    for (const PortSetup& port : ports_) {
      if (port.address == local) return port.wire.get();
    }
    return nullptr;
  };
  contexts_owner_ = std::make_unique<path::Contexts>(
      *this, engine_, random(), counters_, [this] { return make_context_core(); }, port_of);
  contexts_owner_->set(context_settings_);
  contexts_.store(contexts_owner_.get(), std::memory_order_release);
}

Result<queue::QueuePair*> Controller::make_context_core() {
  const auto core = queue_pairs_.acquire_hidden();
  if (!core) return core;
  (*core)->shown = nullptr;
  (*core)->service = Service::kReliableDatagram;
  (*core)->shared = &shared_;
  (*core)->send_cq = (*core)->recv_cq = nullptr;
  (*core)->shared_receive = nullptr;
  (*core)->sq.configure({.max_send_wr = 256,
                         .max_recv_wr = 0,
                         .max_send_sge = 4,  // longer lists have room where inline data has
                         .max_recv_sge = 0,
                         .max_inline_bytes = network::kMaxInlineBytes},
                        true);
  return core;
}

bool Controller::on_context_setup(const wire::Packet& packet, const network::Flow& flow) {
  if (contexts() == nullptr || !owns(packet.bth.dest_qp)) return false;
  contexts()->on_setup(packet, flow);
  return true;
}

void Controller::flush_owed_acks(queue::QueuePair& qp) {
  bool crosses = false, framed = false, datagrams = false;
  {
    const memory::Flight::Scope self(memory::Hold::kSelf, &qp);
    if (!qp.can_receive() || qp.path == nullptr) return;
    crosses = qp.path->ring_receiver() != nullptr;
    framed = qp.path->frame_receiver() != nullptr;
    datagrams = qp.path->datagram_end() != nullptr;
  }
  if (crosses) neighbours_->drain_rings();
  if (datagrams) {
    engine_.take_arrived();
    return contexts()->acknowledge_all();
  }
  if (!framed) return;
  engine_.take_arrived();
  const memory::Flight::Scope self(memory::Hold::kSelf, &qp);
  if (qp.can_receive()) qp.path->frame_receiver()->acknowledge_all(qp);
}

void Controller::reset(queue::QueuePair& qp) {
  flush_owed_acks(qp);
  qp.state.store(QpState::kReset, std::memory_order_release);
  qp.epoch.fetch_add(1, std::memory_order_acq_rel);
  // Peers and other threads that are working on it finish; new ones see the state. What they
  // scheduled on their way out is forgotten after that.
  drain(qp);
  engine_.forget(qp);
  bool crossed = false;
  {
    const std::lock_guard send_guard(qp.send_lock);
    const std::lock_guard recv_guard(qp.recv_lock);
    if (qp.path != nullptr) {
      qp.path->stop(qp);
      crossed = qp.path->ring_receiver() != nullptr || qp.path->datagram_end() != nullptr;
    }
    qp.path.reset();
    qp.sq.release();
    if (qp.rq != nullptr) qp.rq->clear();
    qp.last_receive_told = false;
  }
  if (!crossed) return;
  // Whoever took answers for it out of a ring before stop() is told by the missing path.
  memory::Flight::drain(&qp);
  engine_.forget(qp);
}

void Controller::drain(queue::QueuePair& qp) {
  queue::show(qp);
  memory::Flight::drain(&qp);
  if (qp.shown == nullptr) return;
  host::Presence& presence = neighbours_->presence();
  presence.drain_word(
      host::flight_word(presence.tag(), true, host::PublicTables::flight_number(qp.qpn)));
}

void Controller::destroy_queue_pair(queue::QueuePair& qp) {
  if (inherited()) return;
  if (qp.service == Service::kUnreliableDatagram) groups_.leave_all(qp);
  reset(qp);
  events_.forget(qp.qpn, 0);  // before its number can be another's
  queue_pairs_.release(qp);
}

// ---- states ---------------------------------------------------------------------------------

std::unique_ptr<queue::Path> Controller::make_path(queue::QueuePair& qp) {
  port::Port* wire = this->wire(qp.attributes.port);
  if (qp.service == Service::kReliableDatagram && wire != nullptr) {
    return std::unique_ptr<queue::Path>(new (std::nothrow) path::RdPath(qp, *contexts()));
  }
  const bool datagram = qp.service >= Service::kUnreliableDatagram;
  const Gid& gid = qp.attributes.remote_gid;
  const Qpn qpn = qp.attributes.remote_qpn;
  const bool here = datagram ? wire == nullptr : environment_.directory->find(gid, qpn) != nullptr;
  if (here && (wire == nullptr || path_policy_ == PathPolicy::kAutomatic)) {
    return path::make_direct_path(qp, *environment_.directory, neighbours_.get());
  }
  if (neighbours_ != nullptr && !datagram) {
    if (auto path = neighbours_->make_path(qp, gid, qpn)) return path;
  }
  if (wire == nullptr) {
    return path::make_direct_path(qp, *environment_.directory, neighbours_.get());
  }
  return path::make_framed_path(qp, *wire);
}

Result<void> Controller::modify(queue::QueuePair& qp, QpState to, const QueuePairAttributes& a,
                                QpAttribute given) {
  if (auto ok = check_ours(); !ok) return ok;
  const QpState from = qp.state.load(std::memory_order_acquire);
  if (auto ok = transport::check_transition(qp.service, from, to, given); !ok) return ok;
  if (auto ok = check_given(*this, qp, a, given); !ok) return ok;
  if (to == QpState::kReset) {
    reset(qp);
    return {};
  }
  if (to == QpState::kError) {
    flush_owed_acks(qp);
    qp.state.store(QpState::kError, std::memory_order_release);
    qp.epoch.fetch_add(1, std::memory_order_acq_rel);
    drain(qp);  // nobody works on it any more when this returns
    queue::flush(qp);
    return {};
  }
  // What failed may not have been seen to yet; the path begins anew behind it.
  if (from == QpState::kSendQueueError) queue::flush(qp);
  if (to == QpState::kReadyToReceive && neighbours_ != nullptr &&
      qp.service < Service::kUnreliableDatagram &&
      environment_.directory->find(a.remote_gid, a.remote_qpn) == nullptr) {
    const auto called = neighbours_->call(a.remote_gid, a.remote_qpn);
    if (!called && called.error().code != Errc::kNotFound) {
      if (called.error().code == Errc::kNotPermitted && !on_network(qp.attributes.port))
        return called;
      obs::log().warn("{}", called.error().message);
    }
  }
  {
    const std::lock_guard send_guard(qp.send_lock);
    const std::lock_guard recv_guard(qp.recv_lock);
    take_given(qp.attributes, a, given);
    // Whoever remembers a connected peer remembers its rights; nobody remembers those of a reliable
    // datagram queue pair, whose epoch is the name of the work that was posted.
    if (has(given, QpAttribute::kAccess) && qp.service != Service::kReliableDatagram) {
      qp.epoch.fetch_add(1, std::memory_order_acq_rel);
    }
    if (to == QpState::kInit) qp.local_gid = ports_[qp.attributes.port - 1u].address;
    if (to == QpState::kReadyToReceive) {
      qp.path = make_path(qp);
      if (qp.path == nullptr) return fail(Errc::kOutOfMemory, "no memory for the connection");
      if (qp.path->frame_receiver() != nullptr &&
          (qp.extended_initiator || qp.xrc_domain != nullptr)) {
        qp.path.reset();
        return fail(Errc::kNotSupported,
                    "remote_gid: extended connections stay on one host; frames do not carry them");
      }
      qp.epoch.fetch_add(1, std::memory_order_acq_rel);
    }
    if (from == QpState::kReadyToReceive && to == QpState::kReadyToSend) {
      qp.path->start_sending(qp);
    }
    QpState expected = from;
    // A fault may have struck meanwhile: an error is never overwritten.
    if (!qp.state.compare_exchange_strong(expected, to, std::memory_order_acq_rel)) {
      return fail(Errc::kInvalidState, fmt::format("state: the queue pair went from {} to {}",
                                                   to_string(from), to_string(expected)));
    }
    queue::show(qp);
  }
  if (to == QpState::kReadyToSend || to == QpState::kSendQueueDrained) {
    // What waited in SQD, or the news that nothing is outstanding.
    const memory::Flight::Scope self(memory::Hold::kSelf, &qp);
    qp.path->advance(qp, queue::SendGuard(qp.send_lock), {});
  }
  return {};
}

// ---- posting --------------------------------------------------------------------------------

bool Controller::fast_post_by_others(queue::QueuePair& qp, const SendRequest& request) {
  if (!qp.send_lock.try_lock()) return false;
  const std::lock_guard guard(qp.send_lock, std::adopt_lock);
  return fast_post_locked(qp, request);
}

Result<void> Controller::post_send(queue::QueuePair& qp, std::span<const SendRequest> requests,
                                   std::size_t* posted) {
  *posted = 0;
  if (inherited()) [[unlikely]]
    return check_ours();
  Result<void> result;
  std::size_t done = 0;
  {
    const memory::Flight::Scope self(memory::Hold::kSelf, &qp);
    queue::SendGuard guard(qp.send_lock);
    const QpState state = qp.state.load(std::memory_order_acquire);
    if (state < QpState::kReadyToSend) [[unlikely]] {
      return fail(Errc::kInvalidState,
                  fmt::format("state: {} takes no send work (it needs RTS)", to_string(state)));
    }
    for (; done < requests.size(); ++done) {
      result = queue::enqueue_send(qp, requests[done]);
      if (!result) [[unlikely]]
        break;
    }
    if (state < QpState::kSendQueueError) [[likely]] {
      qp.path->advance(qp, std::move(guard), {});
    } else {
      engine_.run_soon(qp);  // it comes back flushed
    }
  }
  *posted = done;
  engine_.flush_failed();
  return result;
}

Result<void> Controller::post_receive(queue::QueuePair& qp,
                                      std::span<const ReceiveRequest> requests,
                                      std::size_t* posted) {
  *posted = 0;
  if (inherited()) [[unlikely]]
    return check_ours();
  if (qp.shared_receive != nullptr) {
    return fail(Errc::kInvalidArgument,
                "queue pair: it takes buffers from its shared receive queue; post there");
  }
  const QpState state = qp.state.load(std::memory_order_acquire);
  if (state == QpState::kReset) {
    return fail(Errc::kInvalidState, "state: RESET takes no receive buffers (it needs INIT)");
  }
  if (auto ok = qp.rq->post(requests, posted); !ok) return ok;
  if (qp.state.load(std::memory_order_acquire) == QpState::kError) {
    engine_.run_soon(qp);
    engine_.flush_failed();
  }
  return {};
}

}  // namespace weft::verbs
