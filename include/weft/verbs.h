// weft's verbs: RDMA for C++ programs, in InfiniBand's words and with RAII. Handles are movable
// values; each keeps alive what it stands on, so the order of destruction never matters. Every
// function may be called from any thread; two threads must not use the same handle while one of
// them moves or destroys it. Misuse gives an Error that names the argument; no exceptions.
// docs/reference/verbs.md has each name beside libibverbs'.
#pragma once

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

#include "weft/queue_pair_attributes.h"
#include "weft/raw.h"
#include "weft/result.h"
#include "weft/types.h"
#include "weft/work.h"

namespace weft::verbs {

class Controller;
struct PdObject;
struct CqObject;
struct CompChannelObject;
struct SrqObject;
struct QpObject;
struct XrcObject;
struct FanoutObject;
class ProtectionDomain;
class CompletionQueue;
class QueuePair;
struct Internals;  // verbs/internals.h: for the folders above this one

// ---- devices ----------------------------------------------------------------------------------

/// A host serves RDMA; an I/O adapter has few queue pairs, initiates RDMA and refuses to serve it.
enum class NodeKind : std::uint8_t { kHost, kIoAdapter };

/// How queue pairs reach peers: the fastest way there is, or always as frames (for captures
/// and faults). With frames, every port is on the network; one without an address gets a random one
/// of 127.0.0.0/8.
enum class PathPolicy : std::uint8_t { kAutomatic, kFramed };

struct PortOptions {
  std::string address = {};  ///< "127.0.0.1", "fd00::1"; empty: one of its own
  bool on_network = false;   ///< speak RoCEv2 on UDP port 4791 of that address
};

struct DeviceOptions {
  std::string name = "weft0";
  NodeKind kind = NodeKind::kHost;
  PathPolicy path = PathPolicy::kAutomatic;
  // The reliable datagram service (docs/reliable-datagram.md).
  bool one_message = false;  ///< of a context may be outstanding, as InfiniBand has it
  std::chrono::milliseconds context_idle{30'000};  ///< unused for so long, it is taken down
  std::uint32_t max_queue_pairs = 0;    ///< 0: 1,048,576 for a host, 8 for an I/O adapter
  std::vector<PortOptions> ports = {};  ///< none: one port with an address of its own
  // Captures and faults (docs/reference/captures-and-faults.md); both imply kFramed. WEFT_PATH,
  // WEFT_PCAP, WEFT_FAULTS and WEFT_FAULTS_SEED in the environment take precedence.
  std::string pcap = {};    ///< record all frames in this file; %p: the process id
  std::string faults = {};  ///< what arriving frames suffer: "loss=1%,delay=50us..200us"
  std::optional<std::uint64_t> faults_seed = {};  ///< none: a random one, which the log tells
  /// With the first raw queue pair; WEFT_RAW_UNCLAIMED takes precedence.
  RawUnclaimed raw_unclaimed = RawUnclaimed::kKernel;
};

struct DeviceInfo {
  std::string name;
  std::uint64_t guid = 0;
  NodeKind kind = NodeKind::kHost;
  std::uint8_t ports = 1;
  std::uint32_t max_queue_pairs = 0;
  std::uint32_t max_queue_depth = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t max_completions = 0;
  std::uint32_t max_rd_atomic = 0;
  std::uint32_t max_contexts = 0;  ///< of the reliable datagram service: `max_ee`
};

enum class AsyncEventKind : std::uint8_t {
  kQueuePairRequestError,
  kQueuePairAccessError,
  kCommunicationEstablished,
  kSendQueueDrained,
  kLastReceiveReached,
  kSharedReceiveLimitReached,
  kCompletionQueueOverrun,
  kUnmappedPage,  ///< of a consumer of kernel kind: there are such on simulated nodes only
};
std::string_view to_string(AsyncEventKind kind);

struct AsyncEvent {
  AsyncEventKind kind;
  Qpn qpn{};                  ///< of the queue pair kinds
  std::uint32_t number = 0;   ///< of the completion queue or shared receive queue
  std::uint64_t address = 0;  ///< of kUnmappedPage: the virtual address that was wanted
};

class CompletionChannel;
class XrcDomain;

class Device {
 public:
  static Result<Device> open(const DeviceOptions& options = {});
  /// For drivers that bring their own clock, memory and ports, such as the simulation.
  explicit Device(std::shared_ptr<Controller> controller);

