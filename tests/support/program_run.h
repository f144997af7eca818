// Runs a random program between two devices that reach each other in one way, and writes down all
// that a program can see of it: completions, states, memory, results of calls, counters. Two runs
// of one program must write the same, however the devices reach each other.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "obs/counters.h"
#include "support/path_network.h"
#include "support/random_program.h"
#include "support/verbs_kit.h"

namespace weft::test {

/// What was seen at one kSync, or at the end: lines of text, so that a difference can be read.
using Sight = std::vector<std::string>;

class ProgramRun {
 public:
  /// Waits for so long that what is expected is seen.
  explicit ProgramRun(Wire wire, std::chrono::nanoseconds patience = kPatience)
      : patience_(patience),
        network_(wire),
        nodes_{Node(network_.open({.helper = false})), Node(network_.open({.helper = false}))} {
    for (unsigned i = 0; i < kLanes; ++i) lanes_.push_back(std::make_unique<Lane>(nodes_, i));
  }

  /// What was seen, step by step. With `expected`, waits at each sight until it is that one, and
  /// ends at the first that does not become so.
  std::vector<Sight> run(const Program& program, const std::vector<Sight>* expected = nullptr) {
    std::vector<Sight> seen;
    const auto look = [&](const Lane* lane) {
      const Sight* const wanted = expected != nullptr && seen.size() < expected->size()
                                      ? &(*expected)[seen.size()]
                                      : nullptr;
      seen.push_back(settle(lane, wanted));
      return wanted == nullptr || seen.back() == *wanted;
    };
    for (std::size_t number = 0; number < program.size(); ++number) {
      const ProgramStep& step = program[number];
      Lane& lane = *lanes_[step.lane];
      perform(lane, step, number);
      if (step.act != Act::kSync && step.act != Act::kKill) continue;
      if (!look(&lane)) return seen;
      // Nobody uses a connection of which one side has failed: that would take time-outs.
      if (!lane.ready()) lane.reconnect(nodes_);
    }
    look(nullptr);
    return seen;
  }

 private:
  struct Region {
    Region(const Node& node, unsigned index)
        : access(index == 1 ? Access::kLocalWrite | Access::kRemoteRead | Access::kWindowBind
                            : kEverything),
          size(region_bytes(index)),
          bytes(static_cast<std::byte*>(
              mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
      if (bytes == MAP_FAILED) throw std::runtime_error("no memory");
      for (std::size_t i = 0; index != kReceiveRegion && i < size; ++i)
        bytes[i] = pattern(index, i);
      region.emplace(must(node.pd.register_memory(bytes, size, access)));
      vanished = index == kVanishedRegion;
      if (vanished) mprotect(bytes, size, PROT_NONE);
    }
    ~Region() {
      region.reset();
      munmap(bytes, size);
    }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    std::uint64_t hash() const {
      std::uint64_t value = 0xcbf29ce484222325;
      for (std::size_t i = 0; !vanished && i < size; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes + i, sizeof word);
        value = (value ^ word) * 0x100000001b3;
      }
      return value;
    }

    Access access;
    std::size_t size;
    std::byte* bytes;
    std::optional<MemoryRegion> region;
    RemoteKey old_key{};
    bool vanished = false;
  };

  struct Side {
    Side(const Node& node, const QueuePairOptions& options) : qp(node.create(options)) {
      for (unsigned i = 0; i < kRegions; ++i) regions.push_back(std::make_unique<Region>(node, i));
      windows.push_back(must(node.pd.allocate_window(WindowType::kType1)));
      windows.push_back(must(node.pd.allocate_window(WindowType::kType2)));
    }
    RemoteKey key(const KeyChoice& choice) const {
      if (!choice.window) {
        const Region& region = *regions[choice.index];
        return choice.stale ? region.old_key : region.region->rkey();
      }
      return choice.stale ? old_window_keys[choice.index] : windows[choice.index].rkey();
    }

    std::vector<std::unique_ptr<Region>> regions;
    std::vector<MemoryWindow> windows;
    std::array<RemoteKey, kWindows> old_window_keys{};
    QueuePair qp;
    std::vector<std::string> sends, receives;  ///< completions
  };

