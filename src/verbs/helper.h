// The helper thread: one per process, started when something first needs it, it makes progress for
// programs that do not poll and runs their time-outs. While a program polls, the helper only looks
// now and then whether it still does. docs/progress.md draws the hand-over. Never
// destroyed.
#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "host/process_page.h"
#include "path/engine.h"

namespace weft::verbs {

class Helper {
 public:
  static Helper& process();

  /// From now on the engine is served. Starts the thread when the engine has ports or neighbours,
  /// and then returns when it runs.
  void attach(path::Engine& engine);
  /// When this returns the helper has let go of the engine.
  void detach(path::Engine& engine);

 private:
  /// How the helper rests, for one engine.
  enum class Rest : std::uint8_t {
    kSleep,  ///< until something arrives
    kDoze,   ///< for a moment, while the program sees to what arrives; for callers at once
    kLeave,  ///< the same, and the program sees to callers too
  };
  struct Client {
    path::Engine* engine;
    std::uint64_t polls_seen;
    std::uint64_t passive_ops_served = 0;
    /// Something came for a program that is woken by it itself, which gets a moment to see to it.
    bool left_to_program = false;
    Rest rest = Rest::kSleep;
    unsigned leaves = 0;  ///< rests of that kind in a row
    /// The program polled and left frames lying all the same: until then the helper takes them.
    Nanoseconds attentive_until = 0;
  };

  explicit Helper(base::Clock& clock);
  void start();
  void wake(Nanoseconds deadline);
  void attend();
  void make_wake_fd();
  void renew_wake_fd();
  void ring() const;
  [[noreturn]] void run();
  void at_exit();
  bool serve(Nanoseconds* deadline);
  bool serve(Client& client, Nanoseconds* deadline);
  void sleep(Nanoseconds deadline);
  void watch_arrivals();
  bool anybody_needs_help() const;
  /// True: something was handed over, or came from another process, before the note was readable.
  bool missed_something(Nanoseconds* until);
  static void forget_parent();

  base::Clock& clock_;
  /// Another one when the program has closed it.
  std::atomic<int> wake_fd_{-1};
  std::atomic<bool> started_{false};
  std::atomic<std::uint64_t> naps_{0};  ///< begun and ended ones: odd while it may hold fds
  /// Null: other processes do not know us. Set once, while the helper may run.
  std::atomic<host::ProcessPage*> page_{nullptr};
  /// Until when it sleeps with nobody polling; 0 while it is awake or only dozing. A sleeper is
  /// woken only for something that is due earlier.
  std::atomic<Nanoseconds> asleep_until_{0};
  std::atomic<bool> dozes_{false};  ///< it does not watch what arrives
  Nanoseconds lingers_until_ = 0;   ///< the helper's own, and so are:
  bool woken_by_arrival_ = false;   ///< not by a time-out, nor by somebody who rang
  unsigned vain_wakes_ = 0;         ///< in a row, for work that another thread has begun
  std::vector<pollfd> fds_;         ///< what it sleeps on
  std::mutex mutex_;                ///< guards clients_ and is held while they are served
  std::vector<Client> clients_;
};

}  // namespace weft::verbs
