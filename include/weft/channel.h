// Messages between processes and hosts over RDMA, through buffers that grow with the traffic of
// each connection and shrink again. A Context is a device with a memory budget; Listener and
// Channel come from it and keep it alive. Messages arrive whole, in order, once. Handles are
// movable; each function may be called from any thread, but one Channel by one thread at a time. No
// threads of its own: things move when some call on the context or its channels is made (progress,
// wait, send, receive). docs/channel.md has the protocol.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/channel_settings.h"
#include "weft/result.h"

namespace weft::channel {

class ChannelObject;
class ContextObject;
class ListenerObject;

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline in(std::chrono::nanoseconds time) {
  return std::chrono::steady_clock::now() + time;
}

struct ContextOptions {
  /// Registered memory of all channels together; what exceeds it is refused or waits.
  std::uint64_t budget_bytes = std::uint64_t{256} << 20;
  Settings settings;  ///< for channels that are not given their own
  /// How often a peer that has been silent is looked for, where nothing else would tell of its
  /// death (Settings::lean): 1 ms to 1 h.
  Nanoseconds probe_every_ns = 10'000'000'000;
  /// Hears of settings that are allowed but hardly meant, such as a phase less than ten times as
  /// large as the last: each text once a context, by the thread that gave the settings. None: a
  /// line on the standard error output.
  std::function<void(const std::string& text)> on_warning = nullptr;
};

struct ContextFigures {
  std::uint64_t channels = 0, budget_bytes = 0, used_bytes = 0, peak_bytes = 0, refusals = 0;
};

/// What one channel did, and what it takes now.
struct Statistics {
  std::uint32_t send_phase = 0, receive_phase = 0;
  /// Of this side: all rings, control block, messages being read, with what their alignment costs.
  std::uint64_t registered_bytes = 0;
  std::uint64_t messages_sent = 0, messages_received = 0, bytes_sent = 0, bytes_received = 0;
  std::uint64_t frames_sent = 0, frames_received = 0;
  std::uint64_t grows = 0, shrinks = 0, refusals = 0, postponements = 0, repeats = 0;
  std::uint64_t rendezvous = 0;
  std::uint64_t bells = 0;  ///< frames and signs that made the peer look
  std::string error;        ///< empty while all is well
};

/// A received message. It is a view into the ring while that is possible: its slot is the sender's
/// again when this dies, so do not keep many. Dies before its channel's context.
class Message {
  class Key {
    friend class Channel;
    Key() = default;
  };

 public:
  /// Only a channel has the key.
  Message(Key, ChannelObject& channel, std::span<const std::byte> bytes, std::uint32_t frame,
          void* region)
      : channel_(&channel), bytes_(bytes), frame_(frame), region_(region) {}
  Message(Message&& other) noexcept
      : channel_(std::exchange(other.channel_, nullptr)),
        bytes_(other.bytes_),
        frame_(other.frame_),
        region_(other.region_) {}
  Message& operator=(Message&& other) noexcept;
  ~Message() {
    if (channel_ != nullptr) release();
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  friend class Channel;
  void release();
  ChannelObject* channel_;
  std::span<const std::byte> bytes_;
  std::uint32_t frame_;
  void* region_;
};

/// Messages that were received together, and are given back together when this is filled anew or
/// dies. The views are good until then. Dies before its channel's context.
class Batch {
 public:
  static constexpr std::size_t kMost = 256;

  Batch() = default;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() {
    if (channel_ != nullptr) release();
  }

  std::size_t size() const { return size_; }
  std::span<const std::byte> operator[](std::size_t i) const {
    return {items_[i].data, items_[i].length};
  }

 private:
  friend class Channel;
  void release();
  void release_locked();
  struct Item {
    const std::byte* data;
    std::uint64_t length;
    std::uint32_t frame;
    void* region;
  };
  ChannelObject* channel_ = nullptr;
  std::size_t size_ = 0;
  Item items_[kMost];
};

class Channel {
 public:
  Channel(Channel&&) noexcept = default;
  Channel& operator=(Channel&& other) noexcept;
  /// Closes, without waiting: what was sent is delivered by further rounds of the context, if the
  /// peer takes it within a second.
  ~Channel();

