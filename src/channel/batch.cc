// Many small messages at a time: one lock, full frames, one return of room.
#include <mutex>
#include <utility>

#include "channel/channel_object.h"
#include "channel/context_object.h"
#include "weft/channel.h"

namespace weft::channel {
namespace {

/// Batches that are received between two rounds for all.
constexpr std::uint32_t kBatchesPerRound = 64;

}  // namespace

void Batch::release_locked() {
  for (std::size_t i = 0; i < size_; ++i) {
    channel_->take_back((*this)[i], items_[i].frame, items_[i].region);
  }
  size_ = 0;
  channel_->took_back();
}

void Batch::release() {
  std::shared_ptr<ChannelObject> last;  // destroyed without the lock
  const std::lock_guard guard(channel_->context().lock());
  release_locked();
  if (--channel_->views == 0) last = channel_->context().take_kept(*channel_);
  channel_ = nullptr;
}

Result<Channel::Taken> Channel::try_send_batch(std::span<const iovec> messages) {
  ChannelObject& channel = *object_;
  {
    const std::lock_guard guard(channel.context().lock());
    if (channel.life() == Life::kOpen) {
      const std::size_t taken = channel.endpoint().take_batch(messages);
      if (taken > 0) {
        channel.sent();
        if (taken < messages.size()) channel.context().await_room(channel);
        return Taken{taken, 0};
      }
    }
  }
  if (messages.empty()) return Taken{};
  // What is out of the ordinary goes by itself.
  auto bytes = try_send(messages.first(1));
  if (!bytes) return tl::unexpected(std::move(bytes.error()));
  if (*bytes == messages[0].iov_len) return Taken{1, 0};
  return Taken{0, *bytes};
}

Result<std::size_t> Channel::try_receive_batch(Batch& into) {
  ChannelObject& channel = *object_;
  if (into.channel_ != nullptr && into.channel_ != &channel) into.release();
  {
    const std::lock_guard guard(channel.context().lock());
    if (into.channel_ != nullptr) into.release_locked();
    if (channel.has_endpoint() && channel.life() != Life::kClosed) {
      Endpoint& endpoint = channel.endpoint();
      while (into.size_ < Batch::kMost) {
        View view;
        if (endpoint.fast_deliver(view, 1, false)) [[likely]] {
          into.items_[into.size_++] = {view.data, view.length, view.frame, nullptr};
          continue;
        }
        const auto incoming = endpoint.deliver();
        if (!incoming) break;
        into.items_[into.size_++] = {incoming->data, incoming->length, incoming->frame,
                                     incoming->region.handle};
      }
      if (into.size_ > 0) {
        if (into.channel_ == nullptr) ++channel.views;
        into.channel_ = &channel;
        if (!channel.active && channel.life() == Life::kOpen) channel.context().activate(channel);
        if (++channel.takes % kBatchesPerRound == 0) channel.context().round();
        channel.context().found();
        return into.size_;
      }
    }
  }
  auto message = try_receive();  // which knows what to do when there is nothing
  if (!message) return tl::unexpected(std::move(message.error()));
  if (!*message) return 0;
  Message& one = **message;
  into.items_[0] = {one.bytes_.data(), one.bytes_.size(), one.frame_, one.region_};
  into.size_ = 1;
  one.channel_ = nullptr;
  if (std::exchange(into.channel_, &channel) != nullptr) {
    const std::lock_guard guard(channel.context().lock());
    --channel.views;  // the batch had one already
  }
  return 1;
}

}  // namespace weft::channel
