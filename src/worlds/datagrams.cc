#include "worlds/datagrams.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/pattern.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::worlds {
namespace {

constexpr std::uint32_t kSlots = 8;
constexpr std::uint32_t kBuffers = 16;
constexpr std::uint32_t kGrhBytes = wire::kGrhSize;

/// Source and destination from the 40 bytes in front of a datagram, in either form.
std::optional<std::pair<Gid, Gid>> addresses_in(std::span<const std::byte> grh) {
  if (std::to_integer<unsigned>(grh[0]) >> 4 == 6) {
    const auto ip = wire::Ipv6::parse(grh);
    if (!ip) return {};
    return std::pair(ip->source, ip->destination);
  }
  const auto ip = wire::Ipv4::parse(grh.subspan(kGrhBytes - wire::Ipv4::kSize));
  if (!ip) return {};
  return std::pair(ip->source_gid(), ip->destination_gid());
}

}  // namespace

Datagrams::Member::Member(Datagrams& o, Node& n, const EndSpec& w, std::size_t i)
    : owner(o), node(n), where(w), index(i), qkey(o.stage_.random.draw<std::uint32_t>()) {}

void Datagrams::Member::open() {
  sim::Stage& stage = owner.stage_;
  Process& home = process();
  outbox.bytes_each = bytes(owner.spec_.mtu);
  outbox.busy.assign(kSlots, false);
  outbox.ea = home.shadow.allocate(outbox.bytes_each * kSlots);
  outbox.region.emplace(home.domains[where.card]
                            .register_range(outbox.ea, outbox.bytes_each * kSlots, Access::kNone)
                            .value());
  receives = std::make_unique<ReceiveBuffers>(stage, home, where.card, kBuffers,
                                              kGrhBytes + bytes(owner.spec_.mtu), 3);
  verbs::QueuePairOptions options;
  options.service = Service::kUnreliableDatagram;
  qp.emplace(home.domains[where.card]
                 .create_queue_pair(node.completion_queue(where.card, where.send_queue),
                                    node.completion_queue(where.card, where.receive_queue), options)
                 .value());
  node.set_handler(where.card, qp->number(), this);
  home.vmm.open_queue_pair({qp->number(), kSlots, 2});
  QueuePairAttributes attributes;
  attributes.port = where.port;
  attributes.path_mtu = owner.spec_.mtu;
  if (auto ok = qp->activate(qkey, attributes); !ok) {
    stage.judge.violated("activate: " + ok.error().message);
  }
  auto& mine = owner.senders_[{address(), qp->number()}];
  mine = std::make_unique<Sender>(Sender{stage.random.next(), {}});
  sender = mine.get();
  refill();
}

void Datagrams::Member::close() {
  if (!qp) return;
  const Qpn number = qp->number();
  qp.reset();
  node.set_handler(where.card, number, nullptr);
  process().vmm.close_queue_pair(number);
  receives->abandon();
  receives.reset();
  outbox.region.reset();
  ledger.abandon();
}

void Datagrams::Member::refill() {
  receives->post(kBuffers, [this](const ReceiveRequest& r) { return qp->post_receive(r); });
}

void Datagrams::Member::on_completion(const Completion& completion) {
  sim::Judge& judge = owner.stage_.judge;
  if (!completion.ok()) {
    return judge.violated(fmt::format("node {}: datagram queue pair {:#x}: \"{}\" is not explained",
                                      node.number(), completion.qpn.value,
                                      to_string(completion.status)));
  }
  if ((completion.wr_id & kReceiveMark) == 0) {
    std::string wrong;
    for (Work& work : ledger.completed(completion.wr_id, &wrong)) {
      outbox.give_back(work.outbox_slot);
    }
    if (!wrong.empty()) judge.violated(wrong);
    return;
  }
  const auto* buffer = receives->completed(completion.wr_id);
  if (buffer == nullptr) return judge.violated("a datagram came in a buffer that is not posted");
  on_datagram(completion, *buffer);
  refill();
}

