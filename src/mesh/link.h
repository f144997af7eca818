// One incarnation of a pair: the endpoint of the channel protocol, the memory that it has, and the
// way to the peer. Made when a peer speaks or is spoken to, gone when it is silent again.
//
//   kAsking  --welcome--> kOpen  <--ready--  kGreeted
//                         |   ^
//              part, close|   | stay                      any --failure, end--> kEnded
//                         v   |
//                  kParting, kClosing --all is taken--> kLeaving
//
// Owned by the mesh; by the messages that look into its rings; and, when it has ended, until no
// work of its queue pair can touch its memory any more. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "channel/budget.h"
#include "channel/endpoint.h"
#include "mesh/lane.h"
#include "mesh/note.h"
#include "weft/mesh.h"

namespace weft::mesh {

enum class Phase : std::uint8_t { kAsking, kGreeted, kOpen, kParting, kClosing, kLeaving, kEnded };

/// What all links of a mesh share.
struct Ground {
  const channel::Settings& settings;
  const verbs::ProtectionDomain& pd;
  LocalKey everything;  ///< of all memory of the process, for this end's own use
  channel::Budget& budget;
};

class Link final : public channel::Wires {
 public:
  Link(const Ground& ground, Lane& lane, Peer peer, const Address& address, const Mark& mark,
       std::uint64_t name);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Control block and first rings. False: no memory.
  bool start();
  channel::Hello hello() const;
  void meet(const Note& note);
  bool send_note(Lane& by, NoteKind kind, const Address& own);
  /// Its keys are dead when this returns, what waited for its turn is dropped, and the peer is
  /// never spoken to again. What has arrived can still be delivered.
  void end();

  channel::Endpoint& endpoint() { return *endpoint_; }
  const channel::Endpoint& endpoint() const { return *endpoint_; }
  Lane& lane() const { return lane_; }
  const Address& address() const { return address_; }
  std::uint64_t name() const { return name_; }
  std::uint64_t peer_name() const { return peer_name_; }
  std::uint64_t charged_bytes() const { return charged_; }
  /// Nothing is under way at this end, and only the first rings are there. Whether the peer has
  /// consumed all, the peer knows.
  bool is_quiet() const;
  std::uint32_t frames_sent() const {
    return static_cast<std::uint32_t>(endpoint_->send().figures().frames);
  }
  void take_back(std::span<const std::byte> message, std::uint32_t frame, void* region);

  // Wires
  std::optional<channel::Ring> provision(channel::RingUse use, std::uint32_t phase,
                                         std::uint32_t slots, std::uint32_t slot_bytes) override;
  void unregister(channel::Ring& ring) override;
  void release(channel::Ring& ring) override;
  std::optional<channel::Region> lend(std::span<const std::byte> bytes) override;
  std::optional<channel::Region> borrow(std::uint64_t bytes) override;
  void give_back(channel::Region& region) override;
  bool post(const channel::Work& work) override;

  const Peer peer;
  const Mark mark;  ///< of its work: its number, and its serial
  Qpn peer_lane;    ///< by which the peer's messages come
  Phase phase = Phase::kAsking;

  // The mesh's notes.
  bool active = false, grown = false, ready = false, blocked = false;
  bool rung = false;  ///< while it was kParting
  std::uint32_t views = 0;
  std::uint32_t frames_seen = 0;
  Nanoseconds last_event_ns = 0;
  Nanoseconds deadline_ns = kNever;  ///< of an answer that must come

 private:
  struct Memory;
  Memory* allocate(std::uint64_t bytes, bool cleared);
  void free(Memory* memory);

  const Ground& ground_;
  Lane& lane_;
  const Address address_;
  const std::uint64_t name_;
  std::uint64_t peer_name_ = 0;
  std::uint32_t peer_channel_ = 0;  ///< what the peer's bells for this pair say
  std::uint64_t charged_ = 0;
  std::vector<std::unique_ptr<Memory>> memory_;  ///< few
  Memory* control_ = nullptr;
  std::unique_ptr<channel::Endpoint> endpoint_;
};

}  // namespace weft::mesh
