// The public handles of channel and message.
#include "weft/channel.h"

#include <sched.h>

#include <utility>

#include "base/bulk_copy.h"
#include "channel/channel_object.h"
#include "channel/context_object.h"

namespace weft::channel {

namespace {

constexpr Nanoseconds kLingerNs = 1'000'000'000;
/// How long a peer that is at work has to heed a recall.
constexpr std::chrono::milliseconds kRecallTime{10};
/// Looks at memory in one call, while few channels are looked at and nothing else is to be done,
/// and otherwise. What is between two calls is as long as some hundred looks.
constexpr std::uint32_t kLooksOfFew = 256, kLooksOfMany = 8;
/// What a call counts as that finds nothing: as one that looks a few times.
constexpr std::uint32_t kVainOfFew = 3, kVainOfMany = 1;
/// So much between two rounds for all.
constexpr std::uint32_t kVainPerRound = 256, kVainPerBusyRound = 64;
/// A peer that is at work answers within a microsecond: so long the call that asks it looks. Small
/// messages that follow meet less of the growth.
constexpr std::uint32_t kLooksForAnswer = 48;
/// What a send that finds no room counts as.
constexpr std::uint32_t kVainPerTry = 8;
/// Messages that are received between two rounds for all.
constexpr std::uint32_t kTakesPerRound = 256;

tl::unexpected<Error> lost(const ChannelObject& channel) {
  if (channel.life() == Life::kConnecting) {
    return fail(Errc::kInvalidState, "the channel is not connected yet");
  }
  std::string why = channel.statistics().error;
  return fail(Errc::kInvalidState, why.empty() ? std::string("the channel is closed") : why);
}

iovec as_iovec(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// To look for this channel's messages and do nothing else.
bool has_time(ChannelObject& channel, const Endpoint& endpoint) {
  return channel.context().watches_few() && endpoint.has_time();
}

}  // namespace

Message& Message::operator=(Message&& other) noexcept {
  release();
  channel_ = std::exchange(other.channel_, nullptr);
  bytes_ = other.bytes_, frame_ = other.frame_, region_ = other.region_;
  return *this;
}

void Message::release() {
  if (channel_ == nullptr) return;
  std::shared_ptr<ChannelObject> last;  // destroyed without the lock
  const std::lock_guard guard(channel_->context().lock());
  channel_->take_back(bytes_, frame_, region_);
  channel_->took_back();
  if (--channel_->views == 0 && channel_->kept) last = channel_->context().take_kept(*channel_);
  channel_ = nullptr;
}

void Channel::let_go() {
  if (object_ == nullptr) return;
  held_.reset();
  bool linger = false;
  {
    const std::lock_guard guard(object_->context().lock());
    linger = object_->life() == Life::kOpen && !object_->context().abandoned();
    if (linger) object_->context().linger(object_, kLingerNs);
  }
  if (!linger) static_cast<void>(close(in({})));
  const std::lock_guard guard(object_->context().lock());
  if (object_->views > 0 && !object_->kept) object_->context().keep_for_views(object_);
}

Channel& Channel::operator=(Channel&& other) noexcept {
  let_go();
  object_ = std::move(other.object_);
  held_ = std::move(other.held_);
  return *this;
}

Channel::~Channel() { let_go(); }

Result<std::size_t> Channel::try_send(std::span<const iovec> message, std::size_t size_hint) {
  ChannelObject& channel = *object_;
  if (message.size() == 1) {
    const std::lock_guard guard(channel.context().lock());
    if (channel.life() == Life::kOpen && channel.endpoint().fast_take(message[0])) [[likely]] {
      if (channel.endpoint().has_steps_behind()) [[unlikely]]
        channel.endpoint().step_behind(channel.context().now());
      channel.sent();
      return message[0].iov_len;
    }
  }
  return try_send_any(message, size_hint);
}

Result<std::size_t> Channel::try_send_any(std::span<const iovec> message, std::size_t size_hint) {
  ChannelObject& channel = *object_;
  std::unique_lock guard(channel.context().lock());
  if (channel.life() != Life::kOpen) return lost(channel);
  Endpoint& endpoint = channel.endpoint();
  const bool moving_before = endpoint.send().moving();
  const std::uint64_t taken = endpoint.take(message, size_hint, channel.context().now());
  const std::uint64_t total = bytes_in(message), rest = endpoint.send().rest_bytes();
  if (taken > 0) {
    channel.sent();
    if (taken < total) channel.context().await_room(channel);
    return taken;
  }
  if (total == 0) return fail(Errc::kInvalidArgument, "message: is empty");
  if (rest != 0 && total > rest) {
    return fail(Errc::kInvalidArgument, "message: the rest of the message before it is missing");
  }
  channel.context().await_room(channel);
  channel.context().round();
  if (channel.life() != Life::kOpen) return lost(channel);
  if (!moving_before) endpoint.await_answer(kLooksForAnswer, channel.context().now());
  const bool let_others_run = channel.context().in_vain(kVainPerTry);
  guard.unlock();
  if (let_others_run) sched_yield();
  return 0;
}

Result<void> Channel::send(std::span<const iovec> message, Deadline deadline) {
  std::vector<iovec> rest(message.begin(), message.end());
  std::span<iovec> left(rest);
  for (;;) {
    const std::uint64_t seen = object_->context().events();
    auto taken = try_send(left);
    if (!taken) return tl::unexpected(taken.error());
    while (*taken > 0) {  // cut off what was taken
      const std::size_t n = std::min(*taken, left[0].iov_len);
      left[0].iov_base = static_cast<std::byte*>(left[0].iov_base) + n;
      left[0].iov_len -= n;
      *taken -= n;
      if (left[0].iov_len == 0) left = left.subspan(1);
    }
    while (!left.empty() && left[0].iov_len == 0) left = left.subspan(1);
    if (left.empty()) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      if (take_back_lent()) continue;  // it was read in the last moment
      return fail(Errc::kTimedOut, "the message could not be sent in time");
    }
    wait_for_something(object_->context(), deadline, seen);
  }
}

// The memory is the caller's again when its call ends.
bool Channel::take_back_lent() {
  std::uint32_t loan = 0;
  {
    const std::lock_guard guard(object_->context().lock());
    if (object_->has_endpoint()) loan = object_->endpoint().send().lent_by_take();
  }
  if (loan == 0) return false;
  const auto left = cancel(loan, in(kRecallTime));
  return left && !*left;
}

Result<void> Channel::send(std::span<const std::byte> message, Deadline deadline) {
  const iovec element = as_iovec(message);
  return send(std::span(&element, 1), deadline);
}

Result<void> Channel::send(std::string_view message, Deadline deadline) {
  return send(std::as_bytes(std::span(message.data(), message.size())), deadline);
}

Result<std::uint32_t> Channel::try_lend(std::span<const std::byte> message) {
  ChannelObject& channel = *object_;
  const std::lock_guard guard(channel.context().lock());
  if (channel.life() != Life::kOpen) return lost(channel);
  if (message.empty()) return fail(Errc::kInvalidArgument, "message: is empty");
  const std::uint32_t loan = channel.endpoint().lend(message);
  channel.context().activate(channel);
  channel.context().round();
  return loan;
}

Result<bool> Channel::cancel(std::uint32_t loan, Deadline deadline) {
  ChannelObject& channel = *object_;
  for (;;) {
    {
      const std::lock_guard guard(channel.context().lock());
      if (!channel.has_endpoint()) return lost(channel);
      Endpoint& endpoint = channel.endpoint();
      if (!endpoint.send().loan_done(loan) && channel.life() == Life::kOpen) {
        endpoint.recall(loan);
        channel.context().activate(channel);
        channel.context().round();
      }
      const bool late = std::chrono::steady_clock::now() >= deadline;
      if (!endpoint.send().loan_done(loan) && late) endpoint.revoke(loan);
      if (endpoint.send().loan_done(loan)) return endpoint.was_left(loan);
    }
    sched_yield();
  }
}

bool Channel::returned(std::uint32_t loan) const {
  ChannelObject& channel = *object_;
  const std::lock_guard guard(channel.context().lock());
  if (!channel.has_endpoint()) return true;
  if (!channel.endpoint().send().loan_done(loan)) channel.context().round();
  return channel.endpoint().send().loan_done(loan);
}

Result<std::optional<Message>> Channel::try_receive() {
  ChannelObject& channel = *object_;
  {
    const std::lock_guard guard(channel.context().lock());
    View view;
    const auto deliver = [&](Endpoint& endpoint) {
      const bool patient = has_time(channel, endpoint);
      return endpoint.fast_deliver(view, patient ? kLooksOfFew : kLooksOfMany, patient);
    };
    if (channel.is_ordinary() && deliver(channel.endpoint())) {
      if (++channel.takes % kTakesPerRound == 0) [[unlikely]]
        channel.context().round();
      channel.context().found();
      ++channel.views;
      return Result<std::optional<Message>>(tl::in_place, std::in_place, Message::Key(), channel,
                                            std::span(view.data, view.length), view.frame, nullptr);
    }
  }
  return try_receive_any();
}

Result<std::optional<Message>> Channel::try_receive_any() {
  ChannelObject& channel = *object_;
  std::unique_lock guard(channel.context().lock());
  if (!channel.has_endpoint() || channel.life() == Life::kClosed) return lost(channel);
  Endpoint& endpoint = channel.endpoint();
  auto incoming = endpoint.look();
  if (!incoming && endpoint.has_fresh_offers()) {
    channel.context().poll_completions();
    endpoint.start_reads();
  }
  if (!incoming && endpoint.awaits() && channel.context().poll_completions()) {
    incoming = endpoint.deliver();
  }
  if (!incoming) {
    if (endpoint.has_steps()) endpoint.step();
    const std::uint32_t vain = has_time(channel, endpoint) ? kVainOfFew : kVainOfMany;
    channel.vain = static_cast<std::uint16_t>(channel.vain + vain);  // a few hundred at most
    if (channel.vain >= (endpoint.busy() ? kVainPerBusyRound : kVainPerRound) ||
        channel.life() != Life::kOpen) {
      channel.vain = 0;
      channel.context().round();
      incoming = endpoint.deliver();
    }
    if (!incoming && endpoint.receive().at_end()) {
      return fail(Errc::kNotFound, "the peer has closed the channel");
    }
    if (!incoming && channel.life() != Life::kOpen) return lost(channel);
    if (!incoming && !endpoint.receive().error().empty()) {
      channel.lose_if_failed();
      return lost(channel);
    }
    if (!incoming) {
      channel.watch_unnotified();
      channel.ready = false;
      const bool let_others_run = channel.context().in_vain(vain);
      guard.unlock();
      if (let_others_run) sched_yield();
      return std::nullopt;
    }
  }
  // A channel that is polled needs no bells; and bells must be taken at times.
  if (!channel.active && channel.life() == Life::kOpen) channel.context().activate(channel);
  if (++channel.takes % kTakesPerRound == 0) channel.context().round();
  channel.context().found();
  ++channel.views;
  return Result<std::optional<Message>>(tl::in_place, std::in_place, Message::Key(), channel,
                                        std::span(incoming->data, incoming->length),
                                        incoming->frame, incoming->region.handle);
}

Result<Message> Channel::receive(Deadline deadline) {
  for (;;) {
    const std::uint64_t seen = object_->context().events();
    auto message = try_receive();
    if (!message) return tl::unexpected(message.error());
    if (*message) return std::move(**message);
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::kTimedOut, "no message came in time");
    }
    wait_for_something(object_->context(), deadline, seen);
  }
}

