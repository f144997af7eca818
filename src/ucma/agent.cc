#include "ucma/agent.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "base/random.h"
#include "cm/network_messages.h"
#include "obs/log.h"
#include "ucma/clock.h"
#include "ucma/file.h"
#include "ucma/local_addresses.h"
#include "verbs/controller.h"

namespace weft::ucma {
namespace {

// What librdmacm can index.
constexpr std::size_t kMostIds = 65'536;
/// Who asks twice within this time looks all the time, and does not sleep until it is told.
constexpr Nanoseconds kAsksAgain = 20'000;
/// Who asked so lately will ask again: the thread looks only then whether that was so.
constexpr Nanoseconds kPolledPause = 100'000;

// Written by whoever opens first and, null, by a child after fork, which has one thread then.
// release and acquire: whoever finds it sees it made.
constinit std::atomic<Agent*> current{nullptr};
constinit base::Lock making;

}  // namespace

Agent* Agent::mine() {
  const host::ForkHold hold;
  const std::lock_guard lock(making);
  Agent* agent = current.load(std::memory_order_acquire);
  if (agent != nullptr) return agent;
  static const bool registered = [] {
    // The parent's is left alone: its descriptors are closed here, and it is nobody's any more.
    host::call_in_child([] { current.store(nullptr, std::memory_order_release); });
    std::atexit([] {
      Agent* const left = current.load(std::memory_order_acquire);
      if (left != nullptr) left->farewell();
    });
    return true;
  }();
  static_cast<void>(registered);
  auto exchange = cm::HostExchange::create();
  if (!exchange) {
    obs::log().error("{}", exchange.error().message);
    errno = EMFILE;
    return nullptr;
  }
  agent = new Agent(std::move(*exchange));
  current.store(agent, std::memory_order_release);
  return agent;
}

Agent::Agent(cm::HostExchange exchange) : exchange_(std::move(exchange)) {}

int Agent::add(File& file) {
  files_.insert(&file);
  if (running_) return 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this] { run(*this); }).detach();
    running_ = true;
  } catch (const std::system_error&) {
    files_.erase(&file);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return running_ ? 0 : EAGAIN;
}

void Agent::remove(File& file) {
  for (;;) {
    const auto found = std::find_if(ids_.begin(), ids_.end(),
                                    [&](const auto& each) { return each.second->file == &file; });
    if (found == ids_.end()) break;
    destroy(*found->second);
  }
  files_.erase(&file);
}

