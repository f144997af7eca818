// A link: two queue pairs that are connected to each other, and the random program that runs over
// them. It posts work at both ends, judges what comes of it, breaks the connection on purpose now
// and then, and after a break closes both ends, checks the accounts and connects again, until its
// requests are used up. Owned by the world; one thread.
//
//   kDown --connect--> kRunning --all done--> kClosed
//     ^                    |
//     |                 an error
//     +----- closed -- kBroken
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "sim/stage.h"
#include "worlds/end.h"
#include "worlds/link_spec.h"

namespace weft::worlds {

class Link final : public sim::Actor {
 public:
  /// `healed_at`: from then on faults are no excuse for standing still.
  Link(sim::Stage& stage, std::uint32_t number, const LinkSpec& spec, Node& a, Node& b,
       Nanoseconds healed_at);

  void start() { enter(State::kDown, 0); }
  bool closed() const { return state_ == State::kClosed; }
  std::uint32_t number() const { return number_; }

  /// An end got an error completion.
  void on_error();
  void on_crash(const Node& node);
  /// Is there a reason why this end's requests may run out of retries?
  bool disturbed(const End& end) const;
  /// Names what it waits for; for a world that does not come to an end.
  std::string describe() const;

  void on_event(std::uint64_t token) override;

 private:
  enum class State : std::uint8_t { kDown, kRunning, kBroken, kClosed };

  void enter(State state, Nanoseconds next_step);
  void step_again(Nanoseconds delay);
  void try_connect();
  void run();
  void resume(End& end);
  void cause_upheaval();
  bool finish();
  void try_close();
  void close(bool last);
  bool both_up() const;
  void give_up_after(Nanoseconds patience);

  sim::Stage& stage_;
  const std::uint32_t number_;
  const LinkSpec spec_;
  const Nanoseconds healed_at_;
  std::array<std::unique_ptr<End>, 2> ends_;
  State state_ = State::kDown;
  std::uint64_t epoch_ = 0;  ///< events of an earlier state have an earlier one
  std::uint32_t requests_left_;
  bool patient_ = false;  ///< waits until retries have run out by themselves
  Nanoseconds deadline_ = kNever;
};

/// Posts one random request from `from` to its peer, or work on its own memory. False: there was no
/// room for what was drawn.
bool post_something(End& from);
/// A request without effect that is signaled, so that those before it are heard of.
void post_signaled_end(End& from);

}  // namespace weft::worlds