  struct Lane {
    Lane(const std::array<Node, 2>& nodes, unsigned number)
        : service(number < 2    ? Service::kReliableConnection
                  : number == 2 ? Service::kUnreliableConnection
                  : number == 3 ? Service::kUnreliableDatagram
                                : Service::kReliableDatagram) {
      QueuePairOptions options;
      options.service = service;
      options.limits.max_inline_bytes = 64;
      for (const Node& node : nodes) sides.push_back(std::make_unique<Side>(node, options));
      begin();
    }
    void begin() {
      QueuePair &a = sides[0]->qp, &b = sides[1]->qp;
      QueuePairAttributes attributes;
      attributes.path_mtu = Mtu::k1024;
      if (service == Service::kUnreliableDatagram) {
        attributes.path_mtu = Mtu::k4096;
        must(a.activate(kQKey, attributes));
        must(b.activate(kQKey, attributes));
        return;
      }
      if (service == Service::kReliableDatagram) {
        must(a.activate(kQKey, attributes));
        must(b.activate(kQKey, attributes));
        return;
      }
      const Endpoint end_a = a.endpoint(), end_b = b.endpoint();
      must(a.connect(end_b, attributes));
      must(b.connect(end_a, attributes));
    }
    void reconnect(const std::array<Node, 2>&) {
      for (auto& side : sides) must(side->qp.modify(QpState::kReset));
      begin();
    }
    bool ready() const {
      return std::ranges::all_of(
          sides, [](const auto& side) { return side->qp.state() == QpState::kReadyToSend; });
    }

    static constexpr QKey kQKey{0x1234};
    const Service service;
    std::vector<std::unique_ptr<Side>> sides;
    std::vector<std::string> results;                                 ///< of calls that failed
    std::unordered_map<std::uint64_t, std::span<std::byte>> buffers;  ///< posted, by wr_id
  };

  // ---- steps -----------------------------------------------------------------------------------

  void perform(Lane& lane, const ProgramStep& step, std::size_t number) {
    Side& side = *lane.sides[step.side];
    Result<void> done;
    switch (step.act) {
      case Act::kSend:
        done = post_send(lane, step, number);
        break;
      case Act::kReceive:
        done = post_receive(lane, side, step, number);
        break;
      case Act::kRegister:
        done = register_again(nodes_[step.side], *side.regions[step.region]);
        break;
      case Act::kKill:
        done = side.qp.modify(QpState::kError);
        break;
      case Act::kReconnect:
        lane.reconnect(nodes_);
        break;
      case Act::kSync:
        break;
    }
    if (!done) {
      lane.results.push_back(
          fmt::format("step {} gave error {}", number, static_cast<int>(done.error().code)));
    }
  }

  static std::vector<Sge> list_of(const Side& side, const ProgramStep& step) {
    const MemoryRegion& region = *side.regions[step.region]->region;
    std::vector<Sge> list;
    std::uint32_t at = 0;
    for (unsigned i = 0; i < step.pieces; ++i) {
      const std::uint32_t end =
          i + 1 == step.pieces ? step.length : step.length / step.pieces * (i + 1);
      list.push_back(region.sge(step.offset + at, end - at));
      if (step.bad_local_key) list.back().lkey = LocalKey(0x777);
      at = end;
    }
    return list;
  }

  Result<void> post_send(Lane& lane, const ProgramStep& step, std::size_t number) {
    Side &mine = *lane.sides[step.side], &other = *lane.sides[1 - step.side];
    SendRequest request;
    const std::vector<Sge> list = list_of(mine, step);
    if (step.op == SendOp::kBind) {
      const unsigned index = step.key.window ? step.key.index : 0;
      MemoryWindow& window = mine.windows[index];
      mine.old_window_keys[index] = window.rkey();
      request =
          window.bind_request(*mine.regions[step.region]->region, step.offset, step.length,
                              Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic);
    } else if (step.op != SendOp::kLocalInvalidate && step.op != SendOp::kAtomicWrite) {
      request.sges = list;
    }
    request.wr_id = number;
    request.op = step.op;
    request.flags = step.flags;
    request.immediate = step.value;
    request.operand = step.value;
    request.invalidate_key = (step.op == SendOp::kLocalInvalidate ? mine : other).key(step.key);
    // A window is reached by the addresses of the region that it is bound to.
    const Region& target = *other.regions[step.key.window ? 0 : step.key.index];
    request.remote = {
        target.region->address() + static_cast<std::uint64_t>(std::int64_t{step.remote_offset}),
        other.key(step.key)};
    if (lane.service >= Service::kUnreliableDatagram) {
      request.destination.gid = other.qp.endpoint().gid;
      request.destination_qpn = other.qp.number();
      request.destination_qkey = step.bad_qkey ? QKey(1) : Lane::kQKey;
    }
    return mine.qp.post_send(request);
  }