  const DeviceInfo& info() const;
  /// Address of a port; ports count from 1.
  Gid address(std::uint8_t port = 1) const;

  Result<ProtectionDomain> allocate_pd() const;
  Result<CompletionQueue> create_cq(std::uint32_t capacity) const;
  Result<CompletionQueue> create_cq(std::uint32_t capacity, const CompletionChannel& channel) const;
  Result<CompletionChannel> create_channel() const;
  Result<XrcDomain> open_xrc_domain() const;

  /// The oldest asynchronous event that nobody fetched yet.
  std::optional<AsyncEvent> next_event() const;
  /// Readable while next_event() would give something.
  Result<int> event_fd() const;

  const std::shared_ptr<Controller>& controller() const { return controller_; }

 private:
  std::shared_ptr<Controller> controller_;
};

// ---- memory -----------------------------------------------------------------------------------

/// Registered memory. Destroying it, or deregister(), waits until nobody is accessing the memory
/// any more; afterwards not one byte of it changes through weft. A region must go before its
/// memory.
class MemoryRegion {
 public:
  MemoryRegion(MemoryRegion&&) noexcept;
  MemoryRegion& operator=(MemoryRegion&&) noexcept;
  ~MemoryRegion();

  LocalKey lkey() const { return lkey_; }
  RemoteKey rkey() const { return rkey_; }
  /// What peers and gather lists call the first byte.
  std::uint64_t address() const { return address_; }
  std::uint64_t length() const { return length_; }
  /// A gather or scatter element for a part of it.
  Sge sge(std::uint64_t offset, std::uint32_t length) const {
    return {address_ + offset, length, lkey_};
  }
  Sge sge() const { return {address_, static_cast<std::uint32_t>(length_), lkey_}; }
  /// What a peer needs to reach the bytes from `offset` on.
  RemoteAddress remote(std::uint64_t offset = 0) const { return {address_ + offset, rkey_}; }

  /// Like destruction, but refuses with kBusy while windows are bound to the region.
  Result<void> deregister();

 private:
  friend class ProtectionDomain;
  MemoryRegion(std::shared_ptr<PdObject> pd, LocalKey lkey, RemoteKey rkey, std::uint64_t address,
               std::uint64_t length);
  std::shared_ptr<PdObject> pd_;
  LocalKey lkey_;
  RemoteKey rkey_;
  std::uint64_t address_ = 0, length_ = 0;
};

enum class WindowType : std::uint8_t { kType1, kType2 };

/// A remote key that is bound to ranges, again and again, by work on a send queue.
class MemoryWindow {
 public:
  MemoryWindow(MemoryWindow&&) noexcept;
  MemoryWindow& operator=(MemoryWindow&&) noexcept;
  ~MemoryWindow();

  /// The key after the last bind that was prepared here.
  RemoteKey rkey() const { return rkey_; }
  /// A kBind request for a range of the region (length 0: unbind). The window takes the key that it
  /// will have once the request has completed.
  SendRequest bind_request(const MemoryRegion& region, std::uint64_t offset, std::uint64_t length,
                           Access access);

 private:
  friend class ProtectionDomain;
  friend struct Internals;
  MemoryWindow(std::shared_ptr<PdObject> pd, RemoteKey rkey, WindowType type);
  std::shared_ptr<PdObject> pd_;
  RemoteKey rkey_;
  WindowType type_ = WindowType::kType1;
};

// ---- completion queues ------------------------------------------------------------------------

/// An fd that becomes readable when an armed completion queue gets something.
class CompletionChannel {
 public:
  int fd() const;
  /// The number of the completion queue of the oldest event, if there is one.
  std::optional<std::uint32_t> next_event() const;
  /// Waits for one; kTimedOut when there was none.
  Result<std::uint32_t> wait(std::chrono::nanoseconds timeout) const;

