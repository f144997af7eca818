#include "mad/agents.h"

#include <mutex>

#include "base/assert.h"

namespace weft::mad {

Agents::Entry* Agents::find_entry(Class of, const std::optional<Gid>& port) {
  for (std::size_t i = 0; i < count_.load(std::memory_order_relaxed); ++i) {
    if (entries_[i].of == of && entries_[i].port == port) return &entries_[i];
  }
  return nullptr;
}

void Agents::set(Class of, Agent& agent, const std::optional<Gid>& port) {
  const std::lock_guard guard(lock_);
  if (Entry* const known = find_entry(of, port); known != nullptr) {
    known->agent.store(&agent, std::memory_order_release);  // pairs with find(): the agent is made
    return;
  }
  const std::size_t next = count_.load(std::memory_order_relaxed);
  WEFT_ASSERT(next < kMost);
  entries_[next].of = of;
  entries_[next].port = port;
  entries_[next].agent.store(&agent, std::memory_order_relaxed);
  count_.store(next + 1, std::memory_order_release);
}

Agent* Agents::find(Class of, const Gid& port) const {
  Agent* of_any_port = nullptr;
  const std::size_t count = count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    const Entry& entry = entries_[i];
    if (entry.of != of) continue;
    if (entry.port == port) return entry.agent.load(std::memory_order_acquire);
    if (!entry.port) of_any_port = entry.agent.load(std::memory_order_acquire);
  }
  return of_any_port;
}

}  // namespace weft::mad
