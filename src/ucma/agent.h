// The connection manager of this process: all identifiers, the exchange with other processes and
// other hosts, and the one thread that waits for messages and times, which runs from the first open
// to the end of the process. Made at the first open, lives for ever; a child after fork gets
// another one. Whoever calls holds the lock (Guard), except where said.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "base/lock.h"
#include "cm/host_exchange.h"
#include "host/fork.h"
#include "ucma/events.h"
#include "ucma/identifier.h"
#include "weft/result.h"
#include "weft/verbs.h"

namespace weft::ucma {

/// In place of a link: the peer is on another host. Nobody is told when it dies.
inline constexpr cm::LinkId kNetworkLink{~std::uint32_t{0}};

class Agent {
 public:
  /// This process's; null: errno tells why. Without the lock.
  static Agent* mine();

  /// A child must find neither the lock held nor anything half changed.
  class Guard {
   public:
    explicit Guard(Agent& agent) : guard_(agent.lock_) {}

   private:
    host::ForkHold hold_;
    std::lock_guard<base::Lock> guard_;
  };

  /// Opens the shown devices that reach other hosts, once. Without the lock: it may wait.
  void join_network();
  /// Null: the device reaches this host alone.
  const verbs::Device* network_device(const files::ShownDevice& device) const;

  /// 0, or why the thread cannot be started.
  int add(File& file);
  /// With everything of it.
  void remove(File& file);
  bool has(const File& file) const { return files_.contains(const_cast<File*>(&file)); }

  /// Null: too many.
  Identifier* create(File& file, cm::PortSpace space, QpType type, UserTag tag);
  Identifier* find(Handle handle);
  void destroy(Identifier& id);
  void migrate(Identifier& id, File& to);

  // Below: 0 or an errno value.

  /// The identifier's traffic goes through this device.
  void use(Identifier& id, const files::ShownDevice& device) const;
  /// 1: 256 bytes to 5: 4096, the longest payload that the device carries.
  std::uint8_t mtu_code_of(const files::ShownDevice& device) const;
  /// Takes the port; 0 picks one.
  int bind(Identifier& id, const Endpoint& where);
  /// Without taking the port from others: for a source that nobody connects to.
  void assume_port(Identifier& id);
  int listen(Identifier& id, std::uint32_t backlog);
  /// Whether a bind to all IPv6 addresses means IPv4 ones too.
  int restrict_family(Identifier& id, bool only_own);

  int connect(Identifier& id, cm::Request terms, std::span<const std::byte> private_data);
  int ask(Identifier& id, std::span<const std::byte> private_data);
  int accept(Identifier& id, const cm::Reply& terms);
  int answer(Identifier& id, const cm::ServiceReply& reply);
  int confirm(Identifier& id);
  int reject(Identifier& id, cm::RejectReason reason, std::span<const std::byte> private_data);
  int disconnect(Identifier& id);
  int on_data(Identifier& id);

  Multicast& join(Identifier& id, const Gid& group, UserTag tag);
  std::pair<Identifier*, Multicast*> find_group(Handle handle);
  /// How many of its events were reported.
  std::uint32_t leave(Identifier& id, Handle group);

  /// To the program, if it knows the identifier.
  void post(Identifier& id, const QueuedEvent& event);
  void post(Identifier& id, EventCode code, int status) { post(id, make_event(id, code, status)); }
  /// The program has got it.
  void reported(const QueuedEvent& event);
  /// A program asks again and again, without waiting: it does the thread's work meanwhile, which
  /// saves two changes of thread for each message.
  void poll();

 private:
  explicit Agent(cm::HostExchange exchange);

  // Where ports are (agent_ports.cc).
  cm::Place place_of(const Identifier& id, cm::Port port) const;
  int take_port(Identifier& id);
  Identifier* find_listener(cm::ServiceId service, const Gid& address);
  bool is_about_to_listen(cm::ServiceId service, const Gid& address) const;

