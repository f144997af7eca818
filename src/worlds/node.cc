#include "worlds/node.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "sim/sim_port.h"
#include "worlds/receive_buffers.h"

namespace weft::worlds {
namespace {

/// More rounds than any honest work of one instant takes.
constexpr int kMaxRounds = 100'000;
constexpr std::uint32_t kCompletionCapacity = 1u << 14;

}  // namespace

Process::Process(sim::Stage& stage, sim::NodeMemory& memory, const std::string& name)
    : vmm(memory), shadow(stage, vmm, name) {
  words_ea = shadow.allocate(sim::kPageBytes) + 64;
  words_grant = shadow.grant(words_ea, 2 * kWords * 8);
  for (std::size_t i = 0; i < 2 * kWords; ++i) {
    const std::uint64_t initial = stage.random.next() >> 16;
    shadow.store(word_address(i), std::as_bytes(std::span(&initial, 1)));
    if (i < kWords) {
      counters.emplace_back(fmt::format("{}, counter {}", name, i), initial);
    } else {
      swaps.emplace_back(fmt::format("{}, swap word {}", name, i - kWords), initial);
    }
  }
}

void Process::check_words(sim::Judge& judge) {
  std::array<std::uint64_t, 2 * kWords> values{};
  shadow.load(words_ea, std::as_writable_bytes(std::span(values)));
  for (std::size_t i = 0; i < kWords; ++i) {
    counters[i].check_final(values[i], judge);
    swaps[i].check_final(values[kWords + i], judge);
  }
}

void Process::let_go() {
  shared_receives.clear();
  word_regions.clear();
  domains.clear();
}

Node::Node(sim::Stage& stage, sim::Network& network, std::uint32_t number, NodeSpec spec,
           std::vector<Node*>& ready)
    : stage_(stage), network_(network), number_(number), spec_(std::move(spec)), ready_(ready) {
  for (std::uint32_t card = 0; card < spec_.cards.size(); ++card) {
    auto& ports = endpoints_.emplace_back();
    for (const Gid& address : spec_.cards[card].ports) {
      ports.push_back(network_.add_endpoint(
          address, number_,
          fmt::format("{}{}{}", number_, static_cast<char>('a' + card), ports.size() + 1)));
    }
  }
}

void Node::start() {
  ++lives_;
  life_ = std::make_unique<Life>(spec_.memory);
  for (std::uint32_t i = 0; i < spec_.cards.size(); ++i) start_card(i);
  for (std::uint32_t i = 0; i < spec_.processes; ++i) {
    auto process = std::make_unique<Process>(stage_, life_->memory,
                                             fmt::format("node {}, process {}", number_, i));
    for (const auto& card : life_->cards) {
      auto object = std::make_shared<verbs::PdObject>();
      object->controller = card->controller;
      object->id = card->controller->new_pd();
      object->space = &process->vmm;
      const auto& domain = process->domains.emplace_back(std::move(object));
      process->word_regions.push_back(
          domain
              .register_range(process->words_ea, 2 * Process::kWords * 8,
                              Access::kLocalWrite | Access::kRemoteAtomic)
              .value());
    }
    process->shared_receives.resize(life_->cards.size());
    life_->processes.push_back(std::move(process));
  }
}

void Node::start_card(std::uint32_t index) {
  const CardSpec& spec = spec_.cards[index];
  verbs::ControllerSetup setup;
  setup.name = fmt::format("node{}{}", number_, static_cast<char>('a' + index));
  setup.kind = spec.kind;
  setup.path = spec_.path;
  setup.contexts = spec_.contexts;
  if (spec.kind == verbs::NodeKind::kHost) setup.max_queue_pairs = spec.max_queue_pairs;
  for (std::size_t port = 0; port < spec.ports.size(); ++port) {
    setup.ports.push_back(
        {spec.ports[port],
         std::make_unique<sim::SimPort>(stage_, network_, endpoints_[index][port], spec.ports[port],
                                        Mtu::k4096, [this, index] { set_ready(index); })});
  }
  auto card = std::make_unique<Card>();
  card->controller = verbs::Controller::create({&stage_.clock, &stage_.random, &life_->directory},
                                               std::move(setup))
                         .value();
  card->controller->engine().set_wake([this, index](Nanoseconds when) { wake(index, when); });
  const verbs::Device device(card->controller);
  for (std::uint32_t i = 0; i < spec.completion_queues; ++i) {
    card->queues.push_back(device.create_cq(kCompletionCapacity).value());
  }
  if (spec.kernel_consumer) {
    card->kernel = std::make_unique<KernelConsumer>(life_->memory, card->controller);
  }
  life_->cards.push_back(std::move(card));
}

void Node::crash() {
  if (life_ == nullptr) return;
  for (const auto& card : life_->cards) account(*card->controller);
  stage_.stats.swapped_out += life_->memory.counters().swap_outs;
  stage_.stats.swapped_in += life_->memory.counters().swap_ins;
  // Regions and domains first, then the controllers with their ports, then processes and memory.
  for (const auto& process : life_->processes) process->let_go();
  life_->cards.clear();
  life_.reset();
}

void Node::account(const verbs::Controller& controller) {
  const obs::Counters& counters = const_cast<verbs::Controller&>(controller).counters();
  stage_.stats.retransmissions += counters.get(obs::Counter::kRetransmissions);
  stage_.stats.timeouts += counters.get(obs::Counter::kTimeouts);
  stage_.stats.receiver_not_ready += counters.get(obs::Counter::kRnrNaksSent);
}

void Node::set_handler(std::uint32_t card, Qpn qpn, CompletionHandler* handler) {
  auto& handlers = life_->cards[card]->handlers;
  if (handler == nullptr) {
    handlers.erase(qpn);
  } else {
    handlers[qpn] = handler;
  }
}

// ---- progress -------------------------------------------------------------------------------

void Node::set_ready(std::uint32_t card) {
  life_->cards[card]->ready = true;
  stir();
}

void Node::stir() {
  if (std::exchange(in_ready_, true)) return;
  ready_.push_back(this);
}

void Node::wake(std::uint32_t card, Nanoseconds when) {
  // During start and crash there is no card to wake.
  if (life_ == nullptr || card >= life_->cards.size()) return;
  if (when <= stage_.now()) return set_ready(card);
  if (when >= life_->cards[card]->timer_at) return;
  life_->cards[card]->timer_at = when;
  stage_.events.at(when, *this, token(card));
}

void Node::on_event(std::uint64_t event) {
  if (life_ == nullptr || event >> 32 != lives_) return;  // a note to an earlier life
  const auto card = static_cast<std::uint32_t>(event);
  if (card == kPoll) {
    life_->poll_planned = false;
    for (std::uint32_t i = 0; i < life_->cards.size(); ++i) drain(i);
    return;
  }
  life_->cards[card]->timer_at = kNever;
  set_ready(card);
}

void Node::progress() {
  in_ready_ = false;
  if (life_ == nullptr) return;
  for (std::uint32_t i = 0; i < life_->cards.size(); ++i) {
    if (life_->cards[i]->ready) run(i);
  }
  look_for_completions();
}

/// On all cards: the direct path completes work of one card while another makes progress.
void Node::look_for_completions() {
  if (spec_.poll_delay_ns != 0) {
    if (std::exchange(life_->poll_planned, true)) return;
    return stage_.after(stage_.random.below(spec_.poll_delay_ns) + 1, *this, token(kPoll));
  }
  for (std::uint32_t i = 0; i < life_->cards.size(); ++i) drain(i);
}

void Node::run(std::uint32_t index) {
  Card& card = *life_->cards[index];
  path::Engine& engine = card.controller->engine();
  int rounds = 0;
  while (engine.progress()) {
    if (++rounds < kMaxRounds) continue;
    stage_.judge.violated(
        fmt::format("{} finds work for ever at one instant", card.controller->info().name));
    break;
  }
  card.ready = false;
  wake(index, engine.next_deadline());
}

void Node::drain(std::uint32_t index) {
  Card& card = *life_->cards[index];
  // Polling an empty queue makes progress, which may fill one that was empty before.
  bool found = true;
  while (std::exchange(found, false)) {
    while (card.controller->engine().progress()) continue;
    for (const verbs::CompletionQueue& queue : card.queues) {
      std::array<Completion, 64> done;
      while (const std::size_t n = queue.poll(done)) {
        found = true;
        for (std::size_t i = 0; i < n; ++i) hand_out(card, done[i]);
      }
    }
  }
}

void Node::hand_out(Card& card, const Completion& completion) {
  stage_.trace.completed(number_, completion);
  const auto handler = card.handlers.find(completion.qpn);
  if (handler != card.handlers.end()) return handler->second->on_completion(completion);
  stage_.judge.violated(
      fmt::format("{}: a completion of request #{} names queue pair {:#x}, which is gone",
                  card.controller->info().name, completion.wr_id, completion.qpn.value));
}

std::optional<Qpn> Node::any_queue_pair(std::uint32_t card) const {
  const auto& handlers = life_->cards[card]->handlers;
  if (handlers.empty()) return {};
  return handlers.begin()->first;
}

// ---- the end --------------------------------------------------------------------------------

void Node::check_end() {
  if (life_ == nullptr) return;
  for (const auto& process : life_->processes) {
    process->check_words(stage_.judge);
    process->let_go();
    process->shadow.revoke(process->words_grant);
    if (process->shadow.grants() != 0) {
      stage_.judge.violated(
          fmt::format("node {}: {} grants are left over", number_, process->shadow.grants()));
    }
    process->shadow.check_untouched();
  }
  for (const auto& card : life_->cards) {
    verbs::Controller& controller = *card->controller;
    card->kernel.reset();
    if (controller.live_queue_pairs() != 0 || controller.keys().live_regions() != 0 ||
        controller.keys().live_windows() != 0) {
      stage_.judge.violated(
          fmt::format("{}: {} queue pairs, {} regions and {} windows are left over",
                      controller.info().name, controller.live_queue_pairs(),
                      controller.keys().live_regions(), controller.keys().live_windows()));
    }
    if (controller.counters().get(obs::Counter::kCompletionOverruns) != 0) {
      stage_.judge.violated(controller.info().name + ": a completion was lost to a full queue");
    }
  }
  if (life_->memory.held_frames() != 0) {
    stage_.judge.violated(fmt::format("node {}: {} page frames are still held", number_,
                                      life_->memory.held_frames()));
  }
}

}  // namespace weft::worlds
