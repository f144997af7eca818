// A connection manager: identifiers, their ports and listeners, and their connections with peers on
// this host and on others. Sans-IO: what the program asks for, what arrives, and times go in;
// messages to be sent and events to be told come out (actions.h). It asks its host for devices
// (devices.h) and for ports and links (links.h), which answer at once, and draws its numbers from
// the generator that it is given. No clock, socket, thread, lock or log inside: driver.h runs one
// in a process, and a simulated world may run many. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/random.h"
#include "cm/actions.h"
#include "cm/devices.h"
#include "cm/identifier.h"
#include "cm/links.h"
#include "weft/result.h"

namespace weft::cm {

/// What one end tells the other of its queue pair.
struct ConnectionParameters {
  Qpn qpn{};
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  bool flow_control = false, srq = false;
  std::uint8_t retry_count = 0, rnr_retry_count = 0;  ///< at most 7; more counts as 7
  VendorOptions vendor{};
};

/// What a datagram service answers.
struct ServiceParameters {
  ServiceStatus status = ServiceStatus::kSuccess;
  Qpn qpn{};
  VendorOptions vendor{};
};

class Manager {
 public:
  static constexpr std::size_t kMostIdentifiers = 32'768;

  /// All of them outlive the manager.
  Manager(Devices& devices, Links& links, base::Random& random)
      : devices_(devices), links_(links), random_(random) {}

  // Identifiers. A pointer lives until destroy().

  /// kOutOfMemory: too many.
  Result<Identifier*> create(PortSpace space, QpType type);
  /// Null: none.
  Identifier* find(Handle handle);
  /// Its peer is told that it goes. A child whose request the program never saw is the caller's to
  /// destroy.
  void destroy(Identifier& id, Actions& out);

  // Addresses. Errors: kInvalidState: not now; kInvalidArgument; kNotFound: not an address of this
  // machine, or no port is left; kBusy: somebody has the port; kSystem.

  /// Takes the port; 0 picks one.
  Result<void> bind(Identifier& id, const SocketAddress& where, Nanoseconds now);
  /// kAddressResolved or kNoRoute follows.
  Result<void> resolve_address(Identifier& id, const std::optional<SocketAddress>& source,
                               SocketAddress destination, Nanoseconds now, Actions& out);
  /// kRouteResolved follows.
  Result<void> resolve_route(Identifier& id, Actions& out);
  Result<void> listen(Identifier& id, std::uint32_t backlog, Nanoseconds now);
  /// Whether a bind to all IPv6 addresses means IPv4 ones too.
  Result<void> restrict_family(Identifier& id, bool only_own, Nanoseconds now);

  // Connections. Errors: kInvalidState: not in this phase; kInvalidArgument: too much private data;
  // kSystem: no numbers for connections with other hosts.

  Result<void> connect(Identifier& id, const ConnectionParameters& parameters,
                       std::span<const std::byte> private_data, Nanoseconds now, Actions& out);
  /// The same for datagrams.
  Result<void> ask(Identifier& id, std::span<const std::byte> private_data, Nanoseconds now,
                   Actions& out);
  Result<void> accept(Identifier& id, const ConnectionParameters& parameters,
                      std::span<const std::byte> private_data, Nanoseconds now, Actions& out);
  /// The same for datagrams; also says no.
  Result<void> answer(Identifier& id, const ServiceParameters& parameters,
                      std::span<const std::byte> private_data, Nanoseconds now, Actions& out);
  Result<void> confirm(Identifier& id, Nanoseconds now, Actions& out);
  Result<void> reject(Identifier& id, RejectReason reason, std::span<const std::byte> private_data,
                      Nanoseconds now, Actions& out);
  Result<void> disconnect(Identifier& id, Nanoseconds now, Actions& out);
  /// Data arrived before the peer's RTU.
  Result<void> on_data(Identifier& id, Nanoseconds now, Actions& out);
  /// The program has taken a request of this listener: there is room for one more.
  static void request_taken(Identifier& listener) { ++listener.backlog_left; }

  // What happens.

