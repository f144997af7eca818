#include "channel/dormant.h"

#include "channel/endpoint.h"

namespace weft::channel {

DormantOutlet Outlet::sleep() const {
  return {posted_, completed_, signaled_, behind_bell_, room_, bells_};
}
void Outlet::wake(const DormantOutlet& from) {
  posted_ = from.posted, completed_ = from.completed, signaled_ = from.signaled;
  behind_bell_ = from.behind_bell, room_ = from.room, bells_ = from.bells;
}

bool SendHalf::can_sleep() const {
  return settings_.lean && !local_.exists() && local_.phase == settings_.start_phase &&
         rare_ == nullptr && state_ == State::kSteady && !frame_open_ && !last_in_frame_ &&
         !status_wanted_ && !closed_ && !loans_ended_ && rest_ == 0 && lent_number_ == 0 &&
         error_.empty();
}
DormantSend SendHalf::sleep() const {
  return {remote_,
          history_,
          no_growth_until_,
          next_,
          base_,
          consumed_,
          static_cast<std::uint16_t>(local_index_),
          static_cast<std::uint16_t>(remote_index_),
          sequence_,
          frame_work_,
          offers_,
          peer_pulled_,
          peer_left_,
          SleepingFigures(figures_, next_)};
}
void SendHalf::wake(const DormantSend& from) {
  start();
  connect(from.remote);
  history_ = from.history, no_growth_until_ = from.no_growth_until;
  next_ = from.next, base_ = from.base, consumed_ = from.consumed;
  local_index_ = from.local_index, remote_index_ = from.remote_index;
  remote_end_ += std::uint64_t{remote_index_} * remote_.slot_bytes;
  sequence_ = from.sequence, frame_work_ = from.frame_work;
  offers_ = from.offers, peer_pulled_ = from.peer_pulled, peer_left_ = from.peer_left;
  figures_ = from.figures.get(next_);
}

bool ReceiveHalf::can_sleep() const {
  return rare_ == nullptr && deliver_ == scan_ && room_.consumed == scan_ &&
         offset_ == kHeadBytes && !has_steps() && answered_ == 0 && reading_ == 0 && !news_ &&
         !fresh_offers_ && !peer_closed_ && error_.empty() &&
         current_.phase == settings_.start_phase;
}
DormantReceive ReceiveHalf::sleep() const {
  return {peer_slots_, base_, scan_, offers_, pulled_, left_, SleepingFigures(figures_, scan_)};
}
void ReceiveHalf::wake(const DormantReceive& from, const Ring& ring) {
  current_ = ring;
  base_ = from.base, scan_ = deliver_ = from.scan;
  offers_ = from.offers, pulled_ = from.pulled, left_ = from.left;
  figures_ = from.figures.get(scan_);
  resize_frames(ring.slots);
  aim();
}

bool Endpoint::can_sleep() const {
  return mode_ == Mode::kAsleep && !tell_wanted_ && !mode_changed_ && farewell_ == 0 &&
         outlet_.can_sleep() && send_.can_sleep() && receive_.can_sleep();
}
Dormant Endpoint::sleep() const {
  return {peer_control_, peer_key_, wishes_, outlet_.sleep(), send_.sleep(), receive_.sleep()};
}
void Endpoint::wake(const Dormant& from, const Ring& ring) {
  outlet_.wake(from.outlet);
  send_.wake(from.send);
  receive_.wake(from.receive, ring);
  connect_control(from.peer_control, from.peer_key, from.receive.peer_slots);
  wishes_ = from.wishes;
  frames_at_delivery_ = send_.figures().frames;
}

}  // namespace weft::channel
