// Reliable datagram queue pairs that work with each other at random, over the contexts between
// their nodes, and the checks on what comes of it: each message arrives exactly once and in order
// per pair of queue pairs, whole and unchanged; requests fail only for a reason, alone, and
// complete in the order in which they were posted. Owned by the world; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "worlds/end.h"
#include "worlds/link_spec.h"
#include "worlds/node.h"

namespace weft::worlds {

struct ReliableDatagramSpec {
  std::vector<EndSpec> members;
  QueuePairAttributes attributes;
  std::uint32_t slot_bytes = 2048;
  std::uint32_t requests = 0;
  std::uint32_t receive_buffers = 8;
  std::uint32_t mischief = 0;  ///< one request in this many is refused; 0: none
  std::uint32_t upheaval = 0;  ///< one queue pair ends in this many bursts; 0: none
  Nanoseconds pause_ns = 10'000;
};

class ReliableDatagrams final : public sim::Actor {
 public:
  ReliableDatagrams(sim::Stage& stage, const ReliableDatagramSpec& spec,
                    const std::vector<std::unique_ptr<Node>>& nodes, Nanoseconds healed_at);
  ~ReliableDatagrams();

  void start();
  void on_crash(const Node& node);
  /// Lets go of all queue pairs, before their nodes go.
  void abandon();
  bool closed() const { return closed_; }
  void on_event(std::uint64_t token) override;

 private:
  /// Of one request, for ever: what it was, and what became of it.
  struct Request {
    std::size_t from, to;
    std::uint32_t from_life, to_life;
    SendOp op;
    std::uint32_t length;
    std::uint64_t order;  ///< among the messages from one queue pair to another
    bool immediate = false;
    bool succeeded = false, arrived = false;
    CompletionStatus expected = CompletionStatus::kSuccess;
    std::uint64_t word = 0, operand = 0;
    std::uint64_t read_from = 0;
    int landing_slot = -1, area_slot = -1;
    GrantId landing_grant = 0;
  };
  struct Pair {
    std::uint64_t posted = 0, received = 0;
    bool area_busy = false;  ///< a write is under way to where only this pair writes
  };
  struct Member;

  bool send(Member& from);
  void choose(Member& from, Member& to, Request& request, SendRequest& out);
  void on_sent(Member& from, std::uint64_t wr_id, CompletionStatus status);
  void on_message(Member& to, const Completion& completion, std::span<const std::byte> bytes);
  bool may_fail(const Request& request, CompletionStatus status) const;
  void stir_up();
  void check_end();
  bool idle() const;
  Pair& pair_of(const Request& request) {
    return pairs_[{{request.from, request.from_life}, {request.to, request.to_life}}];
  }

  sim::Stage& stage_;
  const ReliableDatagramSpec spec_;
  const Nanoseconds healed_at_;
  const std::uint64_t key_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Request> requests_;
  std::map<std::uint64_t, std::size_t> by_wr_id_;
  using Life = std::pair<std::size_t, std::uint32_t>;
  std::map<std::pair<Life, Life>, Pair> pairs_;
  std::uint32_t requests_left_;
  Nanoseconds deadline_ = kNever;
  bool upset_ = false;  ///< a queue pair or a node has ended
  bool closed_ = false;
};

}  // namespace weft::worlds
