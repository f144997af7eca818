// Runs a connection manager in a process: the lock, the clock, the exchange with other processes,
// and the one thread that waits for messages and times, which runs from start() to the end of the
// process. Made once, lives for ever; a child after fork needs another one. Whoever calls holds the
// lock (Guard), except where said.
#pragma once

#include <memory>
#include <mutex>

#include "base/lock.h"
#include "cm/host_exchange.h"
#include "cm/manager.h"
#include "host/fork.h"
#include "weft/result.h"

namespace weft::cm {

/// Who owns the identifiers, and the way to other hosts. With the lock held; must not wait.
class Owner {
 public:
  virtual ~Owner() = default;
  virtual void on_event(Handle identifier, const Event& event) = 0;
  /// To the host of the packet's destination, from the device that has its source. May be lost.
  virtual void send_to_network(const Packet& packet) = 0;
  virtual void count_refused(const CountRefused& refused) = 0;
};

class Driver {
 public:
  /// Devices and owner outlive it. Without the lock.
  static Result<std::unique_ptr<Driver>> create(Devices& devices, Owner& owner);

  /// A child must find neither the lock held nor anything half changed.
  class Guard {
   public:
    explicit Guard(Driver& driver) : guard_(driver.lock_) {}

   private:
    host::ForkHold hold_;
    std::lock_guard<base::Lock> guard_;
  };

  /// Starts the thread unless it runs. kSystem: it cannot be started.
  Result<void> start();

  Manager& manager() { return manager_; }
  /// The time that the manager gets.
  static Nanoseconds now();
  /// After each call of the manager: what it wants done, and when it wants to be called.
  void perform(const Actions& actions);
  /// Calls the manager and performs what it wants.
  template <class Call>
  auto run(Call call) {
    Actions actions;
    auto result = call(manager_, now(), actions);
    perform(actions);
    return result;
  }

  /// A program asks again and again, without waiting: it does the thread's work meanwhile, which
  /// saves two changes of thread for each message.
  void poll();
  /// The program ends: the manager closes what it has. Takes the lock itself, if it is soon free.
  void at_exit();

 private:
  Driver(HostExchange exchange, Devices& devices, Owner& owner);
  static void run_thread(Driver& driver);
  /// True: the exchange has no room for more peers now.
  bool step();
  bool is_polled() const;
  void set_timer();

  base::Lock lock_;
  HostExchange exchange_;
  Owner& owner_;
  Manager manager_;
  bool running_ = false;
  // The timer goes off at the next deadline, or earlier if that has moved: nothing is due then, and
  // it is set again.
  Nanoseconds timer_at_ = kNever;
  // When a program last asked, and when it last did the thread's work.
  Nanoseconds asked_at_ = 0, polled_at_ = 0;
};

}  // namespace weft::cm
