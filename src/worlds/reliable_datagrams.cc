#include "worlds/reliable_datagrams.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/pattern.h"

namespace weft::worlds {
namespace {

constexpr std::uint32_t kMemberSlots = 8;
constexpr std::uint32_t kSharedBytes = 4096;  ///< of each member, that all may read
constexpr Nanoseconds kStandstill = 20'000'000'000;

}  // namespace

struct ReliableDatagrams::Member final : CompletionHandler {
  Member(ReliableDatagrams& o, Node& n, const EndSpec& w, std::size_t i)
      : owner(o), node(n), where(w), index(i), qkey(o.stage_.random.draw<std::uint32_t>()) {}

  void open();
  void close();
  bool open_now() const { return qp.has_value(); }
  Process& process() const { return node.process(where.process); }
  Gid address() const { return node.spec().cards[where.card].ports[where.port - 1u]; }
  verbs::MemoryRegion expose(std::uint64_t ea, std::uint32_t length, Access access) const {
    return process().domains[where.card].register_range(ea, length, access).value();
  }
  void refill(std::size_t most) {
    receives->post(most, [this](const ReceiveRequest& r) { return qp->post_receive(r); });
  }
  void on_completion(const Completion& completion) override;

  ReliableDatagrams& owner;
  Node& node;
  const EndSpec where;
  const std::size_t index;
  const QKey qkey;
  std::uint32_t life = 0;
  std::optional<verbs::QueuePair> qp;
  std::unique_ptr<ReceiveBuffers> receives;
  Slots outbox, landing;
  std::uint64_t area_ea = 0, shared_ea = 0;  ///< what others write: a slot each; what they read
  GrantId area_grant = 0;
  std::optional<verbs::MemoryRegion> area, shared;
  WorkLedger ledger;
};

void ReliableDatagrams::Member::open() {
  Process& home = process();
  const auto members = static_cast<std::uint32_t>(owner.members_.size());
  const std::uint32_t each = owner.spec_.slot_bytes;
  for (Slots* slots : {&outbox, &landing}) {
    slots->bytes_each = each;
    slots->busy.assign(kMemberSlots, false);
    slots->ea = home.shadow.allocate(each * kMemberSlots);
    slots->region.emplace(expose(slots->ea, each * kMemberSlots, Access::kLocalWrite));
  }
  area_ea = home.shadow.allocate(each * members);
  area_grant = home.shadow.grant(area_ea, each * members);
  area.emplace(expose(area_ea, each * members, Access::kLocalWrite | Access::kRemoteWrite));
  shared_ea = home.shadow.allocate(kSharedBytes);
  shared.emplace(expose(shared_ea, kSharedBytes, Access::kRemoteRead));
  receives = std::make_unique<ReceiveBuffers>(owner.stage_, home, where.card,
                                              owner.spec_.receive_buffers, each, 3);
  verbs::QueuePairOptions options;
  options.service = Service::kReliableDatagram;
  qp.emplace(home.domains[where.card]
                 .create_queue_pair(node.completion_queue(where.card, where.send_queue),
                                    node.completion_queue(where.card, where.receive_queue), options)
                 .value());
  node.set_handler(where.card, qp->number(), this);
  home.vmm.open_queue_pair({qp->number(), kMemberSlots, 3});
  QueuePairAttributes attributes = owner.spec_.attributes;
  attributes.port = where.port;
  if (auto ok = qp->activate(qkey, attributes); !ok) {
    owner.stage_.judge.violated("activate: " + ok.error().message);
  }
  ++life;
  refill(owner.spec_.receive_buffers);
}

void ReliableDatagrams::Member::close() {
  if (!qp) return;
  const Qpn number = qp->number();
  qp.reset();
  node.set_handler(where.card, number, nullptr);
  process().vmm.close_queue_pair(number);
  for (const Work& work : ledger.abandon()) {
    Request& request = owner.requests_[owner.by_wr_id_.at(work.wr_id)];
    process().shadow.revoke(request.landing_grant);
  }
  process().shadow.revoke(area_grant);
  receives->abandon();
  receives.reset();
  area.reset();
  shared.reset();
  outbox.region.reset();
  landing.region.reset();
}

void ReliableDatagrams::Member::on_completion(const Completion& completion) {
  if ((completion.wr_id & kReceiveMark) == 0) {
    return owner.on_sent(*this, completion.wr_id, completion.status);
  }
  const auto* buffer = receives->completed(completion.wr_id);
  if (buffer == nullptr) {
    return owner.stage_.judge.violated("a message came in a buffer that is not posted");
  }
  if (completion.ok()) {
    const bool written = completion.op == CompletionOp::kReceiveWriteImmediate;
    const std::uint32_t n = written ? 0 : completion.byte_count;
    return owner.on_message(*this, completion, receives->content(*buffer, n));
  }
  if (completion.status == CompletionStatus::kFlushed) return;
  owner.stage_.judge.violated(fmt::format("a receive of node {} ended with \"{}\"", node.number(),
                                          to_string(completion.status)));
}

ReliableDatagrams::ReliableDatagrams(sim::Stage& stage, const ReliableDatagramSpec& spec,
                                     const std::vector<std::unique_ptr<Node>>& nodes,
                                     Nanoseconds healed_at)
    : stage_(stage),
      spec_(spec),
      healed_at_(healed_at),
      key_(sim::mix(0x5244)),
      requests_left_(spec.requests) {
  for (const EndSpec& where : spec_.members) {
    members_.push_back(std::make_unique<Member>(*this, *nodes[where.node], where, members_.size()));
  }
}

ReliableDatagrams::~ReliableDatagrams() = default;

void ReliableDatagrams::abandon() { members_.clear(); }

void ReliableDatagrams::start() {
  if (members_.size() < 2) {
    closed_ = true;
    return;
  }
  stage_.after(0, *this, 0);
}

void ReliableDatagrams::on_crash(const Node& node) {
  for (const auto& member : members_) {
    if (&member->node != &node) continue;
    upset_ = upset_ || member->open_now();
    member->close();
  }
}

void ReliableDatagrams::stir_up() {
  Member& member = *members_[stage_.random.below(members_.size())];
  if (!member.open_now()) return;
  upset_ = true;
  if (stage_.one_in(2)) {
    if (auto ok = member.qp->modify(QpState::kError); !ok)
      stage_.judge.violated(ok.error().message);
  }
  member.node.drain(member.where.card);
  member.close();
}

bool ReliableDatagrams::idle() const {
  return std::ranges::all_of(members_, [](const auto& m) { return m->ledger.empty(); });
}

void ReliableDatagrams::on_event(std::uint64_t) {
  if (closed_) return;
  for (const auto& member : members_) {
    if (member->open_now()) {
      member->refill(stage_.random.below(spec_.receive_buffers) + 1);
    } else if (member->node.up() && (requests_left_ > 0)) {
      member->open();
    }
  }
  if (requests_left_ == 0) {
    if (idle()) {
      for (const auto& m : members_) {
        if (m->open_now()) m->node.drain(m->where.card);
      }
      check_end();
      for (const auto& m : members_) m->close();
      closed_ = true;
      return;
    }
    if (deadline_ == kNever) deadline_ = std::max(stage_.now(), healed_at_) + kStandstill;
    if (stage_.now() > deadline_) {
      return stage_.judge.violated("reliable datagrams stand still");
    }
    return stage_.after(100'000, *this, 0);
  }
  Member& from = *members_[stage_.random.below(members_.size())];
  for (std::uint64_t burst = stage_.between(1, 5); burst > 0 && requests_left_ > 0; --burst) {
    if (from.open_now() && send(from)) --requests_left_;
  }
  if (spec_.upheaval != 0 && stage_.one_in(spec_.upheaval)) stir_up();
  stage_.after(stage_.random.below(spec_.pause_ns) + 1, *this, 0);
}

// ---- requests -------------------------------------------------------------------------------

void ReliableDatagrams::choose(Member& from, Member& to, Request& request, SendRequest& out) {
  const std::uint64_t kind = stage_.random.below(8);
  const auto any = static_cast<std::uint32_t>(stage_.between(8, spec_.slot_bytes));
  const auto few = static_cast<std::uint32_t>(stage_.between(8, 64));
  request.length = stage_.one_in(2) ? any : few;
  Pair& pair = pair_of(request);
  if (kind == 5 && !pair.area_busy && from.life == 1) {
    pair.area_busy = true;
    request.op = SendOp::kWriteImmediate;
    request.area_slot = static_cast<int>(from.index);
    out.remote = {to.area->address() + from.index * spec_.slot_bytes, to.area->rkey()};
  } else if (kind == 6) {
    request.op = SendOp::kRead;
    request.length = std::min(request.length, kSharedBytes);
    request.read_from = stage_.random.below(kSharedBytes - request.length + 1);
    out.remote = to.shared->remote(request.read_from);
  } else if (kind == 7) {
    request.op = SendOp::kFetchAdd;
    request.length = 8;
    request.word = stage_.random.below(Process::kWords);
    request.operand = out.operand = stage_.between(1, 1000);
    out.remote = to.process().word_regions[to.where.card].remote(8 * request.word);
    to.process().counters[request.word].posted(request.operand);
  } else {
    request.immediate = stage_.one_in(2);
    request.op = request.immediate ? SendOp::kSendImmediate : SendOp::kSend;
  }
  if (spec_.mischief == 0 || !stage_.one_in(spec_.mischief)) return;
  switch (stage_.random.below(2)) {
    case 0:
      out.destination_qkey = QKey(out.destination_qkey.value + 1);
      request.expected = CompletionStatus::kRemoteInvalidRdRequest;
      break;
    default:
      if (request.op != SendOp::kRead) break;
      out.remote.key = RemoteKey(to.area->rkey());
      out.remote.address = to.area->address();
      request.expected = CompletionStatus::kRemoteAccessError;
      break;
  }
}

bool ReliableDatagrams::send(Member& from) {
  const std::size_t index = stage_.random.below(members_.size());
  Member& to = *members_[index];
  if (!to.open_now()) return false;
  Work work;
  work.outbox_slot = from.outbox.take();
  if (work.outbox_slot < 0) return false;
  work.landing_slot = from.landing.take();
  Request request{.from = from.index,
                  .to = index,
                  .from_life = from.life,
                  .to_life = to.life,
                  .op = SendOp::kSend,
                  .length = 8,
                  .order = 0};
  SendRequest out;
  out.destination.gid = to.address();
  out.destination_qpn = to.qp->number();
  out.destination_qkey = to.qkey;
  choose(from, to, request, out);
  const std::uint64_t number = requests_.size();
  request.order = ++pair_of(request).posted;
  request.landing_slot = work.landing_slot;
  Sge sge = from.outbox.sge(from.outbox.at(work.outbox_slot), request.length);
  if (request.op == SendOp::kRead || request.op == SendOp::kFetchAdd) {
    const std::uint64_t at = from.landing.at(work.landing_slot);
    sge = from.landing.sge(at, request.length);
    request.landing_grant = from.process().shadow.grant(at, request.length);
  } else {
    std::vector<std::byte> content(request.length);
    sim::fill_message(key_, number, content);
    from.process().shadow.store(from.outbox.at(work.outbox_slot), content);
  }
  out.op = request.op;
  out.immediate = static_cast<std::uint32_t>(number);
  out.wr_id = work.wr_id = stage_.next_wr_id++;
  out.sges = {&sge, 1};
  if (stage_.one_in(8)) out.flags = out.flags | SendFlags::kFence;
  work.op = request.op;
  work.length = request.length;
  by_wr_id_[work.wr_id] = number;
  requests_.push_back(request);
  ++stage_.stats.requests;
  stage_.trace.posted(from.node.number(), from.qp->number(), out.op, out.wr_id, work.length);
  from.ledger.posted(std::move(work));
  if (auto ok = from.qp->post_send(out); !ok) {
    stage_.judge.violated("reliable datagram: post_send: " + ok.error().message);
  }
  from.node.stir();
  return true;
}

// ---- what comes of them ---------------------------------------------------------------------

bool ReliableDatagrams::may_fail(const Request& request, CompletionStatus status) const {
  const sim::Stats& stats = stage_.stats;
  const bool faults = stats.lost + stats.cut + stats.overflowed + stats.bad_checksums +
                          stats.nobody + stats.reordered + stats.slowdowns + stats.crashes !=
                      0;
  const Member& to = *members_[request.to];
  const bool gone = !to.open_now() || to.life != request.to_life;
  switch (status) {
    case CompletionStatus::kFlushed:
      return upset_;
    case CompletionStatus::kRetryExceeded:
      return faults;
    case CompletionStatus::kRnrRetryExceeded:
      return spec_.attributes.rnr_retry != 7;
    case CompletionStatus::kRemoteInvalidRdRequest:
    case CompletionStatus::kRemoteAccessError:
    case CompletionStatus::kRemoteOperationError:
      return gone;
    default:
      return false;
  }
}

void ReliableDatagrams::on_sent(Member& from, std::uint64_t wr_id, CompletionStatus status) {
  std::string wrong;
  for (Work& work : from.ledger.completed(wr_id, &wrong)) {
    from.outbox.give_back(work.outbox_slot);
    from.landing.give_back(work.landing_slot);
  }
  if (!wrong.empty()) return stage_.judge.violated(wrong);
  Request& request = requests_[by_wr_id_.at(wr_id)];
  from.process().shadow.revoke(request.landing_grant);
  if (status != CompletionStatus::kSuccess) {
    if (status == CompletionStatus::kRemoteAccessError) ++stage_.stats.refused;
    if (status == request.expected || may_fail(request, status)) return;
    return stage_.judge.violated(fmt::format("reliable datagram #{} ({}): \"{}\" is not explained",
                                             wr_id, to_string(request.op), to_string(status)));
  }
  if (request.expected != CompletionStatus::kSuccess) {
    return stage_.judge.violated(fmt::format("reliable datagram #{} should have failed", wr_id));
  }
  request.succeeded = true;
  Member& to = *members_[request.to];
  const bool same_life = to.open_now() && to.life == request.to_life;
  std::vector<std::byte> found(request.length);
  const std::uint64_t at = from.landing.at(request.landing_slot);
  if (request.op == SendOp::kRead && same_life) {
    std::vector<std::byte> wanted(request.length);
    to.process().shadow.load(to.shared_ea + request.read_from, wanted);
    from.process().shadow.load(at, found);
    if (found != wanted) stage_.judge.violated("a read brought something else");
    ++stage_.stats.reads;
  } else if (request.op == SendOp::kFetchAdd && same_life) {
    from.process().shadow.load(at, found);
    to.process().counters[request.word].succeeded(request.operand, sim::sequence_in(found),
                                                  stage_.judge);
    ++stage_.stats.atomics;
  }
}

void ReliableDatagrams::on_message(Member& to, const Completion& completion,
                                   std::span<const std::byte> bytes) {
  const bool written = completion.op == CompletionOp::kReceiveWriteImmediate;
  const std::uint64_t number =
      completion.has_immediate ? completion.immediate : sim::sequence_in(bytes);
  sim::Judge& judge = stage_.judge;
  if (number >= requests_.size()) return judge.violated("a message came that nobody sent");
  Request& request = requests_[number];
  const std::string name = fmt::format("message {} ({})", number, to_string(request.op));
  if (request.to != to.index || request.to_life != to.life) {
    return judge.violated(name + " was for another queue pair");
  }
  if (request.expected != CompletionStatus::kSuccess) {
    return judge.violated(name + " should have been refused");
  }
  if (std::exchange(request.arrived, true)) return judge.violated(name + " came twice");
  Pair& pair = pair_of(request);
  if (request.order <= pair.received) return judge.violated(name + " came out of order");
  pair.received = request.order;
  std::vector<std::byte> found(bytes.begin(), bytes.end()), wanted(request.length);
  if (written) {
    found.resize(request.length);
    to.process().shadow.load(
        to.area_ea + static_cast<std::uint64_t>(request.area_slot) * spec_.slot_bytes, found);
    pair.area_busy = false;
    ++stage_.stats.writes;
  }
  sim::fill_message(key_, number, wanted);
  if (found != wanted) return judge.violated(name + " has changed on the way");
  ++stage_.stats.messages;
  stage_.stats.bytes_verified += found.size();
}

void ReliableDatagrams::check_end() {
  for (const Request& request : requests_) {
    const Member& to = *members_[request.to];
    const bool is_message = request.op == SendOp::kSend || request.op == SendOp::kSendImmediate ||
                            request.op == SendOp::kWriteImmediate;
    const bool same_life = to.open_now() && to.life == request.to_life;
    if (is_message && request.succeeded && same_life && !request.arrived) {
      stage_.judge.violated(
          fmt::format("message {} succeeded and has not arrived", &request - requests_.data()));
    }
  }
}

}  // namespace weft::worlds
