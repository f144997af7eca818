#include "worlds/end.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "sim/pattern.h"
#include "worlds/link.h"

namespace weft::worlds {
namespace {

constexpr std::uint32_t kOutboxSlots = 12;
constexpr std::uint32_t kLandingSlots = 6;
constexpr std::uint32_t kMargin = 40;  ///< bytes around each area that nobody may touch
constexpr std::size_t kWindows = 3;

constexpr QpAttribute kInit = QpAttribute::kPort | QpAttribute::kPKeyIndex | QpAttribute::kAccess;
constexpr QpAttribute kRtr = QpAttribute::kAddress | QpAttribute::kPathMtu |
                             QpAttribute::kRemoteQpn | QpAttribute::kReceivePsn;
constexpr QpAttribute kReliableRtr =
    kRtr | QpAttribute::kMaxDestRdAtomic | QpAttribute::kMinRnrTimer | QpAttribute::kAckPolicy;
constexpr QpAttribute kReliableRts = QpAttribute::kTimeout | QpAttribute::kRetryCount |
                                     QpAttribute::kRnrRetry | QpAttribute::kSendPsn |
                                     QpAttribute::kMaxRdAtomic;

}  // namespace

int Slots::take() {
  const auto free = std::find(busy.begin(), busy.end(), false);
  if (free == busy.end()) return -1;
  *free = true;
  return static_cast<int>(free - busy.begin());
}

void Slots::give_back(int& slot) {
  if (slot >= 0) busy[static_cast<std::size_t>(slot)] = false;
  slot = -1;
}

End::End(sim::Stage& s, Link& l, Node& n, const LinkSpec& link_spec, const EndSpec& end_spec)
    : stage(s), link(l), node(n), spec(link_spec), where(end_spec), key(s.random.next()) {}

std::string End::name() const {
  if (!present()) return fmt::format("link {}, node {}", link.number(), node.number());
  return fmt::format("link {}, node {}, queue pair {:#x} ({})", link.number(), node.number(),
                     qp->number().value, to_string(qp->state()));
}

// ---- opening --------------------------------------------------------------------------------

void End::allocate_memory() {
  Shadow& shadow = process().shadow;
  const auto make_slots = [&](Slots& slots, std::uint32_t count, std::uint32_t each) {
    slots.bytes_each = each;
    slots.busy.assign(count, false);
    slots.ea = shadow.allocate(each * count + 2 * kMargin) + kMargin;
  };
  // Twice the longest message: the pieces of a gather list lie apart.
  make_slots(outbox, kOutboxSlots, 2 * spec.slot_bytes + 64);
  make_slots(landing, kLandingSlots, spec.slot_bytes + 64);
  shelf_half = 2 * spec.slot_bytes;
  const std::uint64_t skew = stage.random.below(sim::kPageBytes / 8) * 8;
  shelf_ea = shadow.allocate(2 * shelf_half + 2 * kMargin + sim::kPageBytes) + kMargin + skew;
  own_receives.reset();
  shared_receive = nullptr;
  life = node.lives();
}

void End::register_memory() {
  const verbs::ProtectionDomain& domain = process().domains[where.card];
  const auto whole = [&](Slots& slots, Access access) {
    slots.region.emplace(
        domain.register_range(slots.ea, slots.bytes_each * slots.busy.size(), access).value());
  };
  whole(outbox, Access::kNone);
  whole(landing, Access::kLocalWrite);
  const Access remote = Access::kRemoteWrite | Access::kRemoteRead;
  shelf_region.emplace(domain
                           .register_range(shelf_ea, shelf_half,
                                           Access::kLocalWrite | remote | spec.shelf_addressing)
                           .value());
  annex_region.emplace(domain
                           .register_range(shelf_ea + shelf_half, shelf_half,
                                           Access::kLocalWrite | Access::kWindowBind)
                           .value());
  process().shadow.restore_pattern(shelf_ea, 2 * shelf_half);
  std::vector<std::byte> content(2 * shelf_half);
  process().shadow.load(shelf_ea, content);
  shelf.reset(std::move(content));
  shelf_grant = process().shadow.grant(shelf_ea, shelf_half);
  windows.clear();
  for (std::size_t i = 0; i < kWindows; ++i) {
    const auto type = i % 2 == 0 ? verbs::WindowType::kType2 : verbs::WindowType::kType1;
    windows.push_back(
        {std::make_unique<verbs::MemoryWindow>(domain.allocate_window(type).value()), type, false});
  }
}

void End::make_queue_pair() {
  verbs::QueuePairOptions options;
  options.service = spec.service;
  options.limits = spec.limits;
  if (where.shared_receive) {
    auto& shared = process().shared_receives[where.card];
    if (shared == nullptr) {
      shared = std::make_shared<SharedReceive>(stage, process(), where.card, spec.slot_bytes);
    }
    shared_receive = shared.get();
    shared_receive->refill();
    options.shared_receive = &shared_receive->queue;
  } else if (own_receives == nullptr) {
    own_receives =
        std::make_unique<ReceiveBuffers>(stage, process(), where.card, spec.receive_buffers,
                                         spec.slot_bytes, spec.limits.max_recv_sge);
  }
  if (qp) return;
  qp.emplace(process()
                 .domains[where.card]
                 .create_queue_pair(node.completion_queue(where.card, where.send_queue),
                                    node.completion_queue(where.card, where.receive_queue), options)
                 .value());
  node.set_handler(where.card, qp->number(), this);
  process().vmm.open_queue_pair(
      {qp->number(), spec.limits.max_send_wr, static_cast<std::uint8_t>(spec.service)});
}

void End::open() {
  if (life != node.lives()) allocate_memory();
  register_memory();
  make_queue_pair();
  announced.clear();
  acknowledged = received = 0;
  unsignaled = 0;
  first_error.reset();
  failed = moved = false;
  first_psn = Psn(spec.psn_near_wrap ? kMask24 - static_cast<std::uint32_t>(stage.random.below(64))
                                     : stage.random.draw<std::uint32_t>());
}

Result<void> End::connect(const End& other) {
  QueuePairAttributes a = spec.attributes;
  a.port = where.port;
  a.remote_gid = other.address();
  a.remote_qpn = other.qp->number();
  a.receive_psn = other.first_psn;
  a.send_psn = first_psn;
  if (auto ok = qp->modify(QpState::kInit, a, kInit); !ok) return ok;
  refill_receives(spec.receive_buffers);
  if (auto ok = qp->modify(QpState::kReadyToReceive, a, reliable() ? kReliableRtr : kRtr); !ok) {
    return ok;
  }
  return qp->modify(QpState::kReadyToSend, a, reliable() ? kReliableRts : QpAttribute::kSendPsn);
}

void End::refill_receives(std::size_t most) {
  if (!present()) return;
  if (shared_receive != nullptr) return shared_receive->refill();
  own_receives->post(most,
                     [this](const ReceiveRequest& request) { return qp->post_receive(request); });
}

// ---- closing --------------------------------------------------------------------------------

void End::abandon_work() {
  for (Work& work : ledger.abandon()) {
    leave_in_doubt(*this, work);
    free_resources(*this, work);
  }
}

void End::destroy_abruptly() {
  node.drain(where.card);
  if (!present()) return;
  const Qpn number = qp->number();
  qp.reset();
  node.set_handler(where.card, number, nullptr);
  process().vmm.close_queue_pair(number);
  moved = true;
  if (own_receives != nullptr) own_receives->abandon();
}

/// After a flush: errors are always reported, so what is left was not signaled and has succeeded.
void End::retire_silent_work() {
  for (Work& work : ledger.abandon()) {
    if (work.signaled) {
      stage.judge.violated(
          fmt::format("{}: request #{} has not completed although its queue was "
                      "flushed",
                      name(), work.wr_id));
    }
    retire(*this, work, CompletionStatus::kSuccess);
  }
}

void End::close(bool keep) {
  if (present()) {
    if (qp->state() != QpState::kError) {
      moved = true;
      const auto ok = qp->modify(QpState::kError);
      if (!ok) stage.judge.violated(name() + ": modify to ERR: " + ok.error().message);
    }
    node.drain(where.card);
    retire_silent_work();
    if (own_receives != nullptr && own_receives->posted() != 0) {
      stage.judge.violated(
          fmt::format("{}: {} receive buffers have not completed although their "
                      "queue was flushed",
                      name(), own_receives->posted()));
    }
    if (keep) {
      if (auto ok = qp->modify(QpState::kReset); !ok) {
        stage.judge.violated(name() + ": modify to RESET: " + ok.error().message);
      }
    } else {
      destroy_abruptly();
    }
  }
  abandon_work();
}

void End::give_back_memory() {
  if (life != node.lives() || !node.up()) return;
  Shadow& shadow = process().shadow;
  for (const auto& exposure : exposures) {
    exposure->region.reset();
    shadow.revoke(exposure->grant);
  }
  exposures.clear();
  windows.clear();
  shelf_region.reset();
  annex_region.reset();
  outbox.region.reset();
  landing.region.reset();
  shadow.revoke(shelf_grant);
}

void End::check_shelf() {
  if (life != node.lives() || !node.up() || shelf.size() == 0) return;
  std::vector<std::byte> content(shelf.size());
  process().shadow.load(shelf_ea, content);
  if (const std::string wrong = shelf.judge(content); !wrong.empty()) {
    stage.judge.violated(name() + ": " + wrong);
  }
  stage.stats.bytes_verified += content.size();
}

void End::settle_accounts(bool last) {
  if (last) own_receives.reset();
  give_back_memory();
  check_shelf();
  shelf.reset({});
}

void End::vanish() {
  if (qp) node.set_handler(where.card, qp->number(), nullptr);
  qp.reset();
  moved = true;
  abandon_work();
  own_receives.reset();
  shared_receive = nullptr;
  give_back_memory();
  shelf.reset({});
  life = 0;
}

}  // namespace weft::worlds
