// A world of connection managers in virtual time: processes on hosts, with ports, links between the
// processes of one host, and a network between hosts that may lose, double and hold back messages.
// Nothing happens but by run_for(); the same seed gives the same world. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "cm/manager.h"
#include "cm/names.h"
#include "cm/stray.h"

namespace weft::cm::simulated {

class World;

/// One process: a manager, and the devices, ports and links that it is given.
class Process final : public Devices, public Links {
 public:
  Process(World& world, const Gid& address);

  /// Calls the manager at the world's time and performs what it wants.
  template <class Call>
  std::invoke_result_t<Call, Manager&, Nanoseconds, Actions&> run(Call call);
  void perform(const Actions& actions);

  // Devices
  const std::vector<const Device*>& all() override { return all_; }
  const Device* towards(const Gid&) override { return &device_; }
  std::vector<Gid> interface_addresses() override { return {}; }
  bool has_unfetched(const Gid&, Qpn) override { return unfetched; }
  // Links
  Result<BindingId> bind(const Place& place, const std::vector<Gid>& neighbours) override;
  void unbind(BindingId binding) override {
    std::erase_if(bound_, [&](const auto& each) { return each.second == binding; });
  }
  Result<Route> reach(PortSpace space, Port port, const Gid& address, bool fresh) override;
  Result<CommIdBlock> claim_block(base::Random& random) override {
    return block_ = CommIdBlock(static_cast<std::uint16_t>(random.draw<std::uint16_t>() | 1));
  }

  /// Told since the last call, of all identifiers.
  std::vector<Notify> take_events() { return std::exchange(events_, {}); }

  World& world;
  Manager manager;
  bool unfetched = false;
  std::uint64_t refused = 0;

 private:
  friend class World;
  struct Link {
    Process* peer;
    LinkId peers;             ///< its number there
    std::string called_name;  ///< the port's side: the name that was called
  };

  /// The bound port that a question is about, or for another message nothing but that it is for
  /// this process; nullopt: it is not.
  std::optional<std::string> name_of_addressee(const Packet& packet) const;

  Device device_;
  CommIdBlock block_;
  std::vector<const Device*> all_;
  std::map<std::string, BindingId> bound_;
  std::map<LinkId, Link> links_;
  std::map<std::string, LinkId> called_;
  std::uint32_t last_id_ = 0;
  std::vector<Notify> events_;
};

class World {
 public:
  explicit World(std::uint64_t seed = 1) : random(seed) {}

  Process& add(const Gid& address) {
    return *processes_.emplace_back(std::make_unique<Process>(*this, address));
  }
  /// As a process that is killed: nothing of it is left but what its peers are told.
  void kill(Process& process) {
    for (const auto& [link, end] : process.links_) {
      end.peer->links_.erase(end.peers);
      arrivals_.push_back({now, end.peer, {end.peers, {}, {}}});
    }
    std::erase_if(arrivals_, [&](const auto& each) { return each.to == &process; });
    std::erase_if(processes_, [&](const auto& each) { return each.get() == &process; });
  }

  void run_for(Nanoseconds time) {
    const Nanoseconds until = now + time;
    while (step(until)) {
    }
  }
  /// One message arrives, or the time of one deadline comes. False: nothing more happens until
  /// then.
  bool step(Nanoseconds until) {
    if (deliver_one()) return true;
    Nanoseconds next = kNever;
    for (const auto& each : arrivals_) next = std::min(next, each.at);
    for (const auto& each : processes_) next = std::min(next, each->manager.next_deadline());
    if (next > until) {
      now = until;
      return false;
    }
    now = std::max(now, next);
    for (const auto& each : processes_) {
      if (each->manager.next_deadline() > now) continue;
      each->run([](Manager& manager, Nanoseconds at, Actions& out) {
        manager.on_timer(at, out);
        return true;
      });
      break;
    }
    return true;
  }

  /// What becomes of a message between hosts: how often it arrives.
  std::function<int(const Packet&)> copies = [](const Packet&) { return 1; };
  /// How long each is on its way.
  std::function<Nanoseconds()> delay = [] { return Nanoseconds{1000}; };

  base::SeededRandom random;
  Nanoseconds now = 1;

 private:
  friend class Process;
  struct Delivery {
    Nanoseconds at;
    Process* to;
    Arrival arrival;
  };

