// What the handles of a mesh share: the queue pairs and their completion queue, the table of peers,
// the links of those that speak, and one round of progress for all of them. As in a context of
// channels only few links are looked at in each round; the others ring. Owned by shared_ptr; one
// thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "channel/budget.h"
#include "mesh/lane.h"
#include "mesh/link.h"
#include "mesh/note.h"
#include "mesh/peers.h"
#include "weft/mesh.h"

namespace weft::mesh {

/// Of what is received; work that is sent is numbered below it.
inline constexpr std::uint64_t kReceiveId = std::uint64_t{1} << 63;

class MeshObject {
 public:
  static Result<std::shared_ptr<MeshObject>> open(const verbs::Device& device,
                                                  const Options& options);
  ~MeshObject();
  MeshObject(const MeshObject&) = delete;
  MeshObject& operator=(const MeshObject&) = delete;

  const Address& address() const { return address_; }
  Result<Peer> peer(const Address& address);
  const PeerTable& peers() const { return peers_; }

  Result<std::size_t> try_send(Peer to, std::span<const std::byte> message);
  Result<void> send(Peer to, std::span<const std::byte> message, Deadline deadline);
  std::optional<Message> try_receive();
  std::vector<Closed> take_closed();
  Result<void> close(const std::vector<Peer>& peers, Deadline deadline);
  std::vector<Peer> open_peers() const;

  bool poll();
  bool wait(Deadline deadline);
  bool arm();
  int fd() const { return epoll_; }

  PeerStatistics statistics(Peer peer) const;
  Figures figures() const;

 private:
  MeshObject(const verbs::Device& device, const Options& options, verbs::ProtectionDomain pd,
             verbs::MemoryRegion everything);
  Result<void> open_lanes();
  Result<void> open_epoll();
  Result<void> post_receive(std::uint64_t index);
  /// One step of it; true: it is closed.
  bool close_step(Peer peer);
  /// Ends it, closed or not.
  void close_now(Peer peer);
  /// The last words have left.
  bool has_said_all() const;

  // greeting.cc: how links begin and end
  std::shared_ptr<Link> make_link(Peer peer, Phase phase);
  bool greet(Peer peer);
  void on_note(const Note& note, Qpn source);
  void on_ask(const Note& note);
  void on_welcome(const Note& note);
  void on_ready(const Note& note);
  void on_part(Link& link, const Note& note);
  void refuse(const Note& ask);
  std::optional<Peer> caller(const Note& ask);
  /// The link that a note is for: both names are as they should be. Null: there is none.
  Link* link_of(const Note& note);
  void ask_to_part(Link& link);
  void leave(Link& link);
  void await_answer(Link& link);
  void stop_waiting(Link& link);
  void end(Link& link);
  void lose(Link& link, std::string why);

  // rounds.cc: progress
  Link* current(Peer peer) const;
  void on_completion(const Completion& completion);
  void on_receive(const Completion& completion);
  void on_sent(Lane& lane, const Completion& completion);
  void on_bell(std::uint32_t number, Qpn source);
  bool poll_completions();
  void activate(Link& link);
  void note_ready(Link& link);
  bool visit(Link& link);
  void rest(Link& link);
  void visit_active(bool& any);
  void visit_grown();
  void visit_waiting();
  void visit_idle();
  void visit_graves();
  void set_timer();
  void take_wakeups();
  bool take_back_lent(Peer to);

  const Options options_;
  const channel::Settings settings_;
  const verbs::Device device_;
  const verbs::ProtectionDomain pd_;
  const verbs::MemoryRegion everything_;
  channel::Budget budget_;
  const Ground ground_;
  std::optional<verbs::CompletionChannel> events_;
  std::optional<verbs::CompletionQueue> cq_;
  std::optional<verbs::SharedReceiveQueue> receives_;
  std::vector<std::byte> notes_;  ///< where notes come in
  std::unique_ptr<Lane> greeter_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Address address_;
  int epoll_ = -1, timer_ = -1;
  bool armed_ = false;
  bool starved_ = false;  ///< somebody had no memory for a peer

  PeerTable peers_;
  std::vector<std::shared_ptr<Link>> links_;  ///< by number
  std::vector<std::uint32_t> free_numbers_;
  std::uint32_t last_serial_ = 0, next_lane_ = 0;
  std::uint32_t waiting_ = 0, greeted_ = 0;  ///< links with a deadline; of them, of others' asks
  std::vector<Link*> active_, grown_;
  std::deque<std::shared_ptr<Link>> ready_;
  /// Ended, with work outstanding that may touch its memory.
  struct Grave {
    std::shared_ptr<Link> link;
    std::uint64_t until;  ///< of its lane
  };
  std::vector<Grave> graves_;
  std::vector<Closed> closed_;
  Figures figures_;
  std::uint32_t watching_ = 0;
  Nanoseconds now_ = 0, grown_at_ = 0, waiting_at_ = 0, idle_at_ = 0;
};

}  // namespace weft::mesh
