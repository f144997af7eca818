// The protocol under random schedules: both directions send messages of all sizes while rings grow,
// shrink, are refused, answers are damaged, memory runs short, and one side may die. Checked: each
// message once, in order, unchanged; no access to memory that was revoked or freed; everything gets
// through in the end; nothing is left allocated. A failure prints its seed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "unit/channel/simulated_pair.h"

namespace weft::channel::test {
namespace {

struct Trouble {
  bool refusals = false, corrupt = false, starving = false, crash = false;
};

/// Settings of a random kind.
Settings any_settings(std::mt19937& random) {
  const auto pick = [&](auto n) { return static_cast<std::uint32_t>(random() % n); };
  Settings settings;
  settings.phases = {{100 + pick(400), 2 + pick(4)}, {1000 + pick(2000), 2 + pick(4)}};
  if (pick(2) == 0) settings.phases.push_back({4000 + pick(5000), 2 + pick(3)});
  settings.strict = pick(4) == 0;
  settings.keep_small = pick(3) == 0;
  settings.order = static_cast<ProvisionOrder>(pick(3));
  settings.policy = static_cast<Policy>(pick(5));
  settings.threshold_percent = 80 + pick(21);
  settings.start_phase = static_cast<std::uint8_t>(pick(2));
  if (pick(4) == 0) settings.transfer = {static_cast<Transfer>(pick(2))};
  settings.acknowledgement_timeout_ns = 100'000 + pick(10'000'000);
  settings.refusal_pause_ns = 1'000'000;
  settings.shrink_after_ns = pick(4) == 0 ? 0 : 5'000'000 + pick(50'000'000);
  settings.learn_after = pick(3) == 0 ? 3 : 0;
  return settings;
}

std::string message_of(std::uint32_t number, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::uint32_t x = number * 2654435761u + 1;
  for (char& c : text) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return text;
}

class Schedule {
 public:
  Schedule(std::uint32_t seed, Trouble trouble)
      : random_(seed),
        trouble_(trouble),
        pair_(any_settings(random_), any_settings(random_),
              4 + static_cast<std::uint32_t>(random_() % 20)) {
    for (auto* flow : {&flows_[0], &flows_[1]}) {
      flow->wanted = 20 + static_cast<std::uint32_t>(random_() % 60);
    }
    flows_[0].from = flows_[1].to = &pair_.here;
    flows_[0].to = flows_[1].from = &pair_.there;
  }