Result<std::optional<std::size_t>> Channel::try_receive_into(std::span<const iovec> buffers) {
  if (!held_) {
    auto message = try_receive();
    if (!message) return tl::unexpected(message.error());
    if (!*message) return std::nullopt;
    held_ = std::make_unique<Message>(std::move(**message));
  }
  std::span<const std::byte> left = held_->bytes();
  const std::size_t size = left.size();
  if (size > bytes_in(buffers)) {
    return fail(Errc::kInvalidArgument, "buffers: the next message is larger");
  }
  for (const iovec& buffer : buffers) {
    const std::size_t n = std::min(buffer.iov_len, left.size());
    base::bulk_copy(buffer.iov_base, left.data(), n);
    left = left.subspan(n);
  }
  held_.reset();
  return size;
}

Result<void> Channel::close(Deadline deadline) {
  ChannelObject& channel = *object_;
  held_.reset();
  Result<void> result;
  for (;;) {
    const std::uint64_t seen = channel.context().events();
    {
      const std::lock_guard guard(channel.context().lock());
      // One that never got as far as having rings has nothing to deliver.
      if (channel.life() == Life::kConnecting || channel.life() == Life::kClosed ||
          !channel.has_endpoint()) {
        break;
      }
      Endpoint& endpoint = channel.endpoint();
      if (channel.life() == Life::kLost) {
        if (!endpoint.send().drained()) result = lost(channel);
        break;
      }
      endpoint.progress(channel.context().now());
      if (endpoint.finish(channel.is_being_left())) break;
      channel.confirm_end();
      if (channel.life() != Life::kOpen) continue;  // that was all
      channel.context().await_room(channel);
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      result = fail(Errc::kTimedOut, "the peer did not take everything in time");
      break;
    }
    wait_for_something(channel.context(), deadline, seen);
  }
  const std::lock_guard guard(channel.context().lock());
  channel.disconnect();
  return result;
}

void Channel::set_tag(std::uint64_t tag) {
  const std::lock_guard guard(object_->context().lock());
  object_->tag = tag;
}

bool Channel::connected() const {
  const std::lock_guard guard(object_->context().lock());
  return object_->life() == Life::kOpen;
}

Statistics Channel::statistics() const {
  const std::lock_guard guard(object_->context().lock());
  return object_->statistics();
}

}  // namespace weft::channel