void Agent::run(Agent& agent) {
  pthread_setname_np(pthread_self(), "weft-cm");
  // It never ends: a thread's end frees and unmaps memory, and libraries such as libfabric patch
  // the functions that do so while other threads run.
  for (;;) {
    int fd = -1;
    {
      const Guard guard(agent);
      fd = agent.exchange_.fd();
    }
    // The program closed what it does not know: nothing will ever come.
    while (fd < 0) ::pause();
    // Deadlines are in the descriptor too, and whatever a program that polls leaves undone keeps it
    // readable: nobody has to tell this thread when to look again.
    epoll_event event;
    epoll_wait(fd, &event, 1, -1);
    bool tired = false, polled = false;
    {
      const Guard guard(agent);
      polled = agent.is_polled();
      if (!polled) tired = agent.step();
    }
    if (polled) std::this_thread::sleep_for(std::chrono::nanoseconds(kPolledPause));
    // No descriptor is left for a peer that waits: looking again at once would not help.
    if (tired) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

bool Agent::is_polled() const { return now() - polled_at_ < kPolledPause; }

void Agent::poll() {
  step();
  const Nanoseconds time = now();
  if (time - asked_at_ < kAsksAgain) polled_at_ = time;
  asked_at_ = time;
}

bool Agent::step() {
  for (const auto& arrival : exchange_.collect()) {
    if (arrival.packet) {
      on_packet(arrival);
    } else {
      on_link_gone(arrival.link);
    }
  }
  const Nanoseconds time = now();
  if (time >= next_deadline_) on_timers(time);
  if (time >= timer_at_) set_timer();
  return exchange_.overloaded();
}

void Agent::on_timers(Nanoseconds time) {
  next_deadline_ = kNever;
  for (const auto& [handle, id] : ids_) {
    cm::Outcome out;
    if (id->connection) id->connection->on_timer(time, out);
    if (id->query) id->query->on_timer(time, out);
    apply(*id, out);
    if (!id->held.empty()) arm(release_held(*id, time));
  }
}

void Agent::arm(Nanoseconds deadline) {
  if (deadline >= next_deadline_) return;
  next_deadline_ = deadline;
  if (deadline < timer_at_) set_timer();
}

void Agent::set_timer() {
  timer_at_ = next_deadline_;
  exchange_.wake_at(timer_at_);
}

Identifier* Agent::create(File& file, cm::PortSpace space, QpType type, UserTag tag) {
  if (ids_.size() >= kMostIds / 2) return nullptr;
  // Not the number that was freed last: librdmacm may not have cleared its own entry yet.
  do {
    last_handle_ = (last_handle_ + 1) % kMostIds;
  } while (ids_.contains(Handle(last_handle_)));
  auto id = std::make_unique<Identifier>();
  id->handle = Handle(last_handle_);
  id->tag = tag;
  id->file = &file;
  id->space = space;
  id->qp_type = type;
  constexpr QKey kUdpKey{0x01234567};
  id->qkey = kUdpKey;
  return ids_.emplace(id->handle, std::move(id)).first->second.get();
}

Identifier* Agent::find(Handle handle) {
  const auto found = ids_.find(handle);
  return found == ids_.end() ? nullptr : found->second.get();
}

void Agent::destroy(Identifier& id) {
  cm::Outcome out;
  if (id.connection) id.connection->close(out);
  if (id.answer && !id.answer->answered()) {
    cm::ServiceReply no;
    no.status = cm::ServiceStatus::kReject;
    id.answer->answer(no, out);
  }
  for (const auto& message : out.messages) transmit(id, message);
  const auto events = id.file->take_of(id.handle);
  for (const QueuedEvent& event : events) {
    // A request that the program never saw.
    Identifier* const child = event.has_child ? find(event.child) : nullptr;
    if (child != nullptr) destroy(*child);
  }
  if (id.active) exchange_.release(id.link);
  exchange_.unbind(id.binding);
  std::erase_if(listeners_, [&](const auto& each) { return each.second == &id; });
  forget_comm_ids(id);
  ids_.erase(id.handle);
}

void Agent::forget_comm_ids(const Identifier& id) {
  if (id.connection) {
    by_comm_id_.erase(id.connection->local());
    if (!id.active) by_question_.erase(asker_of(id, id.connection->remote()));
  }
  if (id.query) by_comm_id_.erase(id.query->local());
  if (id.answer) by_question_.erase(asker_of(id, id.answer->question()));
}

void Agent::migrate(Identifier& id, File& to) {
  const auto events = id.file->take_of(id.handle);
  for (const QueuedEvent& event : events) {
    Identifier* const child = event.has_child ? find(event.child) : nullptr;
    if (child != nullptr) child->file = &to;
    to.push(event);
  }
  id.file = &to;
}

bool Agent::claim_block() {
  if (block_.value != 0) return true;
  const auto claimed = exchange_.claim_block(base::system_random());
  if (claimed) {
    block_ = *claimed;
  } else {
    obs::log().warn("{}", claimed.error().message);
  }
  return claimed.has_value();
}

Psn Agent::random_psn() { return Psn(base::system_random().draw<std::uint32_t>()); }

cm::TransactionId Agent::random_transaction() {
  return cm::TransactionId(base::system_random().draw<std::uint64_t>());
}

cm::CommId Agent::new_comm_id() const {
  // There are twice as many numbers as identifiers, so one is found soon.
  cm::CommId number;
  do {
    number = cm::CommId(base::system_random().draw<std::uint32_t>());
    if (block_.value != 0) {
      number = cm::CommId(std::uint32_t{block_.value} << 16 | (number.value & 0xFFFF));
    }
  } while (number.value == 0 || by_comm_id_.contains(number));
  return number;
}

void Agent::post(Identifier& id, const QueuedEvent& event) {
  // Until a program accepts, it has no object that an event of the new identifier could name.
  if (id.tag.value != 0) id.file->push(event);
}

void Agent::reported(const QueuedEvent& event) {
  Identifier* const id = find(event.owner);
  if (id == nullptr) return;
  ++id->events_reported;
  if (event.has_child) ++id->backlog_left;
  if (!event.has_group) return;
  for (Multicast& group : id->groups) {
    if (group.handle == event.group) ++group.events_reported;
  }
}

void Agent::apply(Identifier& id, cm::Outcome& out) {
  // By index: when nobody is there, that is one more thing that happened.
  for (std::size_t i = 0; i < out.messages.size(); ++i) {
    const cm::Message message = out.messages[i];
    if (!transmit(id, message)) nobody_there(id, out);
  }
  for (const cm::Event& event : out.events) report(id, event);
  if (id.connection) arm(id.connection->deadline());
  if (id.query) arm(id.query->deadline());
}

/// False: nobody has the port.
bool Agent::transmit(Identifier& id, const cm::Message& message) {
  const bool opens = std::holds_alternative<cm::Request>(message.body) ||
                     std::holds_alternative<cm::ServiceRequest>(message.body);
  if (opens) id.first_message = std::make_unique<const cm::Message>(message);
  if (id.link.value == 0) {
    if (!opens) return true;
    if (id.off_host) {
      id.link = kNetworkLink;
      send(id.link, {id.local_gid, id.remote_gid, message});
      return true;
    }
    const auto route =
        exchange_.reach(id.space, id.destination.port, id.destination.address, false);
    if (!route) return route.error().code != Errc::kNotFound;
    id.link = route->link;
    id.link_fresh = route->fresh;
  }
  send(id.link, {id.local_gid, id.remote_gid, message});
  return true;
}

void Agent::send(cm::LinkId link, const cm::Packet& packet) {
  if (link != kNetworkLink) return exchange_.send(link, packet);
  const auto* shown = device_with(packet.source);
  const auto* device = shown != nullptr ? network_device(*shown) : nullptr;
  // What is lost is sent again: it is the network.
  if (device != nullptr) cm::send_to_network(device->controller()->gsi(), packet);
}

/// As if somebody had said so.
void Agent::nobody_there(Identifier& id, cm::Outcome& out) {
  if (asks_again(id)) return;
  if (id.connection) id.connection->on_nobody_there(out);
  if (id.query) id.query->on_nobody_there(out);
}

}  // namespace weft::ucma