  void run() {
    const int steps = 3000;
    const int crash_at = trouble_.crash ? static_cast<int>(random_() % steps) : -1;
    for (int i = 0; i < steps && !done(); ++i) {
      if (i == crash_at) return crash();
      step();
    }
    // Trouble ends, and everything must get through.
    for (auto* end : {&pair_.here, &pair_.there}) {
      end->wires.refuse_next = end->wires.corrupt_next = 0;
      end->wires.starved = false;
    }
    trouble_ = {};
    for (int i = 0; i < 200'000 && !done(); ++i) step();
    EXPECT_TRUE(done()) << "received " << flows_[0].received << " of " << flows_[0].wanted
                        << " and " << flows_[1].received << " of " << flows_[1].wanted
                        << describe(pair_.here) << describe(pair_.there);
    EXPECT_EQ(pair_.violation(), "");
    EXPECT_EQ(pair_.here.endpoint.error(), "");
    EXPECT_EQ(pair_.there.endpoint.error(), "");
    finish();
  }

 private:
  using End = SimulatedPair::End;
  struct Flow {
    End* from = nullptr;
    End* to = nullptr;
    std::uint32_t wanted = 0, sent = 0, received = 0;
    std::string text;  // the message under way
    std::vector<std::size_t> cuts;
    std::size_t given = 0;
    std::deque<std::size_t> sizes;
    std::deque<Incoming> views;
  };

  static std::string describe(const End& end) {
    const SendHalf& send = end.endpoint.send();
    const ReceiveHalf& receive = end.endpoint.receive();
    return "\nsends in phase " + std::to_string(send.phase()) + (send.moving() ? ", moving" : "") +
           (send.has_open_frame() ? ", frame open" : "") + ", rest " +
           std::to_string(send.rest_bytes()) + ", frames " + std::to_string(send.figures().frames) +
           ", controls " + std::to_string(send.figures().controls) + ", loans " +
           std::to_string(send.figures().loans) + "; receives in phase " +
           std::to_string(receive.phase()) + ", frames " +
           std::to_string(receive.figures().frames) + ", consumed " +
           std::to_string(receive.consumed()) + ", pulled " + std::to_string(receive.pulled()) +
           (receive.busy() ? ", busy" : "") + "; queued " + std::to_string(end.wires.queued());
  }

  bool done() const {
    return flows_[0].received == flows_[0].wanted && flows_[1].received == flows_[1].wanted;
  }

  std::size_t any_size() {
    switch (random_() % 10) {
      case 0:
        return 1 + random_() % 30000;
      case 1:
        return 1 + random_() % 10000;
      case 2:
        return 1 + random_() % 3000;
      default:
        return 1 + random_() % 300;
    }
  }

  void send(Flow& flow) {
    if (flow.text.empty()) {
      if (flow.sent == flow.wanted) return;
      const std::size_t size = any_size();
      flow.text = message_of(flow.sent, size);
      flow.sizes.push_back(size);
      flow.given = 0;
      flow.cuts.clear();
      for (std::size_t at = 0; at < size;) {
        const std::size_t n = random_() % 2 == 0 ? size - at : 1 + random_() % (size - at);
        flow.cuts.push_back(at += n);
      }
    }
    std::vector<iovec> vector;
    std::size_t at = flow.given;
    for (const std::size_t cut : flow.cuts) {
      if (cut <= at) continue;
      vector.push_back({flow.text.data() + at, cut - at});
      at = cut;
    }
    flow.given += flow.from->endpoint.take(vector, flow.text.size() - flow.given, pair_.now);
    ASSERT_LE(flow.given, flow.text.size());
    if (flow.given == flow.text.size()) {
      flow.text.clear();
      ++flow.sent;
    }
  }

  void receive(Flow& flow) {
    auto message = flow.to->endpoint.look();
    if (!message) return;
    ASSERT_LT(flow.received, flow.wanted);
    ASSERT_FALSE(flow.sizes.empty());
    const std::string expected = message_of(flow.received, flow.sizes.front());
    flow.sizes.pop_front();
    const std::string got(reinterpret_cast<const char*>(message->data), message->length);
    ASSERT_EQ(got.size(), expected.size());
    ASSERT_TRUE(got == expected) << "message " << flow.received;
    ++flow.received;
    flow.views.push_back(*message);
  }

  void release(Flow& flow) {
    if (flow.views.empty()) return;
    const std::size_t i = random_() % flow.views.size();  // in any order
    flow.to->endpoint.release(flow.views[i]);
    flow.views.erase(flow.views.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void make_trouble(End& end) {
    if (trouble_.refusals && random_() % 40 == 0) end.wires.refuse_next = 1;
    if (trouble_.corrupt && random_() % 40 == 0) {
      end.wires.corrupt_next = 1;
      end.wires.corrupt_byte = static_cast<int>(random_() % kAcknowledgementBytes);
    }
    if (trouble_.starving) end.wires.starved = random_() % 20 == 0;
  }

  void step() {
    Flow& flow = flows_[random_() % 2];
    End& end = random_() % 2 == 0 ? pair_.here : pair_.there;
    make_trouble(end);
    switch (random_() % 8) {
      case 0:
        return send(flow);
      case 1:
        return receive(flow);
      case 2:
        return release(flow);
      case 3:
        return end.endpoint.progress(pair_.now);
      case 4:
        for (std::uint32_t n = static_cast<std::uint32_t>(random_() % 6); n > 0; --n) {
          end.wires.execute();
        }
        return;
      case 5:
        return SimulatedPair::complete(end);
      case 6:
        pair_.now += random_() % 50'000;
        return;
      default:
        pair_.now += random_() % 100 == 0 ? 100'000'000 : 1000;
        end.wires.execute();
    }
  }

  // The other side sees errors where it posts, and nothing else; both can be taken down.
  void crash() {
    End& dead = random_() % 2 == 0 ? pair_.here : pair_.there;
    End& alive = &dead == &pair_.here ? pair_.there : pair_.here;
    dead.wires.die();
    for (int i = 0; i < 200; ++i) {
      Flow& flow = flows_[&alive == &pair_.here ? 0 : 1];
      send(flow);
      alive.endpoint.progress(pair_.now += 1'000'000);
      if (i == 20) alive.wires.die();
    }
    finish();
  }

  void finish() {
    for (Flow& flow : flows_) {
      while (!flow.views.empty()) release(flow);
    }
    pair_.stop();
    EXPECT_EQ(pair_.here.wires.live_bytes, 0u);
    EXPECT_EQ(pair_.there.wires.live_bytes, 0u);
    EXPECT_EQ(pair_.here.wires.open_loans, 0);
    EXPECT_EQ(pair_.there.wires.open_loans, 0);
    EXPECT_EQ(pair_.violation(), "");
  }

  std::mt19937 random_;
  Trouble trouble_;
  SimulatedPair pair_;
  Flow flows_[2];
};

void run_seeds(Trouble trouble) {
  const char* wanted = std::getenv("WEFT_CHANNEL_SEED");
  const std::uint32_t first = wanted != nullptr ? static_cast<std::uint32_t>(std::atoi(wanted)) : 1;
  const char* count = std::getenv("WEFT_SIM_SEEDS");
  const std::uint32_t seeds = count != nullptr ? static_cast<std::uint32_t>(std::atoi(count)) : 400;
  const std::uint32_t last = wanted != nullptr ? first : seeds;
  for (std::uint32_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": WEFT_CHANNEL_SEED=" + std::to_string(seed));
    Schedule(seed, trouble).run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Schedules, deliver_each_message_once_and_in_order) { run_seeds({}); }
TEST(Schedules, get_through_refused_growth) { run_seeds({.refusals = true}); }
TEST(Schedules, get_through_damaged_answers) { run_seeds({.corrupt = true}); }
TEST(Schedules, get_through_scarce_memory) { run_seeds({.refusals = true, .starving = true}); }
TEST(Schedules, get_through_all_of_it) {
  run_seeds({.refusals = true, .corrupt = true, .starving = true});
}
TEST(Schedules, leave_nothing_behind_when_a_side_dies) {
  run_seeds({.refusals = true, .corrupt = true, .starving = true, .crash = true});
}

}  // namespace
}  // namespace weft::channel::test
