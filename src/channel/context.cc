// The public handles of context and listener.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "channel/context_object.h"
#include "weft/channel.h"

namespace weft::channel {
namespace {

/// Waking from sleep costs as much as this much polling.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kRoundsPerLook = 16;
constexpr std::chrono::seconds kLinger{1};
/// Different ones: a program that makes up settings does not fill memory and log with them.
constexpr std::size_t kWarningsMost = 16;

Result<std::shared_ptr<const Settings>> checked(ContextObject& context,
                                                const std::optional<Settings>& settings) {
  if (!settings) return context.settings();
  auto warning = check(*settings);
  if (!warning) return tl::unexpected(warning.error());
  context.warn(*warning);
  return context.share(*settings);
}

bool one_round(ContextObject& context) {
  std::vector<std::shared_ptr<ChannelObject>> dropped;
  const std::lock_guard guard(context.lock());
  const bool any = context.round();
  dropped = context.take_dropped();
  return any;
}

}  // namespace

// Settings are given with each connection: who has many hears of the same thing once.
void ContextObject::warn(const std::string& text) {
  {
    const std::lock_guard guard(lock_);
    if (text.empty() || warned_.size() >= kWarningsMost ||
        std::find(warned_.begin(), warned_.end(), text) != warned_.end()) {
      return;
    }
    warned_.push_back(text);
  }
  if (on_warning_) return on_warning_(text);
  fmt::print(stderr, "weft: channel settings: {}\n", text);
}

bool wait_for_something(ContextObject& context, Deadline deadline, std::uint64_t seen) {
  const auto sleep_at = std::chrono::steady_clock::now() + kSpin;
  for (;;) {
    for (int i = 0; i < kRoundsPerLook; ++i) {
      one_round(context);
      if (context.events() != seen) return true;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    if (now < sleep_at) continue;
    const std::uint64_t ticket = context.sleepers().ticket();
    bool armed = false;
    {
      const std::lock_guard guard(context.lock());
      armed = context.arm() && context.events() == seen;
    }
    // With something found there is nothing to sleep for; the ticket is given back all the same.
    context.sleepers().sleep(ticket, context.fd(), armed ? deadline : Deadline{});
    if (!armed) return true;
    const std::lock_guard guard(context.lock());
    context.take_wakeups();
  }
}

Context::~Context() {
  if (object_ == nullptr) return;
  const auto deadline = in(kLinger);
  while (std::chrono::steady_clock::now() < deadline) {
    {
      const std::lock_guard guard(object_->lock());
      if (!object_->lingers()) break;
    }
    wait_for_something(*object_, std::min(deadline, in(std::chrono::milliseconds(10))),
                       object_->events());
  }
  std::vector<std::shared_ptr<ChannelObject>> dropped;
  const std::lock_guard guard(object_->lock());
  object_->abandon();
  dropped = object_->take_dropped();
}

Result<Context> Context::create(ContextOptions options) {
  auto warning = check(options.settings);
  if (!warning) return tl::unexpected(warning.error());
  constexpr std::uint64_t kLeast = 64 << 10;
  if (options.budget_bytes < kLeast) {
    return fail(Errc::kInvalidArgument, "budget_bytes: less than the 65536 that one channel needs");
  }
  constexpr Nanoseconds kProbeLeast = 1'000'000, kProbeMost = 3'600'000'000'000;
  if (options.probe_every_ns < kProbeLeast || options.probe_every_ns > kProbeMost) {
    return fail(Errc::kInvalidArgument, "probe_every_ns: is outside 1000000 to 3600000000000");
  }
  auto object = std::make_shared<ContextObject>(options);
  if (auto ok = object->open(); !ok) return tl::unexpected(ok.error());
  object->warn(*warning);
  return Context(std::move(object));
}

Result<Listener> Context::listen(const std::string& host, std::uint16_t port,
                                 std::optional<Settings> settings) {
  auto with = checked(*object_, settings);
  if (!with) return tl::unexpected(with.error());
  auto listener = object_->listen(host, port, *with);
  if (!listener) return tl::unexpected(listener.error());
  return Listener(std::move(*listener));
}

Result<Channel> Context::start_connect(const std::string& host, std::uint16_t port,
                                       std::optional<Settings> settings) {
  auto with = checked(*object_, settings);
  if (!with) return tl::unexpected(with.error());
  auto channel = object_->connect(host, port, *with);
  if (!channel) return tl::unexpected(channel.error());
  return Channel(std::move(*channel));
}

Result<Channel> Context::connect(const std::string& host, std::uint16_t port, Deadline deadline,
                                 std::optional<Settings> settings) {
  auto channel = start_connect(host, port, std::move(settings));
  if (!channel) return channel;
  for (;;) {
    const std::uint64_t seen = object_->events();
    if (channel->connected()) return channel;
    if (const auto error = channel->statistics().error; !error.empty()) {
      return fail(Errc::kNotFound, error);
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::kTimedOut, "the peer did not answer in time");
    }
    wait_for_something(*object_, deadline, seen);
  }
}

bool Context::progress() {
  if (one_round(*object_)) return true;
  bool let_others_run = false;
  {
    const std::lock_guard guard(object_->lock());
    let_others_run = object_->in_vain(kRoundsPerLook);
  }
  if (let_others_run) sched_yield();
  return false;
}
std::uint64_t Context::events() const { return object_->events(); }
bool Context::wait(Deadline deadline, std::uint64_t seen) {
  return wait_for_something(*object_, deadline, seen);
}
bool Context::wait(Deadline deadline) {
  return wait_for_something(*object_, deadline, object_->events());
}
std::vector<std::uint64_t> Context::take_ready() {
  const std::lock_guard guard(object_->lock());
  return object_->take_ready();
}

int Context::fd() const { return object_->fd(); }

bool Context::arm() {
  const std::lock_guard guard(object_->lock());
  object_->take_wakeups();
  return object_->arm();
}

ContextFigures Context::figures() const {
  const std::lock_guard guard(object_->lock());
  const Budget& budget = object_->budget();
  return {budget.channels(), budget.limit(), budget.used(), budget.peak(), budget.refusals()};
}

std::uint16_t Listener::port() const { return object_->port; }

std::optional<Channel> Listener::try_accept() {
  one_round(*object_->context);
  const std::lock_guard guard(object_->context->lock());
  if (object_->ready.empty()) return std::nullopt;
  Channel channel(std::move(object_->ready.front()));
  object_->ready.pop_front();
  return channel;
}

Result<Channel> Listener::accept(Deadline deadline) {
  for (;;) {
    const std::uint64_t seen = object_->context->events();
    if (auto channel = try_accept()) return std::move(*channel);
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(Errc::kTimedOut, "nobody connected in time");
    }
    wait_for_something(*object_->context, deadline, seen);
  }
}

}  // namespace weft::channel
