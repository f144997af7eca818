// Two endpoints of a channel over memory that the test owns: work is executed when the test says
// so, in order, each write in two steps (its last word comes later), and every access is judged by
// keys that know what was revoked and freed. One thread; lives inside a test.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "channel/endpoint.h"

namespace weft::channel::test {

/// All keys of both sides: a remote access looks here, as a network interface would.
struct Keys {
  struct Grant {
    std::byte* memory;
    std::uint64_t length;
  };
  std::map<std::uint32_t, Grant> live;
  std::uint32_t last = 100;

  std::uint32_t open(std::byte* memory, std::uint64_t length) {
    live[++last] = {memory, length};
    return last;
  }
  std::byte* find(std::uint32_t key, std::uint64_t address, std::uint64_t length) const {
    const auto grant = live.find(key);
    if (grant == live.end()) return nullptr;
    auto* at = reinterpret_cast<std::byte*>(address);
    const auto& [memory, bytes] = grant->second;
    if (at < memory || at + length > memory + bytes) return nullptr;
    return at;
  }
};

class SimulatedSide final : public Wires {
 public:
  explicit SimulatedSide(Keys& keys) : keys_(keys) {}

  std::optional<Ring> provision(RingUse use, std::uint32_t phase, std::uint32_t slots,
                                std::uint32_t slot_bytes) override {
    note(use == RingUse::kSend ? "provision send" : "provision receive");
    if (refuse_next > 0 && phase >= refuse_from_phase) {
      --refuse_next;
      return std::nullopt;
    }
    ++provisions;
    const std::size_t bytes = std::size_t{slots} * slot_bytes;
    auto* memory = new (std::align_val_t{8}) std::byte[bytes]();
    live_bytes += bytes;
    const std::uint32_t key = keys_.open(memory, bytes);
    return Ring{memory, slots, slot_bytes, phase, LocalKey(key), RemoteKey(key), true, nullptr};
  }
  void unregister(Ring& ring) override {
    note("unregister");
    keys_.live.erase(ring.remote_key.value);
    ring.registered = false;
  }
  void release(Ring& ring) override {
    note("release");
    if (keys_.live.contains(ring.remote_key.value)) violation = "freed while its key was live";
    const std::byte* end = ring.memory + std::size_t{ring.slots} * ring.slot_bytes;
    for (const std::byte* view : held) {
      if (view >= ring.memory && view < end) violation = "freed under a view";
    }
    live_bytes -= std::size_t{ring.slots} * ring.slot_bytes;
    ::operator delete[](ring.memory, std::align_val_t{8});
    ring = {};
  }
  std::optional<Region> lend(std::span<const std::byte> bytes) override {
    if (no_loans) return std::nullopt;
    auto* memory = const_cast<std::byte*>(bytes.data());
    ++open_loans;
    const std::uint32_t key = windows ? ++keys_.last : keys_.open(memory, bytes.size());
    Region region{memory, bytes.size(), LocalKey(key), RemoteKey(key), this};
    region.window = windows;
    return region;
  }
  std::optional<Region> borrow(std::uint64_t bytes) override {
    if (starved) return std::nullopt;
    auto* memory = new std::byte[bytes];
    live_bytes += bytes;
    const std::uint32_t key = keys_.open(memory, bytes);
    return Region{memory, bytes, LocalKey(key), RemoteKey(key), nullptr};
  }
  void give_back(Region& region) override {
    keys_.live.erase(region.remote_key.value);
    if (region.handle == nullptr) {
      live_bytes -= region.length;
      delete[] region.memory;
    } else {
      --open_loans;
    }
    region = {};
  }
  bool post(const Work& work) override {
    if (dead) return false;
    Item& item = work_.emplace_back(Item{work, false, {}});
    if (work.inlined) {
      if (work.length > kInlineMost) violation = "more inline than the device takes";
      item.bytes.assign(work.local, work.local + work.length);
      item.work.local = item.bytes.data();
    }
    if (work.bell) ++bells;
    ++posts;
    return true;
  }

  /// Half a step of the oldest work; false: there is none.
  bool execute() {
    if (dead || work_.empty()) return false;
    auto& [work, body_done, bytes] = work_.front();
    if (work.op >= Work::Op::kBind) {
      if (change_window(work)) work_.pop_front();
      return true;
    }
    if (work.length > 0 && !move_bytes(work, body_done)) return true;
    if (!body_done && work.op == Work::Op::kWrite && work.length > 8) {
      body_done = true;
      return true;
    }
    if (work.signaled) completions.push_back(work.number);
    work_.pop_front();
    return true;
  }
  std::size_t queued() const { return work_.size(); }
  void die() {
    dead = true;
    work_.clear();
  }
  void note(std::string what) {
    if (log) journal.push_back(std::move(what));
  }

  std::deque<std::uint32_t> completions;
  std::deque<RemoteKey> returned;  ///< windows that the peer has closed
  SimulatedSide* peer = nullptr;
  std::string violation;
  std::vector<std::string> journal;
  std::vector<const std::byte*> held;  ///< where views begin that the test still looks at
  bool log = false, dead = false, starved = false, no_loans = false;
  bool windows = true;  ///< what is lent is opened by a window
  int refuse_next = 0, corrupt_next = 0;
  std::uint32_t refuse_from_phase = 1;
  int provisions = 0, open_loans = 0, bells = 0, posts = 0;
  std::size_t live_bytes = 0;
  int corrupt_byte = 20;