  static Result<void> post_receive(Lane& lane, Side& side, const ProgramStep& step,
                                   std::size_t number) {
    const std::vector<Sge> list = list_of(side, step);
    if (step.region != kVanishedRegion) {
      lane.buffers[number] = {side.regions[step.region]->bytes + step.offset, step.length};
    }
    return side.qp.post_receive(ReceiveRequest{number, list});
  }

  static Result<void> register_again(const Node& node, Region& region) {
    const RemoteKey before = region.region->rkey();
    if (auto done = region.region->deregister(); !done) return done;
    region.old_key = before;
    region.region.emplace(must(node.pd.register_memory(region.bytes, region.size, region.access)));
    return {};
  }

  // ---- sights ----------------------------------------------------------------------------------

  /// Takes completions and makes progress.
  void pump() {
    for (unsigned side = 0; side < 2; ++side) {
      const Node& node = nodes_[side];
      while (const auto completion = node.sends.poll()) note(*completion, side, false);
      while (const auto completion = node.receives.poll()) note(*completion, side, true);
    }
  }

  void note(const Completion& completion, unsigned side, bool received) {
    for (auto& lane : lanes_) {
      Side& owner = *lane->sides[side];
      if (owner.qp.number() != completion.qpn) continue;
      (received ? owner.receives : owner.sends).push_back(text_of(completion, received));
      if (!received) continue;
      const auto found = lane->buffers.find(completion.wr_id);
      if (found == lane->buffers.end()) continue;
      blank_undefined(*lane, completion, found->second);
      lane->buffers.erase(found);
    }
  }

  /// What nobody promises: the bytes of a buffer whose message failed, and the header in front of a
  /// datagram, which says who sent it from where and differs from run to run.
  static void blank_undefined(const Lane& lane, const Completion& completion,
                              std::span<std::byte> buffer) {
    if (completion.ok() && lane.service != Service::kUnreliableDatagram) return;
    const std::size_t n = completion.ok() ? kHeaderBytes : buffer.size();
    std::ranges::fill(buffer.first(std::min(n, buffer.size())), std::byte{0});
  }

  static std::string text_of(const Completion& completion, bool received) {
    if (!completion.ok()) {
      return fmt::format("{}: {}", completion.wr_id, to_string(completion.status));
    }
    std::string text = fmt::format("{}: {}", completion.wr_id, to_string(completion.op));
    if (!received) return text;
    text += fmt::format(", {} bytes", completion.byte_count);
    if (completion.has_immediate) text += fmt::format(", immediate {}", completion.immediate);
    if (completion.has_invalidate) text += ", invalidated";
    return text;
  }

  Sight sight_of(const Lane* lane) const {
    Sight lines;
    if (lane == nullptr) {
      for (unsigned side = 0; side < 2; ++side) {
        const obs::Counters& counters = nodes_[side].device.controller()->counters();
        for (const obs::Counter counter :
             {obs::Counter::kRefusedAccesses, obs::Counter::kVanishedMemory,
              obs::Counter::kDroppedMessages, obs::Counter::kBadQKey}) {
          lines.push_back(fmt::format("side {}: {} {}", "ab"[side],
                                      obs::counter_table()[static_cast<std::size_t>(counter)].name,
                                      counters.get(counter)));
        }
      }
      return lines;
    }
    for (unsigned i = 0; i < 2; ++i) {
      const Side& side = *lane->sides[i];
      const char name = "ab"[i];
      lines.push_back(fmt::format("side {} is {}", name, to_string(side.qp.state())));
      for (const std::string& line : side.sends)
        lines.push_back(fmt::format("{} sent {}", name, line));
      for (const std::string& line : side.receives) {
        lines.push_back(fmt::format("{} received {}", name, line));
      }
      for (unsigned r = 0; r < kRegions; ++r) {
        lines.push_back(fmt::format("{} region{} holds {:x}", name, r, side.regions[r]->hash()));
      }
    }
    lines.insert(lines.end(), lane->results.begin(), lane->results.end());
    return lines;
  }

  Sight settle(const Lane* lane, const Sight* wanted) {
    const auto deadline = Steady::now() + patience_;
    for (int round = 0;; ++round) {
      for (int i = 0; i < 50; ++i) pump();
      Sight seen = sight_of(lane);
      const bool done = wanted == nullptr ? round == 4 : seen == *wanted;
      if (done || Steady::now() > deadline) return seen;
      if (wanted != nullptr && seen.size() > wanted->size() && round > 20) return seen;
      if (round % 16 == 15) std::this_thread::yield();
    }
  }

  static constexpr std::size_t kHeaderBytes = 40;
  const std::chrono::nanoseconds patience_;
  Network network_;
  std::array<Node, 2> nodes_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace weft::test