  void on_message(const Arrival& arrival, Nanoseconds now, Actions& out);
  void on_link_gone(LinkId link, Nanoseconds now, Actions& out);
  void on_timer(Nanoseconds now, Actions& out);
  /// When on_timer() is to be called; kNever: not now. May be too early, never too late.
  Nanoseconds next_deadline() const { return next_deadline_; }
  /// The program ends without closing anything: peers on other hosts are told, since nothing else
  /// tells them.
  void close_all(Actions& out);

 private:
  // Ports and listeners (manager_ports.cc), addresses (manager_addresses.cc).
  static Place place_of(const Identifier& id, Port port);
  Port random_port();
  Result<void> take_port(Identifier& id, Nanoseconds now);
  Identifier* find_listener(ServiceId service, const Gid& address);
  bool is_about_to_listen(ServiceId service, const Gid& address, Nanoseconds now) const;
  Result<void> bind_source(Identifier& id, const std::optional<SocketAddress>& source,
                           const SocketAddress& destination, Nanoseconds now);
  Result<void> resolve_other_host(Identifier& id, Actions& out);
  /// The identifier's traffic goes through this device.
  static void use(Identifier& id, const Device& device);

  // What programs ask of a connection (manager_connections.cc).
  void begin(Identifier& id, Outcome& outcome, Nanoseconds now, Actions& out);

  /// Whose question it was: on a link the peer's numbers are the link's, on the network each host
  /// has its own.
  struct Asker {
    LinkId link;
    Gid host;
    CommId number;
    friend auto operator<=>(const Asker&, const Asker&) = default;
  };
  static Asker asker_of(const Identifier& id, CommId number);

  // What arrives (manager_arrivals.cc).
  template <class Question>
  bool is_credible(const Arrival& arrival, const Question& question);
  template <class Question>
  void on_question(LinkId link, const Packet& packet, const Question& question, Nanoseconds now,
                   Actions& out);
  void start(Identifier& child, const Packet& packet, const Request& request, Nanoseconds now,
             Actions& out);
  void start(Identifier& child, const Packet& packet, const ServiceRequest& request,
             Nanoseconds now, Actions& out);
  void on_answer(LinkId link, const Packet& packet, Nanoseconds now, Actions& out);
  Identifier* addressee(LinkId link, const Packet& packet);
  bool retry_elsewhere(Identifier& id, const Message& message, Actions& out);

  // The end of a connection waits for its last messages (manager_last_messages.cc).
  void report(Identifier& id, const Event& event, Nanoseconds now, Actions& out);
  bool has_unfetched(const Identifier& id);
  /// Tells what is held if it is time; the deadline of the next look otherwise.
  Nanoseconds release_held(Identifier& id, Nanoseconds now, Actions& out);
  static void tell_held(Identifier& id, Actions& out);

  // All of them (manager.cc).
  void apply(Identifier& id, Outcome& outcome, Nanoseconds now, Actions& out);
  /// False: nobody has the port.
  bool transmit(Identifier& id, const Message& message, Actions& out);
  void arm(Nanoseconds deadline);
  Connection& make_connection(Identifier& id);
  /// Not one that whoever knows the others can guess.
  CommId new_comm_id();
  TransactionId random_transaction();
  /// Peers on other hosts need it. False: none is left.
  bool claim_block();
  void forget_comm_ids(const Identifier& id);

  Devices& devices_;
  Links& links_;
  base::Random& random_;
  std::map<Handle, std::unique_ptr<Identifier>> ids_;
  std::map<CommId, Identifier*> by_comm_id_;  // of this end
  // Requests that arrived: the same one may come again.
  std::map<Asker, Identifier*> by_question_;
  std::multimap<ServiceId, Identifier*> listeners_;
  std::uint32_t last_handle_ = 0;
  CommIdBlock block_;  // 0: not claimed yet
  Nanoseconds next_deadline_ = kNever;
};

/// The program closes one listener before it opens the next: a question that falls between them
/// comes again by itself, after 0.1, 0.3 and 0.7 s, before the program hears that nobody is there.
bool asks_again(const Identifier& id, Nanoseconds now);

}  // namespace weft::cm