  /// Whose question it was: on a link the peer's numbers are the link's, on the network each host
  /// has its own.
  struct Asker {
    cm::LinkId link;
    Gid host;
    cm::CommId number;
    friend auto operator<=>(const Asker&, const Asker&) = default;
  };
  static Asker asker_of(const Identifier& id, cm::CommId number);

  // What arrives (agent_arrivals.cc).
  void on_packet(const cm::HostExchange::Arrival& arrival);
  void on_link_gone(cm::LinkId link);
  template <class Question>
  void on_question(cm::LinkId link, const cm::Packet& packet, const Question& question);
  template <class Question>
  static bool is_credible(const cm::HostExchange::Arrival& arrival, const Question& question);
  void count_refused(const cm::Packet& packet) const;
  void start(Identifier& child, const cm::Packet& packet, const cm::Request& request);
  void start(Identifier& child, const cm::Packet& packet, const cm::ServiceRequest& request);
  void on_answer(cm::LinkId link, const cm::Packet& packet);
  Identifier* addressee(cm::LinkId link, const cm::Packet& packet);
  void on_stray(cm::LinkId link, const cm::Packet& packet);
  void refuse(cm::LinkId link, const cm::Packet& packet, const cm::Request& request,
              cm::RejectReason reason);
  void refuse(cm::LinkId link, const cm::Packet& packet, const cm::ServiceRequest& request,
              cm::RejectReason reason);
  bool retry_elsewhere(Identifier& id, const cm::Message& message);
  static bool asks_again(const Identifier& id);

  /// The program ends without closing anything: peers on other hosts are told, since nothing else
  /// tells them.
  void farewell();

  // The end of a connection waits for its last messages (agent_last_messages.cc).
  void report(Identifier& id, const cm::Event& event);
  static bool has_unfetched(const Identifier& id);
  /// Posts what is held if it is time; the deadline of the next look otherwise.
  Nanoseconds release_held(Identifier& id, Nanoseconds now);
  void post_held(Identifier& id);

  // The thread and the way out (agent.cc).
  static void run(Agent& agent);
  /// True: the exchange has no room for more peers now.
  bool step();
  bool is_polled() const;
  void on_timers(Nanoseconds now);
  void arm(Nanoseconds deadline);
  void set_timer();
  void apply(Identifier& id, cm::Outcome& out);
  bool transmit(Identifier& id, const cm::Message& message);
  void send(cm::LinkId link, const cm::Packet& packet);
  void begin(Identifier& id, cm::Outcome& out);
  void nobody_there(Identifier& id, cm::Outcome& out);
  /// Peers on other hosts need it. False: none is left.
  bool claim_block();
  static Psn random_psn();
  static cm::TransactionId random_transaction();
  /// Not one that whoever knows the others can guess.
  cm::CommId new_comm_id() const;
  void forget_comm_ids(const Identifier& id);

  base::Lock lock_;
  cm::HostExchange exchange_;
  bool running_ = false;
  std::set<File*> files_;
  std::map<Handle, std::unique_ptr<Identifier>> ids_;
  std::map<cm::CommId, Identifier*> by_comm_id_;  // of this end
  // Requests that arrived: the same one may come again.
  std::map<Asker, Identifier*> by_question_;
  std::multimap<cm::ServiceId, Identifier*> listeners_;
  std::uint32_t last_handle_ = 0, last_group_ = 0;
  cm::CommIdBlock block_;  // 0: not claimed yet
  std::map<const files::ShownDevice*, verbs::Device> network_;
  // The timer goes off at the next deadline, or earlier if that has moved: nothing is due then, and
  // it is set again.
  Nanoseconds next_deadline_ = kNever, timer_at_ = kNever;
  // When a program last asked, and when it last did the thread's work. Under the lock.
  Nanoseconds asked_at_ = 0, polled_at_ = 0;
};

}  // namespace weft::ucma