 private:
  friend class Device;
  friend struct Internals;
  explicit CompletionChannel(std::shared_ptr<CompChannelObject> object);
  std::shared_ptr<CompChannelObject> object_;
};

class CompletionQueue {
 public:
  /// Takes up to out.size() completions and makes progress when there are none. Never blocks.
  std::size_t poll(std::span<Completion> out) const;
  std::optional<Completion> poll() const;
  /// Polls until there is one; kTimedOut when there was none in time.
  Result<Completion> wait(std::chrono::nanoseconds timeout) const;

  /// The next completion (or the next solicited or failed one) gives an event on the channel.
  void request_notify(bool solicited_only = false) const;
  Result<void> resize(std::uint32_t capacity) const;

  std::uint32_t number() const;
  std::uint32_t capacity() const;

 private:
  friend class Device;
  friend class ProtectionDomain;
  friend struct Internals;
  explicit CompletionQueue(std::shared_ptr<CqObject> object);
  std::shared_ptr<CqObject> object_;
};

// ---- queue pairs ------------------------------------------------------------------------------

class SharedReceiveQueue {
 public:
  Result<void> post(const ReceiveRequest& request) const;
  /// An asynchronous event tells, once, when fewer than `limit` buffers are left.
  Result<void> arm_limit(std::uint32_t limit) const;
  std::uint32_t number() const;
  std::uint32_t posted() const;

 private:
  friend class ProtectionDomain;
  friend struct Internals;
  explicit SharedReceiveQueue(std::shared_ptr<SrqObject> object);
  std::shared_ptr<SrqObject> object_;
};

/// A domain of extended reliable connections: its target queue pairs receive for all of its shared
/// receive queues, and each request of a peer names the one that it is for.
class XrcDomain {
 private:
  friend class Device;
  friend class ProtectionDomain;
  explicit XrcDomain(std::shared_ptr<XrcObject> object);
  std::shared_ptr<XrcObject> object_;
};

/// What a peer needs to know to connect: sent to it by whatever means there are.
struct Endpoint {
  Gid gid;
  Qpn qpn;
  Psn psn;
};

struct QueuePairOptions {
  Service service = Service::kReliableConnection;
  QueuePairLimits limits = {};
  bool signal_all = false;  ///< every request gives a completion, whatever its flags say
  const SharedReceiveQueue* shared_receive = nullptr;
  // Extended reliable connections, between an initiator and a target.
  bool extended_initiator = false;  ///< requests name a shared receive queue of the peer's
  const XrcDomain* xrc_domain =
      nullptr;  ///< a target: it receives for this domain, and never sends
  // Raw datagrams.
  RawFraming raw_framing = RawFraming::kPacket;
  const FanoutObject* fanout = nullptr;  ///< several receive queues: verbs/fanout.h
};

class QueuePair {
 public:
  QueuePair(QueuePair&&) noexcept;
  QueuePair& operator=(QueuePair&&) noexcept;
  ~QueuePair();

  Qpn number() const;
  QpState state() const;
  Endpoint endpoint() const;

  /// Moves to another state, or sets attributes in this one. What each move needs:
  /// docs/reference/verbs.md.
  Result<void> modify(QpState to, const QueuePairAttributes& attributes = {},
                      QpAttribute given = QpAttribute::kNone);
  QueuePairAttributes attributes() const;

  /// RESET to RTS in one call; what is not about the peer is taken from `attributes`.
  Result<void> connect(const Endpoint& peer, QueuePairAttributes attributes = {});
  /// The same for datagrams, which have no peer. Raw ones have no Q_Key either.
  Result<void> activate(QKey qkey = {}, QueuePairAttributes attributes = {});

  Result<void> post_send(const SendRequest& request);
  /// Posts in order and stops at the first that is refused; *posted tells how many were taken.
  Result<void> post_send(std::span<const SendRequest> requests, std::size_t* posted);
  Result<void> post_receive(const ReceiveRequest& request);
  Result<void> post_receive(std::span<const ReceiveRequest> requests, std::size_t* posted);

