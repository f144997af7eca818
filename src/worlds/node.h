// A simulated node: memory with several processes, and network interface controllers ("cards") with
// ports on the simulated network, all of it production code. A node outlives its crashes: what
// vanishes is its life, which owns processes, controllers and memory. Owned by the world; one
// thread.
//
// Whoever makes queue pairs on a node destroys them before the life ends, and names a handler for
// the completions of each; the node makes progress, polls and hands completions out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "path/directory.h"
#include "sim/network.h"
#include "sim/process_memory.h"
#include "sim/stage.h"
#include "verbs/controller.h"
#include "verbs/objects.h"
#include "weft/verbs.h"
#include "worlds/atomics.h"
#include "worlds/kernel_consumer.h"
#include "worlds/shadow.h"

namespace weft::worlds {

struct CardSpec {
  verbs::NodeKind kind = verbs::NodeKind::kHost;
  std::vector<Gid> ports;
  std::uint32_t completion_queues = 1;
  bool kernel_consumer = false;
  std::uint32_t max_queue_pairs = 256;  ///< of a host
};

struct NodeSpec {
  std::vector<CardSpec> cards;
  std::uint32_t processes = 1;
  verbs::PathPolicy path = verbs::PathPolicy::kAutomatic;
  sim::NodeMemory::Settings memory;
  path::ContextSettings contexts = {};
  Nanoseconds poll_delay_ns = 0;  ///< how long its programs sleep before they look for completions
};

/// Gets the completions that name its queue pair.
class CompletionHandler {
 public:
  virtual void on_completion(const Completion& completion) = 0;

 protected:
  ~CompletionHandler() = default;
};

struct SharedReceive;

/// A process of a node. Words that peers change by atomics belong to the process as a whole.
struct Process {
  static constexpr std::size_t kWords = 2;

  Process(sim::Stage& stage, sim::NodeMemory& memory, const std::string& name);

  sim::ProcessMemory vmm;
  Shadow shadow;
  std::uint64_t words_ea;
  std::vector<CounterCheck> counters;                           ///< the first kWords words
  std::vector<SwapCheck> swaps;                                 ///< the next kWords
  std::vector<verbs::ProtectionDomain> domains;                 ///< one for each card
  std::vector<verbs::MemoryRegion> word_regions;                ///< the same
  std::vector<std::shared_ptr<SharedReceive>> shared_receives;  ///< by card; made at first use
  GrantId words_grant = 0;

  std::uint64_t word_address(std::size_t word) const { return words_ea + 8 * word; }
  void check_words(sim::Judge& judge);
  /// Lets go of everything that stands on controllers.
  void let_go();
};

class Node final : public sim::Actor {
 public:
  /// `ready` is the world's list of nodes that have something to do at this instant.
  Node(sim::Stage& stage, sim::Network& network, std::uint32_t number, NodeSpec spec,
       std::vector<Node*>& ready);

  std::uint32_t number() const { return number_; }
  const NodeSpec& spec() const { return spec_; }

  void start();
  /// Everything vanishes without a word.
  void crash();
  bool up() const { return life_ != nullptr; }
  /// Counts starts; tells one life from another.
  std::uint32_t lives() const { return lives_; }

  sim::NodeMemory& memory() { return life_->memory; }
  Process& process(std::uint32_t i) { return *life_->processes[i]; }
  verbs::Controller& controller(std::uint32_t card) { return *life_->cards[card]->controller; }
  const verbs::CompletionQueue& completion_queue(std::uint32_t card, std::uint32_t i) {
    auto& queues = life_->cards[card]->queues;
    return queues[i % queues.size()];
  }
  verbs::Device device(std::uint32_t card) { return verbs::Device(life_->cards[card]->controller); }
  /// Of a card that has one.
  KernelConsumer& kernel(std::uint32_t card) { return *life_->cards[card]->kernel; }
  void set_handler(std::uint32_t card, Qpn qpn, CompletionHandler* handler);

  /// Lets the controllers that were woken do their work, and hands out completions.
  void progress();
  /// A program has posted something: it will look for completions.
  void stir();
  /// Hands out all completions of a card now, however lazy its programs are.
  void drain(std::uint32_t card);

  // For tests of the checkers: a queue pair that some handler waits for, and a completion that it
  // gets although no controller made it.
  std::optional<Qpn> any_queue_pair(std::uint32_t card) const;
  void deliver(std::uint32_t card, const Completion& completion) {
    hand_out(*life_->cards[card], completion);
  }

  /// Checks at the end of the life that nothing has leaked and no forbidden byte changed.
  void check_end();

  void on_event(std::uint64_t token) override;

 private:
  struct Card {
    std::shared_ptr<verbs::Controller> controller;
    std::vector<verbs::CompletionQueue> queues;
    std::unordered_map<Qpn, CompletionHandler*> handlers;
    std::unique_ptr<KernelConsumer> kernel;
    Nanoseconds timer_at = kNever;
    bool ready = false;
  };
  struct Life {
    explicit Life(const sim::NodeMemory::Settings& settings) : memory(settings) {}
    path::Directory directory;
    sim::NodeMemory memory;
    std::vector<std::unique_ptr<Card>> cards;
    std::vector<std::unique_ptr<Process>> processes;
    bool poll_planned = false;
  };
  static constexpr std::uint32_t kPoll = 0xFFFF'FFFF;  ///< instead of a card

  void start_card(std::uint32_t index);
  void wake(std::uint32_t card, Nanoseconds when);
  void set_ready(std::uint32_t card);
  void run(std::uint32_t card);
  void look_for_completions();
  void hand_out(Card& card, const Completion& completion);
  void account(const verbs::Controller& controller);
  std::uint64_t token(std::uint32_t card) const { return std::uint64_t{lives_} << 32 | card; }

  sim::Stage& stage_;
  sim::Network& network_;
  const std::uint32_t number_;
  const NodeSpec spec_;
  std::vector<Node*>& ready_;
  bool in_ready_ = false;
  std::vector<std::vector<std::uint32_t>> endpoints_;  ///< by card and port
  std::unique_ptr<Life> life_;
  std::uint32_t lives_ = 0;
};

}  // namespace weft::worlds
