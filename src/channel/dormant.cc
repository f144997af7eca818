#include "channel/dormant.h"

#include "channel/endpoint.h"

namespace weft::channel {

void Dormant::keep(const DormantRest& rest) {
  bells_ = static_cast<std::uint32_t>(rest.bells);
  messages_sent_ = static_cast<std::uint32_t>(rest.sent.messages);
  bytes_sent_ = static_cast<std::uint32_t>(rest.sent.bytes);
  messages_received_ = static_cast<std::uint32_t>(rest.received.messages);
  bytes_received_ = static_cast<std::uint32_t>(rest.received.bytes);
  if (usual() != rest) rest_ = std::make_unique<DormantRest>(rest);
}

// Sequences count frames too, as far as they go.
DormantRest Dormant::usual() const {
  DormantRest rest;
  rest.bells = bells_;
  rest.sent.messages = messages_sent_, rest.sent.bytes = bytes_sent_, rest.sent.frames = next;
  rest.received.messages = messages_received_, rest.received.bytes = bytes_received_;
  rest.received.frames = scan;
  return rest;
}

bool Outlet::can_be_dormant() const { return !failed_ && !unnotified_ && signaled_ == completed_; }
void Outlet::sleep(Dormant& to, DormantRest& rest) const {
  to.posted = posted_, to.completed = completed_, to.told = room_.told;
  to.behind_bell = behind_bell_;
  rest.bells = bells_;
}
void Outlet::wake(const Dormant& from, const DormantRest& rest) {
  posted_ = from.posted, completed_ = signaled_ = from.completed;
  room_ = {from.scan, from.told};
  behind_bell_ = from.behind_bell;
  bells_ = rest.bells;
}

bool SendHalf::can_be_dormant() const {
  return settings_.lean && !local_.exists() && local_.phase == settings_.start_phase &&
         local_.slots <= kSlotsMost && remote_.slots <= kSlotsMost && cold_ == nullptr &&
         state_ == State::kSteady && !frame_open_ && !last_in_frame_ && !status_wanted_ &&
         !closed_ && !loans_ended_ && rest_ == 0 && lent_number_ == 0 && error_.empty();
}
void SendHalf::sleep(Dormant& to, DormantRest& rest) const {
  to.remote_address = remote_.address, to.remote_key = remote_.key;
  to.remote_slots_1 = static_cast<std::uint8_t>(remote_.slots - 1);
  to.remote_slot_words = static_cast<std::uint16_t>(remote_.slot_bytes / 8);
  to.next = next_, to.send_base = base_, to.consumed = consumed_;
  to.local_index = static_cast<std::uint8_t>(local_index_);
  to.remote_index = static_cast<std::uint8_t>(remote_index_);
  to.sequence = sequence_, to.frame_work = frame_work_;
  rest.history = history_, rest.no_growth_until = no_growth_until_;
  rest.offers = offers_, rest.peer_pulled = peer_pulled_, rest.peer_left = peer_left_;
  rest.sent = figures_;
}
void SendHalf::wake(const Dormant& from, const DormantRest& rest) {
  start();
  connect({from.remote_address, from.remote_key, from.remote_slots_1 + 1u,
           from.remote_slot_words * 8u});
  history_ = rest.history, no_growth_until_ = rest.no_growth_until;
  next_ = from.next, base_ = from.send_base, consumed_ = from.consumed;
  local_index_ = from.local_index, remote_index_ = from.remote_index;
  remote_end_ += std::uint64_t{remote_index_} * remote_.slot_bytes;
  sequence_ = from.sequence, frame_work_ = from.frame_work;
  offers_ = rest.offers, peer_pulled_ = rest.peer_pulled, peer_left_ = rest.peer_left;
  figures_ = rest.sent;
}

bool ReceiveHalf::can_be_dormant() const {
  return cold_ == nullptr && deliver_ == scan_ && room_.consumed == scan_ &&
         offset_ == kHeadBytes && !has_steps() && answered_ == 0 && reading_ == 0 && !news_ &&
         !fresh_offers_ && !peer_closed_ && error_.empty() && peer_.slots <= kSlotsMost &&
         current_.phase == settings_.start_phase;
}
void ReceiveHalf::sleep(Dormant& to, DormantRest& rest) const {
  to.peer_channel = peer_.channel;
  to.peer_slots_1 = static_cast<std::uint8_t>(peer_.slots - 1);
  to.receive_base = base_, to.scan = scan_;
  rest.offered = offers_, rest.pulled = pulled_, rest.left = left_;
  rest.received = figures_;
}
void ReceiveHalf::wake(const Dormant& from, const DormantRest& rest, const Ring& ring) {
  current_ = ring;
  base_ = from.receive_base, scan_ = deliver_ = from.scan;
  offers_ = rest.offered, pulled_ = rest.pulled, left_ = rest.left;
  figures_ = rest.received;
  resize_frames(ring.slots);
  aim();
}

bool Endpoint::can_be_dormant() const {
  return mode_ == Mode::kAsleep && !status_due_ && !mode_changed_ && end_confirmation_ == 0 &&
         outlet_.can_be_dormant() && send_.can_be_dormant() && receive_.can_be_dormant();
}
Dormant Endpoint::sleep() const {
  Dormant dormant;
  DormantRest rest;
  dormant.peer_control = peer_control_, dormant.peer_key = peer_key_;
  dormant.wishes = static_cast<std::uint8_t>(wishes_);
  outlet_.sleep(dormant, rest);
  send_.sleep(dormant, rest);
  receive_.sleep(dormant, rest);
  dormant.keep(rest);
  return dormant;
}
void Endpoint::wake(const Dormant& from, const Ring& ring) {
  const DormantRest rest = from.rest();
  outlet_.wake(from, rest);
  send_.wake(from, rest);
  receive_.wake(from, rest, ring);
  connect_control(from.peer_control, from.peer_key, {from.peer_channel, from.peer_slots_1 + 1u});
  wishes_ = from.wishes;
  frames_at_delivery_ = send_.figures().frames;
}

}  // namespace weft::channel