  /// Datagrams for the group come here too; the queue pair leaves it when it is destroyed. At a
  /// port on the network the group has the family of the port's address.
  Result<void> attach_multicast(const Gid& group);
  Result<void> detach_multicast(const Gid& group);

  /// Raw datagrams: packets that arrive at the queue pair's port and have this key come here, until
  /// it is released or the queue pair is destroyed. Of several claims the one that says most
  /// counts; kBusy: another queue pair of this machine has claimed the same. Keys of groups may be
  /// shared.
  Result<void> claim(const RawKey& key);
  Result<void> release(const RawKey& key);

  /// The usual requests, one element each.
  Result<void> post_send(const Sge& from, std::uint64_t wr_id = 0);
  Result<void> post_receive(const Sge& to, std::uint64_t wr_id = 0);
  Result<void> post_write(const Sge& from, const RemoteAddress& to, std::uint64_t wr_id = 0);
  Result<void> post_read(const Sge& to, const RemoteAddress& from, std::uint64_t wr_id = 0);

 private:
  friend class ProtectionDomain;
  friend struct Internals;
  explicit QueuePair(std::unique_ptr<QpObject> object);
  std::unique_ptr<QpObject> object_;
};

/// A destination for datagrams.
class AddressHandle {
 public:
  const AddressVector& vector() const { return vector_; }

 private:
  friend class ProtectionDomain;
  explicit AddressHandle(const AddressVector& vector) : vector_(vector) {}
  AddressVector vector_;
};

// ---- protection domains -----------------------------------------------------------------------

/// Regions, windows and queue pairs work together only inside one protection domain.
class ProtectionDomain {
 public:
  Result<MemoryRegion> register_memory(void* address, std::size_t length, Access access) const;
  template <class Range>
  Result<MemoryRegion> register_memory(Range& range, Access access) const {
    const auto bytes = std::as_writable_bytes(std::span(range));
    return register_memory(bytes.data(), bytes.size(), access);
  }
  /// By effective address, and under an address of the caller's choice for peers.
  Result<MemoryRegion> register_range(std::uint64_t address, std::uint64_t length, Access access,
                                      std::optional<std::uint64_t> iova = {}) const;
  /// All memory of the process, also what it maps later, under its own addresses: nothing is pinned
  /// or looked at now, and windows can be bound to any part of it. A request that meets memory
  /// which is not there fails, as with memory that was unmapped. For a part of it: region.sge(),
  /// region.remote() and bind_request() with the pointer as offset.
  Result<MemoryRegion> register_address_space(Access access) const;
  /// Gives a region of the same device another range, other rights, this domain; its keys stay.
  Result<void> reregister(MemoryRegion& region, std::uint64_t address, std::uint64_t length,
                          Access access, std::optional<std::uint64_t> iova = {}) const;
  /// Brings the pages of a part of a region in, as its first use would; kBadAddress when some of it
  /// cannot be touched so.
  Result<void> prefetch(const Sge& part, bool for_writing) const;
  Result<MemoryWindow> allocate_window(WindowType type) const;

  Result<QueuePair> create_queue_pair(const CompletionQueue& send_cq,
                                      const CompletionQueue& receive_cq,
                                      const QueuePairOptions& options = {}) const;
  Result<SharedReceiveQueue> create_srq(std::uint32_t max_wr, std::uint32_t max_sge = 4) const;
  /// For an extended connection's domain; what it receives completes in the queue.
  Result<SharedReceiveQueue> create_xrc_srq(const XrcDomain& domain, const CompletionQueue& cq,
                                            std::uint32_t max_wr, std::uint32_t max_sge = 4) const;
  Result<AddressHandle> create_address_handle(const AddressVector& vector) const;

  /// Two queue pairs of this domain, connected to each other.
  Result<std::pair<QueuePair, QueuePair>> create_connected_pair(
      const CompletionQueue& cq, const QueuePairOptions& options = {}) const;

  explicit ProtectionDomain(std::shared_ptr<PdObject> object);

 private:
  Result<std::shared_ptr<SrqObject>> make_srq(std::uint32_t max_wr, std::uint32_t max_sge) const;
  std::shared_ptr<PdObject> object_;
};

}  // namespace weft::verbs
