// How a program that sleeps on completion channels is woken: one for each controller. Nobody stands
// between what arrives and the program where that can be had (docs/progress.md,
// "Programs that sleep"):
//
//  - a thread that waits inside our call looks for some microseconds, where that has been worth
//    it, and then sleeps on the sockets of links and ports itself;
//  - a program that waits by poll or epoll on a descriptor that does not block sleeps on the same
//    sockets, which the descriptor carries, and makes progress when it asks for the event;
//  - else the helper makes progress and so raises the descriptor. A descriptor that blocks carries
//    nothing: its program takes a readable one for an event, and would wait for it. Where several
//    threads wait, each message would wake all of them.
//
// Any thread. Owned by the controller.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/busy_wait.h"
#include "base/lock.h"
#include "host/fd_flags.h"
#include "host/readable_wait.h"
#include "path/engine.h"

namespace weft::verbs {

struct CompChannelObject;

class Waiting final : private host::FlagsListener {
 public:
  explicit Waiting(path::Engine& engine) : engine_(engine) { host::add_flags_listener(*this); }
  ~Waiting() { host::remove_flags_listener(*this); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// A queue of this channel has been armed.
  void on_arm(CompChannelObject& channel);
  /// For one who has found no event: makes progress, and sleeps until there may be one. 0: look
  /// again, or the time is over; else errno, as a read of the descriptor would give it.
  int wait(CompChannelObject& channel, Nanoseconds timeout_ns = kNever);
  /// For one who has found no event and has its own way of sleeping: makes progress. False: there
  /// is no event.
  bool look(CompChannelObject& channel);
  /// For one who polls in vain: on a machine where it is in the way of others, sleeps for a moment
  /// or until something arrives. A thread that sleeps is let in sooner than one that spins.
  void give_way();
  /// The channel goes.
  void forget(const CompChannelObject& channel);

 private:
  class Sleeper;

  void on_descriptor_blocks() override;

  // With lock_ held:
  bool by_one_thread();
  bool carry(CompChannelObject& channel);
  void use_helper();

  std::vector<int> sockets() const;
  void add_sockets(std::vector<pollfd>& fds) const;
  /// One sleep, or none if there is an event. 0 or errno.
  int wait_once(CompChannelObject& channel, host::SignalsHeld& signals, Nanoseconds timeout_ns);
  /// True: an event came before it was worth sleeping.
  bool wait_busily(CompChannelObject& channel, Nanoseconds begun, Nanoseconds timeout_ns);
  int wait_alone(CompChannelObject& channel, host::SignalsHeld& signals, Nanoseconds timeout_ns);
  void request_wake();
  void poll_rings(path::Neighbours& neighbours);
  bool nothing_has_come();
  int sleep(CompChannelObject& channel, host::SignalsHeld& signals, bool on_sockets,
            Nanoseconds timeout_ns);

  path::Engine& engine_;
  std::atomic<std::uint32_t> sleepers_{0};            ///< threads that sleep inside wait()
  base::BusyWait busy_wait_;                          ///< of the one thread that waits in our call
  std::atomic<bool> wakes_left_{false};               ///< in the sockets, by who slept there
  base::Lock lock_;                                   ///< taken to change what follows
  std::atomic<CompChannelObject*> carrier_{nullptr};  ///< whose descriptor carries the sockets
  std::vector<int> carried_;                          ///< the sockets
  unsigned arms_beside_carrier_ = 0;                  ///< of other channels, since it was armed
  const void* thread_ = nullptr;                      ///< that armed a queue last
  unsigned arms_in_a_row_ = 0;                        ///< by it
};

}  // namespace weft::verbs