 private:
  bool change_window(const Work& work) {
    if (work.op == Work::Op::kBind) {
      keys_.live[work.remote_key.value] = {const_cast<std::byte*>(work.local), work.length};
    } else if (keys_.live.erase(work.remote_key.value) == 1) {
      if (work.op == Work::Op::kReturn) peer->returned.push_back(work.remote_key);
    } else {
      violation = "a window was closed that is not open";
      die();
      return false;
    }
    if (work.signaled) completions.push_back(work.number);
    return true;
  }

  // Writes land in two steps, so that a look in between sees all but the last word.
  bool move_bytes(const Work& work, bool body_done) {
    std::byte* remote = keys_.find(work.remote_key.value, work.remote, work.length);
    if (remote == nullptr) {
      violation = "access without a live key";
      die();
      return false;
    }
    auto* local = const_cast<std::byte*>(work.local);
    if (work.op == Work::Op::kRead) {
      std::memcpy(local, remote, work.length);
      return true;
    }
    const std::uint32_t tail = work.length > 8 ? 8 : 0;
    if (!body_done) std::memcpy(remote, local, work.length - tail);
    if (body_done) std::memcpy(remote + work.length - tail, local + work.length - tail, tail);
    const bool answer = work.length == kAcknowledgementBytes &&
                        keys_.live.at(work.remote_key.value).length == kControlBytes;
    if (answer && corrupt_next > 0 && body_done) {
      --corrupt_next;
      remote[corrupt_byte] ^= std::byte{0x41};
    }
    return true;
  }

  struct Item {
    Work work;
    bool body_done;
    std::vector<std::byte> bytes;  // that came inline
  };
  Keys& keys_;
  std::deque<Item> work_;
};

class SimulatedPair {
 public:
  struct End {
    SimulatedSide wires;
    alignas(64) std::byte control[kControlBytes]{};
    alignas(64) std::byte stage[kStageBytes]{};
    std::uint32_t control_key;
    Endpoint endpoint;

    End(Keys& keys, const Settings& settings, std::uint32_t depth, std::uint32_t channel)
        : wires(keys),
          control_key(keys.open(control, kControlBytes)),
          endpoint(settings, wires, parts(settings), depth, channel) {}
    /// Lean channels are those of devices that take small things inline.
    Control parts(const Settings& settings) {
      return {control, settings.lean ? nullptr : stage, LocalKey(control_key)};
    }
  };

  explicit SimulatedPair(Settings a, std::uint32_t depth = 16) : SimulatedPair(a, a, depth) {}
  SimulatedPair(Settings a, Settings b, std::uint32_t depth = 16)
      : settings_a_(std::move(a)),
        settings_b_(std::move(b)),
        here(keys, settings_a_, depth, 1),
        there(keys, settings_b_, depth, 2) {
    here.wires.peer = &there.wires;
    there.wires.peer = &here.wires;
    here.endpoint.start();
    there.endpoint.start();
    here.endpoint.connect(hello(there));
    there.endpoint.connect(hello(here));
  }
  ~SimulatedPair() { stop(); }
  void stop() {
    here.endpoint.stop();
    there.endpoint.stop();
  }

  static Hello hello(const End& end) {
    return {reinterpret_cast<std::uint64_t>(end.control),
            RemoteKey(end.control_key),
            end.endpoint.grant(),
            end.endpoint.send_slots(),
            false,
            end.endpoint.channel()};
  }
  static void complete(End& end) {
    while (!end.wires.completions.empty()) {
      end.endpoint.on_done(end.wires.completions.front());
      end.wires.completions.pop_front();
    }
    while (!end.wires.returned.empty()) {
      end.endpoint.on_returned(end.wires.returned.front());
      end.wires.returned.pop_front();
    }
  }
  /// Everything that can happen without the applications happens.
  void settle(int rounds = 50) {
    for (int i = 0; i < rounds; ++i) {
      for (End* end : {&here, &there}) {
        end->endpoint.progress(now);
        while (end->wires.execute()) {
        }
        complete(*end);
      }
    }
  }
  static std::uint64_t take(End& end, const std::string& text, Nanoseconds at) {
    const iovec element{const_cast<char*>(text.data()), text.size()};
    return end.endpoint.take({&element, 1}, 0, at);
  }
  std::uint64_t send(const std::string& text) { return take(here, text, now); }
  std::optional<std::string> receive() { return receive(there); }
  static std::optional<std::string> receive(End& end) {
    auto message = end.endpoint.look();
    if (!message) return std::nullopt;
    std::string text(reinterpret_cast<const char*>(message->data), message->length);
    end.endpoint.release(*message);
    return text;
  }
  std::string violation() const { return here.wires.violation + there.wires.violation; }

 private:
  Settings settings_a_, settings_b_;

 public:
  Keys keys;
  Nanoseconds now = 1'000'000;
  End here, there;
};

}  // namespace weft::channel::test
