// Thousands of short conversations over bad networks. A failing one is repeated with
// --gtest_filter='*bad_network*' after setting kFirstSeed to the seed that it names and kRuns to 1.
#include "support/sanitized.h"
#include "unit/transport/random_pair.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kFirstSeed = 1;
constexpr std::uint64_t kRuns = kSanitized ? 500 : 2500;
constexpr std::uint64_t kRequests = 25;
constexpr int kMostSteps = 100'000;

EndSetup random_setup(base::SeededRandom& random, std::uint8_t reads) {
  EndSetup setup;
  setup.attributes.path_mtu = random.below(2) == 0 ? Mtu::k256 : Mtu::k512;
  setup.attributes.max_rd_atomic = setup.attributes.max_dest_rd_atomic = reads;
  setup.attributes.ack_policy =
      random.below(2) == 0 ? AckPolicy::kCoalesced : AckPolicy::kEachFrame;
  setup.attributes.min_rnr_timer = 1;
  setup.attributes.timeout = 2;
  return setup;
}

class Conversation {
 public:
  explicit Conversation(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < 2; ++i) {
      wires_[i] = std::make_unique<RandomWire>(random_, weather_);
    }
  }

  void run() {
    for (int step = 0; step < kMostSteps && !done(); ++step) {
      do_something(random_.below(2));
      for (std::size_t i = 0; i < 2; ++i) ends_[i].check(ends_[1 - i]);
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(done()) << "it never came to an end";
    for (auto& end : ends_) end.check_end();
  }

 private:
  bool done() const {
    return ends_[0].posted() == kRequests && ends_[1].posted() == kRequests && ends_[0].settled() &&
           ends_[1].settled();
  }
  void do_something(std::size_t i) {
    RandomPeer& me = ends_[i];
    switch (random_.below(8)) {
      case 0:
        if (me.posted() < kRequests) me.post_random(ends_[1 - i]);
        return;
      case 1:
        return me.post_receive();
      case 2:
      case 3:
        if (auto frame = me.end.next_request()) wires_[i]->put(std::move(*frame));
        return;
      case 4:
        if (auto frame = me.end.next_answer()) wires_[i]->put(std::move(*frame));
        return;
      default:
        if (!wires_[i]->empty()) {
          ends_[1 - i].end.deliver(wires_[i]->take());
        } else if (wires_[1 - i]->empty()) {
          pass_time(i);
        }
    }
  }
  /// Only when nothing is on its way and nobody has anything to say: a time-out that came too early
  /// would cost a retry, and those are counted.
  void pass_time(std::size_t i) {
    for (std::size_t k = 0; k < 2; ++k) {
      for (const Frame& frame : ends_[k].end.answers()) wires_[k]->put(frame);
      for (const Frame& frame : ends_[k].end.requests()) wires_[k]->put(frame);
    }
    const Nanoseconds due = transport::next_deadline(ends_[i].end.requester);
    if (due == kNever || !wires_[0]->empty() || !wires_[1]->empty()) return;
    now_ = std::max(now_, due);
    for (auto& end : ends_) end.end.advance_to(now_);
  }

  base::SeededRandom random_;
  // At a fifth lost, one request in some thousands would rightly run out of retries.
  const Weather weather_{static_cast<std::uint32_t>(random_.below(150'000)),
                         static_cast<std::uint32_t>(random_.below(200'000)), 1 + random_.below(8)};
  const EndSetup setup_ = random_setup(random_, static_cast<std::uint8_t>(1 + random_.below(4)));
  const Psn psns_[2] = {Psn(static_cast<std::uint32_t>(0xFFFF80 + random_.below(256))),
                        Psn(static_cast<std::uint32_t>(random_.next()))};
  EndSetup setup_of(std::size_t i) const {
    EndSetup setup = setup_;
    setup.attributes.send_psn = psns_[i];
    setup.attributes.receive_psn = psns_[1 - i];
    return setup;
  }
  RandomPeer ends_[2] = {{random_, setup_of(0), Qpn(1), Qpn(2)},
                         {random_, setup_of(1), Qpn(2), Qpn(1)}};
  std::unique_ptr<RandomWire> wires_[2];
  Nanoseconds now_ = 1'000;
};

TEST(RcPair, does_everything_once_and_in_order_over_a_bad_network) {
  // B2.1, B2.6
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kRuns; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Conversation conversation(seed);
    conversation.run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::test
