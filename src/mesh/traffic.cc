// Messages of a mesh, and how it ends its pairs by itself.
#include <algorithm>
#include <utility>

#include "mesh/mesh_object.h"

namespace weft::mesh {

Result<std::size_t> MeshObject::try_send(Peer to, std::span<const std::byte> message) {
  if (!peers_.has(to)) return fail(Errc::kNotFound, "to: is not in the table");
  if (message.empty()) return fail(Errc::kInvalidArgument, "message: is empty");
  const PeerEntry& entry = peers_[to];
  if (entry.closed != 0) return fail(Errc::kInvalidState, "the peer was closed: see take_closed()");
  Link* link = current(to);
  if (link == nullptr) {
    poll();  // it may have asked meanwhile
    const bool nothing_yet = entry.link == kNoLink && entry.closed == 0 && entry.greeted == 0;
    if (nothing_yet && !greet(to)) starved_ = true;
    return 0;
  }
  if (link->phase == Phase::kClosing || link->phase == Phase::kLeaving) {
    return fail(Errc::kInvalidState, "the peer is being closed");
  }
  if (link->phase != Phase::kOpen) {
    poll();
    return 0;
  }
  const iovec element{const_cast<std::byte*>(message.data()), message.size()};
  channel::Endpoint& endpoint = link->endpoint();
  const std::uint64_t rest = endpoint.send().rest_bytes();
  if (rest != 0 && message.size() > rest) {
    return fail(Errc::kInvalidArgument, "message: the rest of the message before it is missing");
  }
  const std::size_t taken = endpoint.take({&element, 1}, 0, now_);
  link->last_event_ns = now_;
  if (taken == message.size()) {
    if (endpoint.unnotified() || endpoint.busy()) activate(*link);
    return taken;
  }
  link->blocked = true;
  activate(*link);
  if (taken == 0) poll();
  return taken;
}

Result<void> MeshObject::send(Peer to, std::span<const std::byte> message, Deadline deadline) {
  for (;;) {
    auto taken = try_send(to, message);
    if (!taken) return tl::unexpected(std::move(taken.error()));
    message = message.subspan(*taken);
    if (message.empty()) return {};
    if (*taken > 0) continue;
    if (std::chrono::steady_clock::now() >= deadline) {
      if (take_back_lent(to)) return {};  // it was read in the last moment
      return fail(Errc::kTimedOut, "the message could not be sent in time");
    }
    wait(deadline);
  }
}

// The memory is the caller's again when its call ends. True: the peer has read all of it.
bool MeshObject::take_back_lent(Peer to) {
  Link* link = current(to);
  const std::uint32_t loan = link != nullptr ? link->endpoint().send().lent_by_take() : 0;
  if (loan == 0) return false;
  channel::Endpoint& endpoint = link->endpoint();
  endpoint.recall(loan);
  if (!endpoint.send().loan_done(loan)) endpoint.revoke(loan);
  return !endpoint.was_left(loan) && endpoint.send().rest_bytes() == 0;
}

std::optional<Message> MeshObject::try_receive() {
  for (bool polled = false;; polled = true) {
    while (!ready_.empty()) {
      const std::shared_ptr<Link> link = std::move(ready_.front());
      ready_.pop_front();
      auto incoming = link->endpoint().look();
      if (!incoming) {
        link->ready = false;
        if (link->phase != Phase::kEnded && link->endpoint().failed()) {
          lose(*link, std::string(link->endpoint().error()));
        }
        continue;
      }
      ++link->views;
      link->last_event_ns = now_;
      ready_.push_back(link);
      if (!link->active && link->phase == Phase::kOpen) activate(*link);
      return Message(link, link->peer, {incoming->data, incoming->length}, incoming->frame,
                     incoming->region.handle);
    }
    if (polled) return std::nullopt;
    poll();
  }
}

std::vector<Closed> MeshObject::take_closed() {
  for (const Closed& one : closed_) peers_[one.peer].closed = 0;
  return std::exchange(closed_, {});
}

bool MeshObject::close_step(Peer peer) {
  Link* link = current(peer);
  if (link == nullptr) return true;
  if (link->phase == Phase::kOpen) {
    link->phase = Phase::kClosing;
    link->blocked = true;
    activate(*link);
  }
  if (link->phase == Phase::kAsking) {
    close_now(peer);
    return true;
  }
  if (link->phase == Phase::kClosing && link->endpoint().finish(false)) leave(*link);
  return false;
}

void MeshObject::close_now(Peer peer) {
  Link* link = current(peer);
  if (link == nullptr) return;
  if (link->phase != Phase::kAsking && link->phase != Phase::kLeaving) {
    link->send_note(link->lane(), NoteKind::kGone, address_);
  }
  end(*link);
}

bool MeshObject::has_said_all() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return lane->is_through(); });
}

Result<void> MeshObject::close(const std::vector<Peer>& peers, Deadline deadline) {
  std::vector<Peer> left = peers;
  for (;;) {
    poll();
    std::erase_if(left, [this](Peer peer) { return close_step(peer); });
    if (left.empty() && has_said_all()) return {};
    if (std::chrono::steady_clock::now() >= deadline) break;
    wait(deadline);
  }
  for (const Peer peer : left) close_now(peer);
  return fail(Errc::kTimedOut, "not all of what was sent was taken in time");
}

}  // namespace weft::mesh
