#include <algorithm>

#include "cm/manager.h"

// The end of a connection reaches its program behind the messages that the connection brought. On a
// network a disconnect comes long after them; on one host it is as fast as they are, and a program
// that destroys its queue pair at that news, before it has looked for messages, would lose the
// last ones (libfabric's verbs provider is such a program).
namespace weft::cm {
namespace {

/// A program that fetches nothing for so long is not going to.
constexpr Nanoseconds kPatience_ns = 100'000'000;
constexpr Nanoseconds kFirstLook_ns = 1'000'000;

}  // namespace

void Manager::report(Identifier& id, const Event& event, Nanoseconds now, Actions& out) {
  const bool ends = event.kind == Event::Kind::kDisconnected && !id.ended_here;
  if (id.held.empty() && !(ends && has_unfetched(id))) {
    out.push_back(Notify{id.handle, event});
    return;
  }
  const bool first = id.held.empty();
  id.held.push_back(event);
  if (!first) return;
  id.held_since = now;
  arm(id.held_since + kFirstLook_ns);
}

bool Manager::has_unfetched(const Identifier& id) {
  return devices_.has_unfetched(id.local_gid, id.local_qpn);
}

Nanoseconds Manager::release_held(Identifier& id, Nanoseconds now, Actions& out) {
  const Nanoseconds waited = now - id.held_since;
  if (waited >= kPatience_ns || !has_unfetched(id)) {
    tell_held(id, out);
    return kNever;
  }
  // Less and less often: there may be thousands of such connections.
  return std::min(now + std::max(waited, kFirstLook_ns), id.held_since + kPatience_ns);
}

void Manager::tell_held(Identifier& id, Actions& out) {
  for (const Event& event : id.held) out.push_back(Notify{id.handle, event});
  id.held.clear();
}

}  // namespace weft::cm
