// Coroutines over channels: a Loop runs tasks of one thread, which wait for messages, room and
// connections of one context by co_await, without threads and without callbacks.
//
//   Task echo(Loop& loop, Channel peer) {
//     while (auto message = co_await loop.receive(peer)) {
//       if (!co_await loop.send(peer, message->bytes())) break;
//     }
//   }
//
// A task begins when it is given to spawn() and belongs to the loop from then on; it may spawn
// others. What a task waits for must live until then: channels, listeners, bytes. One thread; a
// loop dies before its context. Each event makes all that wait look once, so it is meant for
// hundreds of tasks; who has more peers uses Context::take_ready().
#pragma once

#include <algorithm>
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/channel.h"

namespace weft::channel {

class Task {
 public:
  struct promise_type {
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { failure = std::current_exception(); }
    std::exception_ptr failure;
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

 private:
  friend class Loop;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

class Loop {
 public:
  explicit Loop(Context& context) : context_(context) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs it up to its first wait, or at the next turn of run() if a task calls this.
  void spawn(Task task) { fresh_.push_back(std::make_unique<Task>(std::move(task))); }

  /// Until all tasks have ended; false: the deadline came first, and they go on with the next call.
  /// Throws what a task let out.
  bool run(Deadline deadline) {
    for (;;) {
      const std::uint64_t seen = context_.events();
      const bool started = start_fresh();
      const bool any = resume_ready() || started;
      if (tasks_.empty() && fresh_.empty()) return true;
      if (any) continue;
      if (std::chrono::steady_clock::now() >= deadline) return false;
      context_.wait(deadline, seen);
    }
  }

  /// co_await gives Result<Message>.
  auto receive(Channel& channel) {
    return until([&channel]() -> std::optional<Result<Message>> {
      auto message = channel.try_receive();
      if (!message) return Result<Message>(tl::unexpected(std::move(message.error())));
      if (!*message) return std::nullopt;
      return Result<Message>(std::move(**message));
    });
  }
  /// co_await gives Result<void>.
  auto send(Channel& channel, std::span<const std::byte> message) {
    return until([&channel, rest = message]() mutable -> std::optional<Result<void>> {
      const iovec element{const_cast<std::byte*>(rest.data()), rest.size()};
      auto taken = channel.try_send({&element, 1});
      if (!taken) return Result<void>(tl::unexpected(std::move(taken.error())));
      rest = rest.subspan(*taken);
      return rest.empty() ? std::optional<Result<void>>(Result<void>{}) : std::nullopt;
    });
  }
  auto send(Channel& channel, std::string_view message) {
    return send(channel, std::as_bytes(std::span(message.data(), message.size())));
  }
  /// co_await gives Channel.
  auto accept(Listener& listener) {
    return until([&listener] { return listener.try_accept(); });
  }
  /// co_await gives Result<Channel>.
  auto connect(std::string host, std::uint16_t port, std::optional<Settings> settings = {}) {
    auto started =
        std::make_shared<Result<Channel>>(context_.start_connect(host, port, std::move(settings)));
    return until([started]() -> std::optional<Result<Channel>> {
      if (*started && !(*started)->connected()) {
        const std::string error = (*started)->statistics().error;
        if (error.empty()) return std::nullopt;
        return Result<Channel>(fail(Errc::kNotFound, error));
      }
      return std::move(*started);
    });
  }

 private:
  struct Waiting {
    virtual bool look() = 0;
    std::coroutine_handle<> handle;

   protected:
    ~Waiting() = default;
  };

  /// Waits until `attempt` gives something.
  template <class Attempt>
  struct Until final : Waiting {
    using Value = typename std::invoke_result_t<Attempt&>::value_type;
    Until(Loop& owner, Attempt how) : loop(owner), attempt(std::move(how)) {}
    Until(const Until&) = delete;
    Until& operator=(const Until&) = delete;
    ~Until() { std::erase(loop.waiting_, this); }  // of a task that ends while it waits

    bool await_ready() { return look(); }
    void await_suspend(std::coroutine_handle<> waiter) {
      this->handle = waiter;
      loop.waiting_.push_back(this);
    }
    Value await_resume() { return std::move(*result); }
    bool look() override {
      if (auto got = attempt()) result.emplace(std::move(*got));
      return result.has_value();
    }

    Loop& loop;
    Attempt attempt;
    std::optional<Value> result;
  };
  template <class Attempt>
  Until<Attempt> until(Attempt attempt) {
    return Until<Attempt>(*this, std::move(attempt));
  }

  bool start_fresh() {
    if (fresh_.empty()) return false;
    auto fresh = std::exchange(fresh_, {});
    for (auto& task : fresh) {
      tasks_.push_back(std::move(task));
      tasks_.back()->handle_.resume();
    }
    reap();
    return true;
  }
  bool resume_ready() {
    std::vector<Waiting*> ready;
    std::erase_if(waiting_, [&ready](Waiting* one) {
      const bool has = one->look();
      if (has) ready.push_back(one);
      return has;
    });
    for (Waiting* one : ready) one->handle.resume();
    if (!ready.empty()) reap();
    return !ready.empty();
  }
  void reap() {
    std::exception_ptr failure;
    std::erase_if(tasks_, [&failure](const std::unique_ptr<Task>& task) {
      if (!task->handle_.done()) return false;
      if (!failure) failure = task->handle_.promise().failure;
      return true;
    });
    if (failure) std::rethrow_exception(failure);
  }

  Context& context_;
  std::vector<Waiting*> waiting_;
  std::vector<std::unique_ptr<Task>> tasks_, fresh_;  // tasks_ goes first: their waits end here
};

}  // namespace weft::channel
