#include "worlds/posting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/pattern.h"
#include "worlds/link.h"

namespace weft::worlds {
namespace {

constexpr std::uint32_t kMaxUnsignaled = 4;

/// Requests are made with the flag set, as most programs want it.
SendFlags with_signal(SendFlags flags, bool signaled) {
  const auto bit = static_cast<std::uint8_t>(SendFlags::kSignaled);
  const auto others = static_cast<std::uint8_t>(static_cast<std::uint8_t>(flags) & ~bit);
  return static_cast<SendFlags>(signaled ? others | bit : others);
}

}  // namespace

bool peer_serves_rdma(const End& from) {
  const End& to = *from.peer;
  return to.node.spec().cards[to.where.card].kind == verbs::NodeKind::kHost;
}

std::uint32_t draw_length(End& from, std::uint32_t most) {
  sim::Stage& stage = from.stage;
  const std::uint32_t mtu = bytes(from.spec.attributes.path_mtu);
  switch (stage.random.below(8)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return static_cast<std::uint32_t>(stage.between(1, std::min(64u, most)));
    case 3: {
      const std::uint64_t frames = stage.between(1, 1 + most / mtu);
      const std::uint64_t length = frames * mtu + stage.random.below(3) - 1;
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, most));
    }
    default:
      return static_cast<std::uint32_t>(stage.between(1, most));
  }
}

void post(End& from, SendRequest& request, Work work) {
  sim::Stage& stage = from.stage;
  request.wr_id = work.wr_id = stage.next_wr_id++;
  work.op = request.op;
  work.signaled = from.unsignaled >= kMaxUnsignaled || !stage.one_in(3);
  from.unsignaled = work.signaled ? 0 : from.unsignaled + 1;
  request.flags = with_signal(request.flags, work.signaled);
  ++stage.stats.requests;
  stage.trace.posted(from.node.number(), from.qp->number(), request.op, request.wr_id, work.length);
  from.ledger.posted(std::move(work));
  if (auto ok = from.qp->post_send(request); !ok) {
    stage.judge.violated(fmt::format("{}: post_send of #{} ({}): {}", from.name(), request.wr_id,
                                     to_string(request.op), ok.error().message));
  }
  from.node.stir();
}

std::vector<Sge> gather(End& from, Work& work, std::span<const std::byte> content) {
  sim::Stage& stage = from.stage;
  const std::uint64_t elements = stage.between(1, from.spec.limits.max_send_sge);
  std::uint64_t room = from.outbox.bytes_each - content.size();
  std::uint64_t at = from.outbox.at(work.outbox_slot);
  std::vector<Sge> sges;
  for (std::uint64_t i = 1; i <= elements; ++i) {
    const std::uint64_t gap = stage.random.below(room / elements + 1);
    at += gap, room -= gap;
    const std::size_t n = i == elements ? content.size() : stage.random.below(content.size() + 1);
    from.process().shadow.store(at, content.first(n));
    sges.push_back(from.outbox.sge(at, static_cast<std::uint32_t>(n)));
    content = content.subspan(n);
    at += n;
  }
  return sges;
}

std::vector<Sge> land(End& from, Work& work) {
  const std::uint64_t at = from.landing.at(work.landing_slot);
  work.landing_grant = from.process().shadow.grant(at, work.length);
  const std::uint32_t first =
      from.spec.limits.max_send_sge > 1
          ? static_cast<std::uint32_t>(from.stage.random.below(work.length + 1))
          : work.length;
  std::vector<Sge> sges{from.landing.sge(at, first)};
  if (first < work.length) sges.push_back(from.landing.sge(at + first, work.length - first));
  return sges;
}

void post_signaled_end(End& from) {
  from.unsignaled = kMaxUnsignaled;
  SendRequest request;
  request.op = SendOp::kDelay;
  post(from, request, {});
}

}  // namespace weft::worlds
