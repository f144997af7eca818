// Ports that hold frames back: the engine tells when they have to be asked again, and wakes whoever
// sleeps for longer.
#include <gtest/gtest.h>

#include <algorithm>

#include "path/engine.h"

namespace weft::path {
namespace {

struct StillClock final : base::Clock {
  Nanoseconds now() override { return 0; }
};
struct EmptyTable final : QueuePairTable {
  queue::QueuePair* find(Qpn) override { return nullptr; }
};
class HoldingPort final : public port::Port {
 public:
  Gid address() const override { return {}; }
  Mtu max_mtu() const override { return Mtu::k4096; }
  port::SendOutcome send(std::span<const port::Outgoing> frames) override {
    return {port::SendStatus::kTaken, frames.size()};
  }
  std::size_t receive(port::Receiver&, std::size_t) override { return 0; }
  Nanoseconds next_deadline() const override { return deadline; }

  Nanoseconds deadline = kNever;
};

class PortDeadline : public testing::Test {
 protected:
  PortDeadline() {
    engine.add_port(first);
    engine.add_port(second);
    engine.set_wake([this](Nanoseconds by) { woken_by = std::min(woken_by, by); });
  }
  StillClock clock;
  EmptyTable nobody;
  obs::Counters counters;
  HoldingPort first, second;
  Engine engine{clock, nobody, counters};
  Nanoseconds woken_by = kNever;
};

TEST_F(PortDeadline, is_the_engines_deadline_too) {
  EXPECT_EQ(engine.next_deadline(), kNever);
  second.deadline = 700;
  EXPECT_EQ(engine.next_deadline(), 700u);
  first.deadline = 500;
  EXPECT_EQ(engine.next_deadline(), 500u);
}

TEST_F(PortDeadline, wakes_the_sleeper_when_progress_leaves_something_held) {
  engine.progress();
  EXPECT_EQ(woken_by, kNever);
  second.deadline = 700;
  engine.progress();
  EXPECT_EQ(woken_by, 700u);
}

}  // namespace
}  // namespace weft::path
