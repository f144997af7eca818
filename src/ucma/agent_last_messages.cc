#include <algorithm>

#include "ucma/agent.h"
#include "ucma/clock.h"
#include "verbs/process.h"

// The end of a connection reaches its program behind the messages that the connection brought. On a
// network a disconnect comes long after them; on one host it is as fast as they are, and a program
// that destroys its queue pair at that news, before it has looked for messages, would lose the
// last ones (libfabric's verbs provider is such a program).
namespace weft::ucma {
namespace {

/// A program that fetches nothing for so long is not going to.
constexpr Nanoseconds kPatience_ns = 100'000'000;
constexpr Nanoseconds kFirstLook_ns = 1'000'000;

}  // namespace

void Agent::report(Identifier& id, const cm::Event& event) {
  const bool ends = event.kind == cm::Event::Kind::kDisconnected && !id.ended_here;
  if (id.held.empty() && !(ends && has_unfetched(id))) return post(id, make_event(id, event));
  const bool first = id.held.empty();
  id.held.push_back(event);
  if (!first) return;
  id.held_since = now();
  arm(id.held_since + kFirstLook_ns);
}

bool Agent::has_unfetched(const Identifier& id) {
  const auto table = verbs::process_environment().directory->find(id.local_gid, id.local_qpn);
  return table != nullptr && table->has_unfetched(id.local_qpn);
}

Nanoseconds Agent::release_held(Identifier& id, Nanoseconds now) {
  const Nanoseconds waited = now - id.held_since;
  if (waited >= kPatience_ns || !has_unfetched(id)) {
    post_held(id);
    return kNever;
  }
  // Less and less often: there may be thousands of such connections.
  return std::min(now + std::max(waited, kFirstLook_ns), id.held_since + kPatience_ns);
}

void Agent::post_held(Identifier& id) {
  for (const cm::Event& event : id.held) post(id, make_event(id, event));
  id.held.clear();
}

}  // namespace weft::ucma