void Datagrams::Member::on_datagram(const Completion& completion,
                                    const ReceiveBuffers::Buffer& buffer) {
  sim::Stage& stage = owner.stage_;
  const auto all = receives->content(buffer, completion.byte_count);
  const auto ways = all.size() >= kGrhBytes ? addresses_in(all) : std::nullopt;
  if (!ways || ways->second != address()) {
    return stage.judge.violated("a datagram's global header does not name the receiver");
  }
  const auto found = owner.senders_.find({ways->first, completion.source_qp});
  if (found == owner.senders_.end()) {
    return stage.judge.violated("a datagram came from a queue pair that never was");
  }
  const auto body = std::span(all).subspan(kGrhBytes);
  const std::uint64_t sequence =
      completion.has_immediate ? completion.immediate : sim::sequence_in(body);
  Sender& from = *found->second;
  if (sequence >= from.sent.size() || from.sent[sequence].to != index ||
      from.sent[sequence].length != body.size() ||
      from.sent[sequence].immediate != completion.has_immediate) {
    return stage.judge.violated(
        fmt::format("datagram {} of {} bytes was not sent like this", sequence, body.size()));
  }
  Sent& sent = from.sent[sequence];
  if (!sent.right_key) {
    return stage.judge.violated(fmt::format("datagram {} came in with a wrong Q_Key", sequence));
  }
  if (++sent.arrivals > 1 && stage.stats.duplicated == 0) {
    return stage.judge.violated(fmt::format("datagram {} came twice", sequence));
  }
  std::vector<std::byte> wanted(body.size());
  sim::fill_message(from.key, sequence, wanted);
  if (!std::ranges::equal(wanted, body)) {
    return stage.judge.violated(fmt::format("datagram {} has changed on the way", sequence));
  }
  ++stage.stats.datagrams;
  stage.stats.bytes_verified += body.size();
}

Datagrams::Datagrams(sim::Stage& stage, const DatagramSpec& spec,
                     const std::vector<std::unique_ptr<Node>>& nodes)
    : stage_(stage), spec_(spec), requests_left_(spec.requests) {
  for (const EndSpec& where : spec_.members) {
    members_.push_back(std::make_unique<Member>(*this, *nodes[where.node], where, members_.size()));
  }
}

Datagrams::~Datagrams() = default;

void Datagrams::start() {
  if (members_.size() < 2) {
    closed_ = true;
    return;
  }
  stage_.after(0, *this, 0);
}

void Datagrams::on_crash(const Node& node) {
  for (const auto& member : members_) {
    if (&member->node == &node) member->close();
  }
}

void Datagrams::on_event(std::uint64_t) {
  if (requests_left_ == 0) {
    for (const auto& member : members_) {
      if (member->open_now()) member->node.drain(member->where.card);
      member->close();
    }
    closed_ = true;
    return;
  }
  for (const auto& member : members_) {
    if (!member->open_now() && member->node.up()) member->open();
  }
  Member& from = *members_[stage_.random.below(members_.size())];
  for (std::uint64_t burst = stage_.between(1, 4); burst > 0; --burst) {
    if (from.open_now() && requests_left_ > 0) send(from);
  }
  if (requests_left_ > 0) --requests_left_;
  // The last ones get time to arrive.
  stage_.after(requests_left_ == 0 ? 1'000'000 : stage_.random.below(spec_.pause_ns) + 1, *this, 0);
}

void Datagrams::send(Member& from) {
  const std::size_t to = stage_.random.below(members_.size());
  const Member& target = *members_[to];
  Work work;
  if (!target.open_now()) return;
  work.outbox_slot = from.outbox.take();
  if (work.outbox_slot < 0) return;
  Sent sent;
  sent.to = to;
  sent.arrivals = 0;
  sent.immediate = stage_.one_in(2);
  sent.right_key = !stage_.one_in(8);
  sent.length = static_cast<std::uint32_t>(
      stage_.between(sent.immediate ? 0 : sizeof(std::uint64_t), bytes(spec_.mtu)));
  const std::uint64_t sequence = from.sender->sent.size();
  from.sender->sent.push_back(sent);
  std::vector<std::byte> content(sent.length);
  sim::fill_message(from.sender->key, sequence, content);
  const std::uint64_t at = from.outbox.at(work.outbox_slot);
  from.process().shadow.store(at, content);
  const Sge sge = from.outbox.sge(at, sent.length);
  SendRequest request;
  request.op = sent.immediate ? SendOp::kSendImmediate : SendOp::kSend;
  request.wr_id = work.wr_id = stage_.next_wr_id++;
  request.sges = {&sge, 1};
  request.immediate = static_cast<std::uint32_t>(sequence);
  request.destination.gid = target.address();
  request.destination_qpn = target.qp->number();
  request.destination_qkey = QKey(target.qkey.value + (sent.right_key ? 0 : 1));
  work.op = request.op;
  work.length = sent.length;
  ++stage_.stats.requests;
  stage_.trace.posted(from.node.number(), from.qp->number(), request.op, request.wr_id,
                      work.length);
  from.ledger.posted(std::move(work));
  if (auto ok = from.qp->post_send(request); !ok) {
    stage_.judge.violated("datagram: post_send: " + ok.error().message);
  }
  from.node.stir();
}

}  // namespace weft::worlds
