#include "cm/driver.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <variant>

namespace weft::cm {
namespace {

/// Who asks twice within this time looks all the time, and does not sleep until it is told.
constexpr Nanoseconds kAsksAgain = 20'000;
/// Who asked so lately will ask again: the thread looks only then whether that was so.
constexpr Nanoseconds kPolledPause = 100'000;

}  // namespace

Result<std::unique_ptr<Driver>> Driver::create(Devices& devices, Owner& owner) {
  auto exchange = HostExchange::create();
  if (!exchange) return tl::unexpected(std::move(exchange.error()));
  return std::unique_ptr<Driver>(new Driver(std::move(*exchange), devices, owner));
}

Driver::Driver(HostExchange exchange, Devices& devices, Owner& owner)
    : exchange_(std::move(exchange)),
      owner_(owner),
      manager_(devices, exchange_, base::system_random()) {}

Nanoseconds Driver::now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<Nanoseconds>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

Result<void> Driver::start() {
  if (running_) return {};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([this] { run_thread(*this); }).detach();
    running_ = true;
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (running_) return {};
  return fail(Errc::kSystem, "connection manager: its thread cannot be started");
}

void Driver::run_thread(Driver& driver) {
  pthread_setname_np(pthread_self(), "weft-cm");
  // It never ends: a thread's end frees and unmaps memory, and libraries such as libfabric patch
  // the functions that do so while other threads run.
  for (;;) {
    int fd = -1;
    {
      const Guard guard(driver);
      fd = driver.exchange_.fd();
    }
    // The program closed what it does not know: nothing will ever come.
    while (fd < 0) ::pause();
    // Deadlines are in the descriptor too, and whatever a program that polls leaves undone keeps it
    // readable: nobody has to tell this thread when to look again.
    epoll_event event;
    epoll_wait(fd, &event, 1, -1);
    bool tired = false, polled = false;
    {
      const Guard guard(driver);
      polled = driver.is_polled();
      if (!polled) tired = driver.step();
    }
    if (polled) std::this_thread::sleep_for(std::chrono::nanoseconds(kPolledPause));
    // No descriptor is left for a peer that waits: looking again at once would not help.
    if (tired) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

bool Driver::is_polled() const { return now() - polled_at_ < kPolledPause; }

void Driver::poll() {
  step();
  const Nanoseconds time = now();
  if (time - asked_at_ < kAsksAgain) polled_at_ = time;
  asked_at_ = time;
}

bool Driver::step() {
  for (const Arrival& arrival : exchange_.collect()) {
    Actions actions;
    if (arrival.packet) {
      manager_.on_message(arrival, now(), actions);
    } else {
      manager_.on_link_gone(arrival.link, now(), actions);
    }
    perform(actions);
  }
  const Nanoseconds time = now();
  if (time >= manager_.next_deadline()) {
    Actions actions;
    manager_.on_timer(time, actions);
    perform(actions);
  }
  if (time >= timer_at_) set_timer();
  return exchange_.overloaded();
}

void Driver::perform(const Actions& actions) {
  struct Performer {
    Driver& driver;
    void operator()(const Send& send) const {
      if (send.link != kNetworkLink) return driver.exchange_.send(send.link, send.packet);
      // What is lost is sent again: it is the network.
      driver.owner_.send_to_network(send.packet);
    }
    void operator()(const Release& release) const { driver.exchange_.release(release.link); }
    void operator()(const CountRefused& refused) const { driver.owner_.count_refused(refused); }
    void operator()(const Notify& notify) const {
      driver.owner_.on_event(notify.identifier, notify.event);
    }
  };
  for (const auto& action : actions) std::visit(Performer{*this}, action);
  if (manager_.next_deadline() < timer_at_) set_timer();
}

void Driver::set_timer() {
  timer_at_ = manager_.next_deadline();
  exchange_.wake_at(timer_at_);
}

void Driver::at_exit() {
  // Whoever has the lock lets go of it soon, unless it is the thread that ends the program.
  constexpr int kTries = 20;
  int tries = 0;
  while (!lock_.try_lock()) {
    if (++tries == kTries) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::lock_guard guard(lock_, std::adopt_lock);
  Actions actions;
  manager_.close_all(actions);
  perform(actions);
}

}  // namespace weft::cm