  /// Takes as much of the message as can go now. 0: not yet, no error; call again. Less than all:
  /// the rest is given with the next call. Empty messages are refused.
  Result<std::size_t> try_send(std::span<const iovec> message, std::size_t size_hint = 0);
  /// Each element is a message of its own: many small ones for the price of a few.
  struct Taken {
    std::size_t messages = 0;  ///< that went whole
    std::size_t bytes = 0;     ///< of the one after them; its rest is given with the next call
  };
  Result<Taken> try_send_batch(std::span<const iovec> messages);
  Result<void> send(std::span<const iovec> message, Deadline deadline);
  Result<void> send(std::span<const std::byte> message, Deadline deadline);
  Result<void> send(std::string_view message, Deadline deadline);

  /// Sends without a copy: the peer reads the message where it is, which must stay until
  /// returned(loan), also by the loss of the connection: then nobody can read it any more. 0: not
  /// yet.
  Result<std::uint32_t> try_lend(std::span<const std::byte> message);
  bool returned(std::uint32_t loan) const;
  /// Takes a loan back; when it returns, nobody can read the memory any more. True: the peer did
  /// not get the message, and never will; false: it had read it. A peer that has not answered by
  /// the deadline is not waited for: if it is in the middle of reading, or holds up the work before
  /// the loan, the connection is lost.
  Result<bool> cancel(std::uint32_t loan, Deadline deadline = in(std::chrono::milliseconds(10)));

  /// Nothing: no message yet. kNotFound: the peer has closed, and there is none left.
  Result<std::optional<Message>> try_receive();
  Result<Message> receive(Deadline deadline);
  /// As many as are there and find room, oldest first; 0: no message yet.
  Result<std::size_t> try_receive_batch(Batch& into);
  /// Copies the next message; kInvalidArgument, and the message stays, if it is larger.
  Result<std::optional<std::size_t>> try_receive_into(std::span<const iovec> buffers);

  /// Delivers what was sent, then ends the connection.
  Result<void> close(Deadline deadline);
  bool connected() const;
  Statistics statistics() const;
  /// A number of the user's, by which Context::take_ready() names this channel.
  void set_tag(std::uint64_t tag);

 private:
  friend class Context;
  friend class Listener;
  explicit Channel(std::shared_ptr<ChannelObject> object) : object_(std::move(object)) {}
  void let_go();
  bool take_back_lent();
  Result<std::size_t> try_send_any(std::span<const iovec> message, std::size_t size_hint);
  Result<std::optional<Message>> try_receive_any();
  std::shared_ptr<ChannelObject> object_;
  std::unique_ptr<Message> held_;  // the next one, which was larger than the buffers offered
};

class Listener {
 public:
  std::uint16_t port() const;
  std::optional<Channel> try_accept();
  Result<Channel> accept(Deadline deadline);

 private:
  friend class Context;
  explicit Listener(std::shared_ptr<ListenerObject> object) : object_(std::move(object)) {}
  std::shared_ptr<ListenerObject> object_;
};

class Context {
 public:
  static Result<Context> create(ContextOptions options = {});
  Context(Context&&) noexcept = default;
  Context& operator=(Context&&) = delete;
  /// Channels whose handles are gone have a second to deliver what was sent.
  ~Context();

  /// Port 0: any that is free.
  Result<Listener> listen(const std::string& host, std::uint16_t port,
                          std::optional<Settings> settings = {});
  Result<Channel> connect(const std::string& host, std::uint16_t port, Deadline deadline,
                          std::optional<Settings> settings = {});
  /// The same without waiting: connected() says when, statistics().error why not.
  Result<Channel> start_connect(const std::string& host, std::uint16_t port,
                                std::optional<Settings> settings = {});

  /// One round for everything that belongs to this context. True: something happened.
  bool progress();
  /// Polls for a while, then sleeps, until something happened or the deadline passed.
  bool wait(Deadline deadline);
  /// Counts what happened. Who looks at several things and then waits remembers it from before the
  /// first look: the wait ends at once if something happened since.
  std::uint64_t events() const;
  bool wait(Deadline deadline, std::uint64_t seen);
  /// Channels with something to receive (or an end to learn of) that were not named since the last
  /// time that try_receive() gave nothing. For programs with many peers: nobody looks at all of
  /// them.
  std::vector<std::uint64_t> take_ready();
  /// Becomes readable when progress() has something to do; valid after arm() gave true, once.
  int fd() const;
  /// False: there is something to do right now.
  bool arm();

  ContextFigures figures() const;

 private:
  explicit Context(std::shared_ptr<ContextObject> object) : object_(std::move(object)) {}
  std::shared_ptr<ContextObject> object_;
};

}  // namespace weft::channel