  bool deliver_one() {
    const auto due =
        std::ranges::find_if(arrivals_, [&](const auto& each) { return each.at <= now; });
    if (due == arrivals_.end()) return false;
    const Delivery delivery = std::move(*due);
    arrivals_.erase(due);
    delivery.to->run([&](Manager& manager, Nanoseconds at, Actions& out) {
      if (delivery.arrival.packet) {
        manager.on_message(delivery.arrival, at, out);
      } else {
        manager.on_link_gone(delivery.arrival.link, at, out);
      }
      return true;
    });
    return true;
  }
  /// To the process with the port or the connection, as whoever receives a datagram hands it over;
  /// what is for nobody is answered.
  void send_to_network(Packet packet) {
    packet.from_network = true;
    bool is_for_somebody = false;
    for (const auto& each : processes_) {
      if (each->device_.address != packet.destination) continue;
      const auto called_name = each->name_of_addressee(packet);
      if (!called_name) continue;
      is_for_somebody = true;
      for (int i = copies(packet); i > 0; --i) {
        arrivals_.push_back({now + delay(), each.get(), {{}, packet, *called_name}});
      }
    }
    const auto answer = is_for_somebody ? std::nullopt : answer_to_stray(packet.message);
    if (answer) send_to_network({packet.destination, packet.source, *answer});
  }

  std::vector<std::unique_ptr<Process>> processes_;
  std::deque<Delivery> arrivals_;
};

inline Process::Process(World& in, const Gid& address)
    : world(in), manager(*this, *this, in.random), device_{address, 0x77, 5, true} {
  all_.push_back(&device_);
}

inline std::optional<std::string> Process::name_of_addressee(const Packet& packet) const {
  return std::visit(
      [&](const auto& body) -> std::optional<std::string> {
        if constexpr (requires { body.pkey; }) {
          for (const auto& name :
               names_at(space_of(body.service), port_of(body.service), packet.destination)) {
            if (bound_.contains(name)) return name;
          }
          return {};
        } else {
          CommId number;
          if constexpr (requires { body.remote; }) number = body.remote;
          if constexpr (requires { body.request; }) number = body.request;
          if (block_.value == 0 || block_of(number) != block_) return {};
          return "";
        }
      },
      packet.message.body);
}

template <class Call>
std::invoke_result_t<Call, Manager&, Nanoseconds, Actions&> Process::run(Call call) {
  Actions actions;
  auto result = call(manager, world.now, actions);
  perform(actions);
  return result;
}

inline void Process::perform(const Actions& actions) {
  for (const auto& action : actions) {
    if (const auto* send = std::get_if<Send>(&action)) {
      if (send->link == kNetworkLink) {
        world.send_to_network(send->packet);
      } else if (const auto link = links_.find(send->link); link != links_.end()) {
        world.arrivals_.push_back({world.now,
                                   link->second.peer,
                                   {link->second.peers, send->packet,
                                    link->second.peer->links_.at(link->second.peers).called_name}});
      }
    } else if (const auto* notify = std::get_if<Notify>(&action)) {
      events_.push_back(*notify);
    } else if (std::holds_alternative<CountRefused>(action)) {
      ++refused;
    }
  }
}

inline Result<BindingId> Process::bind(const Place& place, const std::vector<Gid>&) {
  const std::string name = place.kind == Place::Kind::kAddress
                               ? names_at(place.space, place.port, place.address).front()
                               : name_of(place.space, place.port, kEveryIpv4);
  for (const auto& each : world.processes_) {
    if (each->device_.address == device_.address && each->bound_.contains(name)) {
      return fail(Errc::kBusy, "taken");
    }
  }
  return bound_[name] = BindingId(++last_id_);
}

inline Result<Route> Process::reach(PortSpace space, Port port, const Gid& address, bool fresh) {
  for (const std::string& name : names_at(space, port, address)) {
    const auto known = called_.find(name);
    if (!fresh && known != called_.end() && links_.contains(known->second)) {
      return Route{known->second, false};
    }
    for (const auto& each : world.processes_) {
      if (each->device_.address != device_.address || !each->bound_.contains(name)) continue;
      const LinkId mine(++last_id_), peers(++each->last_id_);
      // A process may call itself: then it has both ends.
      links_[mine] = {each.get(), peers, ""};
      each->links_[peers] = {this, mine, name};
      called_[name] = mine;
      return Route{mine, true};
    }
  }
  return fail(Errc::kNotFound, "nobody");
}

}  // namespace weft::cm::simulated
