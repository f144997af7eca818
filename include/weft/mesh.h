// Channels over reliable datagrams, for very many peers: one Mesh talks to any number of others by
// a few queue pairs. A peer that never spoke is an entry of a table; the first message provisions
// its small rings, which grow and shrink with the traffic as those of channels do
// (weft/channel.h), and go when the peer has been silent. Messages arrive whole, in order, once.
// A Mesh and the messages from it are used by one thread at a time, and it has no threads of its
// own: things move when one of its functions is called. docs/mesh.md has the protocol.
#pragma once

#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/channel_settings.h"
#include "weft/result.h"
#include "weft/types.h"
#include "weft/verbs.h"

namespace weft::mesh {

class Link;
class MeshObject;

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline in(std::chrono::nanoseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// Where a mesh is found. Plain bytes: given to others by whatever means there are.
struct Address {
  Gid gid;
  Qpn qpn;
  friend bool operator==(const Address&, const Address&) = default;
};
std::string to_string(const Address& address);

/// Another mesh, as this one names it; good as long as this one.
using Peer = Strong<struct PeerTag, std::uint32_t>;

struct Options {
  /// Sizes and growth of the rings, as for channels. Its `lean` is always on, its `loan_end` the
  /// sender's.
  channel::Settings settings;
  /// Registered memory of all peers together; what exceeds it is refused or waits.
  std::uint64_t budget_bytes = std::uint64_t{256} << 20;
  /// Peers that have been silent so long go back to an entry of the table.
  Nanoseconds idle_ns = 30'000'000'000;
  /// Also to those who are not in the table: whoever knows the address and the Q_Key may speak.
  bool accepts_strangers = true;
  std::uint32_t max_peers = 1u << 20;  ///< in the table
  QKey qkey{0x6d65'7368};              ///< of all meshes that talk to each other
  std::uint8_t port = 1;               ///< of the device
  /// Queue pairs that messages go by. A peer that dies delays what goes by the same one.
  std::uint32_t lanes = 4;
  std::uint32_t lane_depth = 1024;  ///< work of one that may be outstanding: 64 to 16,384
  /// Notices that may come while nobody looks here; a peer that finds no room for one for half a
  /// second gives this mesh up.
  std::uint32_t notices = 4096;
  /// When a peer that does not answer is given up (weft/queue_pair_attributes.h).
  std::uint8_t timeout = 14, retry_count = 7;
  /// A greeting that is not answered, or not followed by anything, is given up.
  Nanoseconds greeting_timeout_ns = 5'000'000'000;
};

enum class State : std::uint8_t {
  kIdle,      ///< an entry of the table, nothing else
  kGreeting,  ///< it was sent a greeting
  kOpen,
  kParting,  ///< it was asked whether it agrees to be idle
  kClosing   ///< by close()
};

/// What one peer takes now, and what was exchanged since it was idle.
struct PeerStatistics {
  State state = State::kIdle;
  /// Of this side: all rings, control block, messages being read.
  std::uint64_t registered_bytes = 0;
  std::uint32_t send_phase = 0, receive_phase = 0;
  std::uint64_t messages_sent = 0, messages_received = 0, bytes_sent = 0, bytes_received = 0;
  std::uint64_t grows = 0, shrinks = 0, refusals = 0;
  std::uint64_t bells = 0;  ///< what made the peer look
};

struct Figures {
  std::uint64_t peers = 0, open = 0;    ///< in the table; of them, with rings
  std::uint64_t table_bytes = 0;        ///< of the table
  std::uint64_t registered_bytes = 0;   ///< of all peers
  std::uint64_t greetings_refused = 0;  ///< malformed, false, unknown, or too many
  std::uint64_t strange_bells = 0;      ///< for no peer of that number, or from another
  std::uint64_t greeted = 0, parted = 0, lost = 0;
};

/// A received message: a view while that is possible. Its slot is the sender's again when this
/// dies, so do not keep many. Dies before its mesh.
class Message {
 public:
  Message(Message&& other) noexcept;
  Message& operator=(Message&& other) noexcept;
  ~Message();

  Peer from() const { return from_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  friend class MeshObject;
  Message(std::shared_ptr<Link> link, Peer from, std::span<const std::byte> bytes,
          std::uint32_t frame, void* region);
  void release();
  std::shared_ptr<Link> link_;
  Peer from_;
  std::span<const std::byte> bytes_;
  std::uint32_t frame_ = 0;
  void* region_ = nullptr;
};

/// A peer that is gone; what it had not consumed is lost. It may be spoken to again.
struct Closed {
  Peer peer;
  std::string why;
};

class Mesh {
 public:
  /// The device needs the network to reach other processes.
  static Result<Mesh> open(const verbs::Device& device, const Options& options = {});
  Mesh(Mesh&&) noexcept;
  Mesh& operator=(Mesh&&) = delete;
  /// Without a word to the peers: see close().
  ~Mesh();

  Address address() const;
  /// The peer of that address: an entry of the table, made if need be.
  Result<Peer> peer(const Address& address);
  Address address_of(Peer peer) const;

  /// Takes as much of the message as can go now. 0: not yet, no error; call again, with the same
  /// bytes at the same place, where the peer may be reading them. Less than all: the rest is given
  /// with the next call. kInvalidState: the peer was closed, and take_closed() has not told of it
  /// yet.
  Result<std::size_t> try_send(Peer to, std::span<const std::byte> message);
  Result<void> send(Peer to, std::span<const std::byte> message, Deadline deadline);
  Result<void> send(Peer to, std::string_view message, Deadline deadline);

  /// The next message of any peer, each in turn; nothing: there is none yet.
  std::optional<Message> try_receive();
  Result<Message> receive(Deadline deadline);
  /// Peers that were closed, by themselves or by death, since the last call.
  std::vector<Closed> take_closed();

  /// One round for everything. True: something happened.
  bool poll();
  /// Polls, then sleeps, until something happened or the deadline passed.
  bool wait(Deadline deadline);
  /// Becomes readable when poll() has something to do; valid after arm() gave true, once.
  int fd() const;
  /// False: there is something to do right now.
  bool arm();

  /// Delivers what was sent to the peer, says good-bye and gives its memory back.
  Result<void> close(Peer peer, Deadline deadline);
  /// The same for all.
  Result<void> close(Deadline deadline);

  PeerStatistics statistics(Peer peer) const;
  Figures figures() const;

 private:
  explicit Mesh(std::shared_ptr<MeshObject> object) : object_(std::move(object)) {}
  std::shared_ptr<MeshObject> object_;
};

}  // namespace weft::mesh
