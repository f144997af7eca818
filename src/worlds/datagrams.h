// Datagram queue pairs that send to each other at random, and the checks on what arrives: each
// datagram is one that somebody sent to this address with the right Q_Key, whole and unchanged,
// with a global header that names the sender; repeated only if the network repeats. Owned by the
// world; one thread.
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

struct DatagramSpec {
  std::vector<EndSpec> members;
  Mtu mtu = Mtu::k1024;
  std::uint32_t requests = 0;
  Nanoseconds pause_ns = 10'000;
};

class Datagrams final : public sim::Actor {
 public:
  Datagrams(sim::Stage& stage, const DatagramSpec& spec,
            const std::vector<std::unique_ptr<Node>>& nodes);
  ~Datagrams();

  void start();
  void on_crash(const Node& node);
  /// Lets go of all queue pairs, before their nodes go.
  void abandon() { members_.clear(); }
  bool closed() const { return closed_; }
  void on_event(std::uint64_t token) override;

 private:
  struct Sent {
    std::uint32_t length;
    std::size_t to;
    bool immediate;
    bool right_key;
    std::uint32_t arrivals;
  };
  /// What was sent by one queue pair; it outlives the queue pair, as frames may.
  struct Sender {
    std::uint64_t key;
    std::vector<Sent> sent;
  };
  struct Member final : CompletionHandler {
    Member(Datagrams& owner, Node& node, const EndSpec& where, std::size_t index);
    void open();
    void close();
    bool open_now() const { return qp.has_value(); }
    Process& process() const { return node.process(where.process); }
    Gid address() const { return node.spec().cards[where.card].ports[where.port - 1u]; }
    void on_completion(const Completion& completion) override;
    void on_datagram(const Completion& completion, const ReceiveBuffers::Buffer& buffer);
    void refill();

    Datagrams& owner;
    Node& node;
    const EndSpec where;
    const std::size_t index;
    std::optional<verbs::QueuePair> qp;
    std::unique_ptr<ReceiveBuffers> receives;
    Slots outbox;
    WorkLedger ledger;
    Sender* sender = nullptr;
    QKey qkey;
  };

  void send(Member& from);

  sim::Stage& stage_;
  const DatagramSpec spec_;
  std::vector<std::unique_ptr<Member>> members_;
  std::map<std::pair<Gid, Qpn>, std::unique_ptr<Sender>> senders_;
  std::uint32_t requests_left_;
  bool closed_ = false;
};

}  // namespace weft::worlds
