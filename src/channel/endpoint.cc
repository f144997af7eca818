#include "channel/endpoint.h"

#include <algorithm>
#include <utility>

namespace weft::channel {
namespace {

constexpr std::uint32_t kMagic = 0x57434835;  // "WCH5"

}  // namespace

void Hello::emit(std::span<std::byte, kBytes> to) const {
  store(&to[0], kMagic);
  store(&to[4], control_key.value);
  store(&to[8], control);
  store(&to[16], ring.address);
  store(&to[24], ring.key.value);
  store(&to[28], ring.slots);
  store(&to[32], ring.slot_bytes);
  store(&to[36], send_slots);
  store(&to[40], std::uint32_t{lets_identifier_go});
  store(&to[44], channel);
}

std::optional<Hello> Hello::parse(std::span<const std::byte> from) {
  if (from.size() < kBytes || load<std::uint32_t>(&from[0]) != kMagic) return std::nullopt;
  Hello hello;
  hello.control_key = RemoteKey(load<std::uint32_t>(&from[4]));
  hello.control = load<std::uint64_t>(&from[8]);
  hello.ring.address = load<std::uint64_t>(&from[16]);
  hello.ring.key = RemoteKey(load<std::uint32_t>(&from[24]));
  hello.ring.slots = load<std::uint32_t>(&from[28]);
  hello.ring.slot_bytes = load<std::uint32_t>(&from[32]);
  hello.send_slots = load<std::uint32_t>(&from[36]);
  hello.lets_identifier_go = load<std::uint32_t>(&from[40]) == 1;
  hello.channel = load<std::uint32_t>(&from[44]);
  if (hello.send_slots < kSlotsLeast || hello.send_slots > kSlotsMost || hello.control == 0 ||
      hello.control % 8 != 0 || hello.ring.address == 0 || hello.ring.address % 8 != 0 ||
      hello.ring.slots < kSlotsLeast || hello.ring.slots > kSlotsMost ||
      hello.ring.slot_bytes % 8 != 0 || hello.ring.slot_bytes < slot_bytes_of(100) ||
      hello.ring.slot_bytes > slot_bytes_of(200'000)) {
    return std::nullopt;
  }
  return hello;
}

void Endpoint::connect(const Hello& peer) {
  send_.connect(peer.ring);
  connect_control(peer.control, peer.control_key, {peer.channel, peer.send_slots});
}

void Endpoint::connect_control(std::uint64_t control, RemoteKey key, const PeerShape& peer) {
  peer_control_ = control;
  peer_key_ = key;
  receive_.connect(control, key, peer);
}

bool Endpoint::scan() {
  std::uint32_t consumed = 0;
  if (!receive_.scan(consumed)) return false;
  send_.note_consumed(consumed);
  return true;
}

void Endpoint::send_status() {
  if (send_.wants_status()) status_due_ = true;
  if (!status_due_ || !outlet_.has_room() || failed()) return;
  const Status status{.consumed = receive_.consumed(),
                      .mode = static_cast<std::uint32_t>(mode_),
                      .pulled = receive_.pulled(),
                      .left = receive_.left(),
                      .repeat = send_.sequence(),
                      .recalled = send_.recalled_offers(),
                      .wishes = wishes_};
  Work work = outlet_.writing(status, kStatusStage);
  work.remote = peer_control_ + kStatusOffset;
  work.remote_key = peer_key_;
  work.bell = send_.wants_status();
  // A peer that leaves may be gone as soon as it knows: nothing that is sent later tells whether
  // this has arrived.
  const bool confirms_end = receive_.at_end() && status.consumed == receive_.scanned();
  work.signaled = confirms_end;
  if (status.consumed != outlet_.room().told || receive_.has_news()) {
    outlet_.post_room(std::move(work));
  } else {
    outlet_.post(std::move(work));  // only a mode, or a wish: nobody waits for it
  }
  if (confirms_end && end_confirmation_ == 0) end_confirmation_ = outlet_.posted();
  outlet_.room().told = status.consumed;
  receive_.news_told();
  status_due_ = mode_changed_ = false;
  send_.status_told();
}

void Endpoint::progress(Nanoseconds now) {
  if (failed()) return;
  receive_.start_pulls();
  scan();
  send_.progress(now);
  receive_.progress(watch32(control_ + kStatusOffset + offsetof(Status, repeat)), now);
  send_owed_status();
  if (send_.wants_status()) send_status();
  notify_if_missed();
}

// The frame, then the mode; at the peer the mode, then the frame: with a fence between, one of the
// two sees the other's. (Where a network interface does the writing, later rounds look again, and
// who stops looking rings first.)
void Endpoint::notify_if_missed() {
  if (!outlet_.unnotified()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (outlet_.peer_mode() != Mode::kWatching) notify();
}

void Endpoint::on_done(std::uint32_t number) {
  if (!outlet_.on_done(number)) return;
  if (receive_.on_read_done(number)) note_progress();
  settle_down();
}

void Endpoint::settle_down() {
  if (mode_ != Mode::kAsleep) return;
  if (send_.keeps_ring_in_vain()) probe();  // its completion says that the ring is unused
  send_.rest();
  receive_.rest();
}

void Endpoint::set_mode(Mode mode) {
  if (mode == mode_) return settle_down();
  mode_ = mode;
  status_due_ = mode_changed_ = true;
  send_status();
  settle_down();
}

void Endpoint::wish_smaller(bool wish) {
  const std::uint32_t wishes = wish ? kWishSmaller : 0;
  if (wishes == wishes_) return;
  wishes_ = wishes;
  status_due_ = mode_changed_ = true;
  send_status();
}

void Endpoint::notify() {
  if (!outlet_.has_room() || failed()) return;
  outlet_.notified();
  outlet_.post({.remote = peer_control_ + kStatusOffset, .remote_key = peer_key_, .bell = true});
}

std::uint32_t Endpoint::probe() {
  if (outlet_.awaits() || !outlet_.has_room() || failed()) return 0;
  return outlet_.post(
      {.remote = peer_control_ + kStatusOffset, .remote_key = peer_key_, .signaled = true});
}

bool Endpoint::confirm_end() {
  if (!receive_.at_end() || receive_.consumed() != receive_.scanned()) return false;
  if (outlet_.room().told != receive_.consumed()) {
    status_due_ = true;
    send_status();
    return false;
  }
  if (end_confirmation_ == 0) end_confirmation_ = probe();
  return end_confirmation_ != 0 && outlet_.done(end_confirmation_);
}

std::string_view Endpoint::error() const {
  if (!send_.error().empty()) return send_.error();
  if (!receive_.error().empty()) return receive_.error();
  return failed() ? "the queue pair has failed" : std::string_view{};
}

}  // namespace weft::channel
