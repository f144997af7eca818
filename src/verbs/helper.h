// The helper thread: one per process, started when something first needs it, it makes progress for
// programs that do not poll and runs their time-outs. While a program polls, the helper only looks
// now and then whether it still does. docs/progress.md draws the hand-over. Never destroyed.
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
  struct Client {
    path::Engine* engine;
    std::uint64_t polls_seen;
    std::uint64_t served_unseen = 0;
  };

  explicit Helper(path::Clock& clock);
  void start();
  void wake(Nanoseconds deadline);
  void make_wake_fd();
  void renew_wake_fd();
  void ring() const;
  [[noreturn]] void run();
  void farewell();
  bool serve(Nanoseconds* deadline, bool* polled);
  void sleep(Nanoseconds deadline, bool polled);
  /// True: something was handed over, or came from another process, before the note was readable.
  bool missed_something(Nanoseconds* until);
  static void forget_parent();

  path::Clock& clock_;
  /// Another one when the program has closed it.
  std::atomic<int> wake_fd_{-1};
  std::atomic<bool> started_{false};
  std::atomic<std::uint64_t> naps_{0};  ///< begun and ended ones: odd while it may hold fds
  /// Null: other processes do not know us. Set once, while the helper may run.
  std::atomic<host::ProcessPage*> page_{nullptr};
  /// Until when it sleeps with nobody polling; 0 while it is awake or only dozing. A sleeper is
  /// woken only for something that is due earlier.
  std::atomic<Nanoseconds> asleep_until_{0};
  Nanoseconds lingers_until_ = 0;  ///< the helper's own, and so is:
  std::vector<pollfd> fds_;        ///< what it sleeps on
  std::mutex mutex_;               ///< guards clients_ and is held while they are served
  std::vector<Client> clients_;
};

}  // namespace weft::verbs
