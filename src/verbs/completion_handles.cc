#include <fmt/format.h>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/lock.h"
#include "host/readable_wait.h"
#include "verbs/limits.h"
#include "verbs/objects.h"
#include "weft/verbs.h"

namespace weft::verbs {
namespace {

using Steady = std::chrono::steady_clock;

/// Waking a thread on another core costs tens of microseconds: spin about that long first.
constexpr int kSpins = 2000;
constexpr auto kNap = std::chrono::microseconds(50);

/// Out of line, so that a poll which finds something stays short.
[[gnu::noinline]] std::size_t poll_with_progress(CqObject& cq, std::span<Completion> out) {
  if (out.empty()) {
    cq.controller->poll();
    return 0;
  }
  if (cq.controller->receive(cq.queue, out.data())) return 1;
  cq.controller->poll();
  return cq.queue.poll(out);
}

}  // namespace

CompletionChannel::CompletionChannel(std::shared_ptr<CompChannelObject> object)
    : object_(std::move(object)) {}

int CompletionChannel::fd() const { return object_->set.fd(); }

std::optional<std::uint32_t> CompletionChannel::next_event() const {
  auto number = object_->pop();
  // The descriptor may be readable for what has arrived and has yet to become an event.
  if (!number && !object_->controller->inherited() &&
      object_->controller->waiting().look(*object_)) {
    number = object_->pop();
  }
  return number;
}

Result<std::uint32_t> CompletionChannel::wait(std::chrono::nanoseconds timeout) const {
  const auto deadline = Steady::now() + timeout;
  if (auto ok = object_->controller->check_ours(); !ok) return tl::unexpected(ok.error());
  const host::OnlyWaitIsCancelled shield;
  object_->controller->poll();
  for (;;) {
    if (auto number = object_->pop()) return *number;
    const auto left = (deadline - Steady::now()).count();
    if (left <= 0) {
      return fail(Errc::kTimedOut, "no completion event within the time allowed");
    }
    const int error = object_->controller->waiting().wait(*object_, static_cast<Nanoseconds>(left));
    if (error != 0 && error != EINTR)
      return fail(Errc::kSystem, "channel: the program has closed its descriptor");
  }
}

CompletionQueue::CompletionQueue(std::shared_ptr<CqObject> object) : object_(std::move(object)) {}

std::size_t CompletionQueue::poll(std::span<Completion> out) const {
  if (object_->queue.empty()) return poll_with_progress(*object_, out);
  return object_->queue.take(out);
}

std::optional<Completion> CompletionQueue::poll() const {
  std::optional<Completion> completion(std::in_place);
  queue::CompletionQueue& queue = object_->queue;
  if (queue.empty()) {
    if (object_->controller->receive(queue, &*completion)) return completion;
    object_->controller->poll();
  }
  if (!queue.take_one(&*completion)) completion.reset();
  return completion;
}

Result<Completion> CompletionQueue::wait(std::chrono::nanoseconds timeout) const {
  const auto deadline = Steady::now() + timeout;
  for (int spins = 0;; ++spins) {
    if (auto completion = poll()) return *completion;
    if (spins < kSpins) {
      base::relax();
      continue;
    }
    if (Steady::now() >= deadline) {
      return fail(Errc::kTimedOut, "no completion within the time allowed");
    }
    std::this_thread::sleep_for(kNap);
  }
}

void CompletionQueue::request_notify(bool solicited_only) const {
  object_->request_notify(solicited_only);
}

Result<void> CompletionQueue::resize(std::uint32_t capacity) const {
  if (capacity == 0 || capacity > kMaxCompletions) {
    return fail(Errc::kInvalidArgument,
                fmt::format("capacity: {} is not in 1 to {}", capacity, kMaxCompletions));
  }
  if (object_->queue.resize(capacity)) return {};
  return fail(Errc::kInvalidArgument,
              fmt::format("capacity: {} is less than the {} completions that wait", capacity,
                          object_->queue.size()));
}

std::uint32_t CompletionQueue::number() const { return object_->number; }
std::uint32_t CompletionQueue::capacity() const { return object_->queue.capacity(); }

}  // namespace weft::verbs
