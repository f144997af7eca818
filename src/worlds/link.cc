#include "worlds/link.h"

#include <fmt/format.h>

#include "transport/timing.h"

namespace weft::worlds {
namespace {

/// Longer than any frame can be on the way, so that no frame of an old connection meets a new one
/// of the same queue pairs.
constexpr Nanoseconds kTimeWait = 1'000'000;
constexpr Nanoseconds kRecheck = 200'000;
/// Longer than all retries of the slowest link together.
constexpr Nanoseconds kPatience = 3'000'000'000;

}  // namespace

Link::Link(sim::Stage& stage, std::uint32_t number, const LinkSpec& spec, Node& a, Node& b,
           Nanoseconds healed_at)
    : stage_(stage),
      number_(number),
      spec_(spec),
      healed_at_(healed_at),
      requests_left_(spec.requests) {
  ends_[0] = std::make_unique<End>(stage, *this, a, spec_, spec_.ends[0]);
  ends_[1] = std::make_unique<End>(stage, *this, b, spec_, spec_.ends[1]);
  ends_[0]->peer = ends_[1].get();
  ends_[1]->peer = ends_[0].get();
}

void Link::enter(State state, Nanoseconds next_step) {
  state_ = state;
  ++epoch_;
  step_again(next_step);
}

void Link::step_again(Nanoseconds delay) { stage_.after(delay, *this, epoch_); }

void Link::give_up_after(Nanoseconds patience) {
  deadline_ = std::max(stage_.now(), healed_at_) + patience;
}

bool Link::both_up() const { return ends_[0]->node.up() && ends_[1]->node.up(); }

bool Link::disturbed(const End& end) const {
  // A frame that is overtaken counts as well: by the time that it is asked for again, the peer may
  // have died of something that was refused.
  const sim::Stats& stats = stage_.stats;
  const bool faults = stats.lost + stats.cut + stats.overflowed + stats.bad_checksums != 0 ||
                      stats.nobody + stats.reordered + stats.slowdowns != 0;
  return faults || end.peer->moved || end.peer->first_error.has_value() || !end.peer->present();
}

std::string Link::describe() const {
  const auto side = [](const End& end) {
    return fmt::format(
        "{}: {} requests outstanding{}", end.name(), end.ledger.outstanding().size(),
        end.ledger.empty()
            ? ""
            : fmt::format(", the oldest is #{} ({})", end.ledger.outstanding().front().wr_id,
                          to_string(end.ledger.outstanding().front().op)));
  };
  return side(*ends_[0]) + "; " + side(*ends_[1]);
}

void Link::on_event(std::uint64_t token) {
  if (token != epoch_) return;
  if (stage_.now() > deadline_) {
    return stage_.judge.violated("the link stands still although the network is healthy: " +
                                 describe());
  }
  switch (state_) {
    case State::kDown:
      return try_connect();
    case State::kRunning:
      return run();
    case State::kBroken:
      return try_close();
    case State::kClosed:
      return;
  }
}

// ---- connecting -----------------------------------------------------------------------------

void Link::try_connect() {
  if (!both_up()) return step_again(kRecheck);
  for (const auto& end : ends_) end->open();
  for (const auto& end : ends_) {
    if (auto ok = end->connect(*end->peer); !ok) {
      return stage_.judge.violated(end->name() + ": connect: " + ok.error().message);
    }
  }
  ++stage_.stats.connections;
  stage_.trace.add(sim::What::kConnected, number_, ends_[0]->qp->number().value,
                   ends_[1]->qp->number().value);
  give_up_after(kPatience);
  enter(State::kRunning, 0);
}

// ---- running --------------------------------------------------------------------------------

void Link::resume(End& end) {
  if (end.qp->state() != QpState::kSendQueueDrained) return;
  if (auto ok = end.qp->modify(QpState::kReadyToSend); !ok) {
    stage_.judge.violated(end.name() + ": resume: " + ok.error().message);
  }
  end.node.stir();  // what it did at once has left completions
}

void Link::run() {
  for (const auto& end : ends_) {
    resume(*end);
    end->refill_receives(spec_.lazy_receiver ? 2 : spec_.receive_buffers);
  }
  if (requests_left_ == 0) {
    if (finish()) return;
  } else {
    End& from = *ends_[stage_.random.below(2)];
    const std::uint64_t burst = stage_.between(1, stage_.one_in(8) ? 24 : 5);
    for (std::uint64_t i = 0; i < burst && requests_left_ > 0; ++i) {
      if (!post_something(from)) continue;
      --requests_left_;
      give_up_after(kPatience);  // as long as there is room in its queues, it moves
    }
    if (spec_.upheaval != 0 && stage_.one_in(spec_.upheaval)) cause_upheaval();
  }
  if (state_ == State::kRunning) step_again(stage_.random.below(spec_.pause_ns) + 1);
}

/// True: everything is done, and the link is closed.
bool Link::finish() {
  for (const auto& end : ends_) {
    if (!end->ledger.empty() && !end->ledger.outstanding().back().signaled) post_signaled_end(*end);
    if (!end->ledger.empty()) return false;
    // Arrived is not consumed: the program at the other end may not have looked yet.
    if (end->reliable() && !end->announced.empty()) return false;
  }
  enter(State::kClosed, 0);  // first: that the queues are flushed is no break
  close(true);
  return true;
}

void Link::cause_upheaval() {
  End& end = *ends_[stage_.random.below(2)];
  const std::uint64_t what = stage_.random.below(4);
  if (what == 0 && end.shared_receive == nullptr) {
    stage_.trace.add(sim::What::kMoved, end.node.number(), end.qp->number().value,
                     static_cast<std::uint64_t>(QpState::kReset));
    end.destroy_abruptly();
    on_error();
  } else if (what <= 1) {
    stage_.trace.add(sim::What::kMoved, end.node.number(), end.qp->number().value,
                     static_cast<std::uint64_t>(QpState::kError));
    end.moved = true;
    if (auto ok = end.qp->modify(QpState::kError); !ok) {
      stage_.judge.violated(end.name() + ": modify to ERR: " + ok.error().message);
    }
    on_error();
  } else if (end.qp->state() == QpState::kReadyToSend) {
    if (auto ok = end.qp->modify(QpState::kSendQueueDrained); !ok) {
      stage_.judge.violated(end.name() + ": modify to SQD: " + ok.error().message);
    }
    end.node.stir();
  }
}

// ---- breaking and closing -------------------------------------------------------------------

void Link::on_error() {
  if (state_ != State::kRunning) return;
  ++stage_.stats.breaks;
  stage_.trace.add(sim::What::kBroken, number_);
  patient_ = stage_.one_in(2);
  give_up_after(kPatience);
  enter(State::kBroken, stage_.between(1, 300'000));
}

void Link::on_crash(const Node& node) {
  bool ours = false;
  for (const auto& end : ends_) {
    if (&end->node != &node) continue;
    end->vanish();
    ours = true;
  }
  if (!ours || state_ == State::kClosed || state_ == State::kDown) return;
  on_error();
  patient_ = true;
}

/// A patient program waits until its own requests have come back, by retries that run out if need
/// be; another one takes the queue pair away from under them.
void Link::try_close() {
  if (!both_up()) return step_again(kRecheck);
  for (const auto& end : ends_) {
    if (!patient_ || !end->present()) continue;
    resume(*end);
    end->refill_receives(spec_.receive_buffers);
    if (!end->ledger.empty() && !end->ledger.outstanding().back().signaled) post_signaled_end(*end);
    if (!end->ledger.empty()) return step_again(kRecheck);
  }
  close(false);
  enter(State::kDown, kTimeWait + stage_.random.below(100'000));
}

void Link::close(bool last) {
  const bool all_present = ends_[0]->present() && ends_[1]->present();
  for (const auto& end : ends_) end->close(!last && all_present && spec_.reuse_queue_pairs);
  for (const auto& end : ends_) {
    // What the peer's controller acknowledged must have reached the peer's program.
    if (end->reliable() && all_present && end->acknowledged > end->peer->received) {
      stage_.judge.violated(fmt::format("{}: {} messages were acknowledged, but only {} came",
                                        end->name(), end->acknowledged, end->peer->received));
    }
  }
  for (const auto& end : ends_) end->settle_accounts(last);
  stage_.trace.add(sim::What::kClosed, number_);
}

}  // namespace weft::worlds
