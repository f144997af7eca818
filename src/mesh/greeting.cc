// How the links of a mesh begin and end.
//
//   A   kAsking   ask(A's rings) ----------------------> B   kGreeted: B has rings for it
//                 <---------------------- welcome(B's rings)
//       kOpen     ready -------------------------------->    kOpen
//
//       kParting  part(what A has consumed) ------------>    quiet, too: B gives all back
//                 <--------------------------------- parted
//       idle                                                 idle
//
// Who asks may lie about its address. So nobody is spoken to before its ready has come, which needs
// what the welcome said to that address; and until then a pair that stands is not touched.
#include <algorithm>
#include <compare>
#include <utility>

#include "base/random.h"
#include "mesh/mesh_object.h"

namespace weft::mesh {
namespace {

/// Greetings of others that are not concluded.
constexpr std::size_t kGreetedMost = 1024;

bool before(const Address& a, const Address& b) {
  return a.gid != b.gid ? a.gid < b.gid : a.qpn < b.qpn;
}

template <class T>
void erase_unordered(std::vector<T*>& list, T* one) {
  const auto at = std::find(list.begin(), list.end(), one);
  if (at == list.end()) return;
  *at = list.back();
  list.pop_back();
}

}  // namespace

std::shared_ptr<Link> MeshObject::make_link(Peer peer, Phase phase) {
  std::uint32_t number = static_cast<std::uint32_t>(links_.size());
  if (!free_numbers_.empty()) number = free_numbers_.back();
  Lane& lane = *lanes_[next_lane_++ % lanes_.size()];
  auto link = std::make_shared<Link>(ground_, lane, peer, peers_[peer].address(),
                                     Mark{number, ++last_serial_, 0},
                                     base::system_random().draw<std::uint64_t>());
  link->phase = phase;
  if (!link->start()) return nullptr;
  if (free_numbers_.empty()) {
    links_.push_back(link);
  } else {
    free_numbers_.pop_back();
    links_[number] = link;
  }
  link->last_event_ns = now_;
  await_answer(*link);
  if (phase == Phase::kGreeted) {
    ++greeted_;
    peers_[peer].greeted = 1;
  }
  return link;
}

void MeshObject::await_answer(Link& link) {
  link.deadline_ns = now_ + options_.greeting_timeout_ns;
  ++waiting_;
}

void MeshObject::stop_waiting(Link& link) {
  if (link.deadline_ns == kNever) return;
  link.deadline_ns = kNever;
  --waiting_;
  if (link.phase != Phase::kGreeted) return;
  --greeted_;
  peers_[link.peer].greeted = 0;
}

// False: there is no memory for it now.
bool MeshObject::greet(Peer peer) {
  const auto link = make_link(peer, Phase::kAsking);
  if (link == nullptr) return false;
  peers_[peer].link = link->mark.link;
  if (!link->send_note(*greeter_, NoteKind::kAsk, address_)) {
    lose(*link, "the queue pair for greetings has failed");
  }
  return true;
}

Link* MeshObject::link_of(const Note& note) {
  if (note.channel >= links_.size()) return nullptr;
  Link* link = links_[note.channel].get();
  if (link == nullptr || link->name() != note.to || link->address() != note.address) return nullptr;
  const bool known = note.kind == NoteKind::kWelcome || note.kind == NoteKind::kRefuse ||
                     link->peer_name() == note.from;
  return known ? link : nullptr;
}

// What begins a pair comes by the queue pair for greetings, all else by that of the pair, in order
// with the rest of it.
void MeshObject::on_note(const Note& note, Qpn source) {
  const bool greeting = note.kind == NoteKind::kAsk || note.kind == NoteKind::kWelcome ||
                        note.kind == NoteKind::kRefuse;
  if (source != (greeting ? note.address.qpn : note.lane)) {
    ++figures_.greetings_refused;
    return;
  }
  if (note.kind == NoteKind::kAsk) return on_ask(note);
  Link* link = link_of(note);
  const auto is = [link](Phase phase) { return link->phase == phase; };
  if (link == nullptr) {
    ++figures_.greetings_refused;
  } else if (note.kind == NoteKind::kWelcome && is(Phase::kAsking)) {
    on_welcome(note);
  } else if (note.kind == NoteKind::kReady && is(Phase::kGreeted)) {
    on_ready(note);
  } else if (note.kind == NoteKind::kRefuse && is(Phase::kAsking)) {
    lose(*link, "the peer has refused: it has no memory, or speaks to no strangers");
  } else if (is(Phase::kAsking) || is(Phase::kGreeted)) {
    ++figures_.greetings_refused;
  } else if (note.kind == NoteKind::kPart) {
    on_part(*link, note);
  } else if (note.kind == NoteKind::kParted && is(Phase::kParting)) {
    ++figures_.parted;
    end(*link);
  } else if (note.kind == NoteKind::kParted && is(Phase::kLeaving)) {
    end(*link);
  } else if (note.kind == NoteKind::kStay && is(Phase::kParting)) {
    stop_waiting(*link);
    link->phase = Phase::kOpen;
    link->last_event_ns = now_;
    if (std::exchange(link->rung, false)) activate(*link);
  } else if (note.kind == NoteKind::kGone) {
    link->send_note(link->lane(), NoteKind::kParted, address_);
    if (is(Phase::kClosing) || is(Phase::kLeaving)) {
      end(*link);
    } else {
      lose(*link, "the peer has closed");
    }
  } else {
    ++figures_.greetings_refused;
  }
}

// Nothing: it is not let in.
std::optional<Peer> MeshObject::caller(const Note& ask) {
  if (ask.address == address_) return std::nullopt;
  const auto known = peers_.find(ask.address);
  if (known) return known;
  if (!options_.accepts_strangers || peers_.size() >= options_.max_peers) return std::nullopt;
  return peers_.add(ask.address);
}

void MeshObject::on_ask(const Note& note) {
  const auto peer = caller(note);
  const bool again = peer && peers_[*peer].greeted != 0;
  if (!peer || (greeted_ >= kGreetedMost && !again)) {
    ++figures_.greetings_refused;
    return refuse(note);
  }
  // This ask replaces the last one, and has the time that was left to it: who asks again and again
  // in another's name does not keep that one from being spoken to.
  Nanoseconds deadline = kNever;
  for (std::uint32_t i = 0; again && i < links_.size(); ++i) {
    if (links_[i] == nullptr || links_[i]->peer != *peer || links_[i]->phase != Phase::kGreeted) {
      continue;
    }
    deadline = links_[i]->deadline_ns;
    end(*links_[i]);
  }
  // Both have asked: one of the two asks is answered.
  const Link* mine = current(*peer);
  if (mine != nullptr && mine->phase == Phase::kAsking && before(address_, note.address)) return;
  const auto link = make_link(*peer, Phase::kGreeted);
  if (link == nullptr) {
    ++figures_.greetings_refused;
    return refuse(note);
  }
  link->deadline_ns = std::min(link->deadline_ns, deadline);
  link->meet(note);
  link->send_note(*greeter_, NoteKind::kWelcome, address_);
}

void MeshObject::refuse(const Note& ask) {
  if (ask.address == address_) return;
  Note note;
  note.kind = NoteKind::kRefuse;
  note.to = ask.from;
  note.address = address_;
  note.channel = ask.hello.channel;
  const auto bytes = note.emit();
  greeter_->submit({.op = SendOp::kSend,
                    .sge = {},
                    .inlined = bytes,
                    .remote = {},
                    .signaled = true,
                    .to = ask.address,
                    .mark = {}});
}

void MeshObject::on_welcome(const Note& note) {
  Link& link = *links_[note.channel];
  link.meet(note);
  stop_waiting(link);
  link.phase = Phase::kOpen;
  link.last_event_ns = now_;
  ++figures_.greeted;
  link.send_note(link.lane(), NoteKind::kReady, address_);
}

void MeshObject::on_ready(const Note& note) {
  Link& link = *links_[note.channel];
  stop_waiting(link);
  if (Link* other = current(link.peer); other != nullptr) {
    const bool stood = other->phase == Phase::kOpen || other->phase == Phase::kClosing;
    if (stood) {
      lose(*other, "the peer has begun anew");
    } else {
      end(*other);
    }
  }
  peers_[link.peer].link = link.mark.link;
  link.phase = Phase::kOpen;
  ++figures_.greeted;
  activate(link);
}

// Both may ask: one of the two is answered.
void MeshObject::on_part(Link& link, const Note& note) {
  if (link.phase == Phase::kParting && before(address_, note.address)) return;
  if (link.phase == Phase::kParting) stop_waiting(link);
  const bool closing = link.phase == Phase::kClosing || link.phase == Phase::kLeaving;
  if (!closing && link.is_quiet() && note.consumed == link.frames_sent()) {
    link.send_note(link.lane(), NoteKind::kParted, address_);
    ++figures_.parted;
    return end(link);
  }
  if (!closing) link.phase = Phase::kOpen;
  link.send_note(link.lane(), NoteKind::kStay, address_);
  if (std::exchange(link.rung, false)) activate(link);
}

void MeshObject::ask_to_part(Link& link) {
  link.phase = Phase::kParting;
  await_answer(link);
  link.send_note(link.lane(), NoteKind::kPart, address_);
}

// All has been taken. Its memory stays until the peer knows that nothing is to be written there.
void MeshObject::leave(Link& link) {
  if (link.endpoint().mode() == channel::Mode::kWatching) --watching_;
  erase_unordered(active_, &link);
  erase_unordered(grown_, &link);
  link.active = link.grown = false;
  link.phase = Phase::kLeaving;
  await_answer(link);
  link.send_note(link.lane(), NoteKind::kGone, address_);
}

// What has arrived can be received even now. Its memory stays until no work can touch it.
void MeshObject::end(Link& link) {
  const std::shared_ptr<Link> kept = links_[link.mark.link];
  if (link.phase == Phase::kOpen) note_ready(link);  // what it still has
  const bool left = link.phase == Phase::kLeaving;
  if (!left && link.endpoint().mode() == channel::Mode::kWatching) --watching_;
  erase_unordered(active_, &link);
  erase_unordered(grown_, &link);
  stop_waiting(link);
  link.active = link.grown = false;
  PeerEntry& entry = peers_[link.peer];
  if (entry.link == link.mark.link) entry.link = kNoLink;
  links_[link.mark.link] = nullptr;
  free_numbers_.push_back(link.mark.link);
  greeter_->drop(link.mark);
  link.end();
  graves_.push_back({kept, link.lane().posted()});
}

void MeshObject::lose(Link& link, std::string why) {
  const Peer peer = link.peer;
  // Who never was a peer is not missed, nor who was left.
  const bool told = link.phase != Phase::kGreeted && link.phase != Phase::kLeaving;
  end(link);
  if (told) ++figures_.lost;
  if (!told || peers_[peer].closed != 0) return;
  peers_[peer].closed = 1;
  closed_.push_back({peer, std::move(why)});
}

}  // namespace weft::mesh
