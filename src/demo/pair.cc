#include "demo/pair.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace weft::demo {
namespace {

constexpr std::chrono::seconds kPatience{20};
constexpr int kConnectingAtOnce = 32;

}  // namespace

void give_up(const std::string& why) {
  fmt::print(stderr, "weft: {}\n", why);
  std::fflush(nullptr);
  _exit(1);
}

Pair::Pair(const std::string& address, const channel::ContextOptions& options,
           std::optional<PairEnd> end)
    : address_(address) {
  if (end) {
    side_ = end->side, in_ = end->in, out_ = end->out;
  } else {
    split();
  }
  context_.emplace(must(channel::Context::create(options)));
}

void Pair::split() {
  int down[2], up[2];
  if (pipe(down) != 0 || pipe(up) != 0) give_up("no pipe");
  child_ = fork();
  if (child_ < 0) give_up("no second process");
  side_ = child_ == 0 ? Side::kThere : Side::kHere;
  out_ = here() ? down[1] : up[1];
  in_ = here() ? up[0] : down[0];
  ::close(here() ? down[0] : down[1]);
  ::close(here() ? up[1] : up[0]);
}

void Pair::take_core() const {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  int wanted = here() ? 0 : 1, core = 0;
  while (!CPU_ISSET(core, &allowed) || wanted-- > 0) ++core;
  CPU_ZERO(&allowed);
  CPU_SET(core, &allowed);
  sched_setaffinity(0, sizeof allowed, &allowed);
}

Pair::~Pair() {
  context_.reset();
  ::close(out_);
  ::close(in_);
  if (!here()) _exit(0);
  int status = 0;
  if (child_ > 0) waitpid(child_, &status, 0);
}

std::uint64_t Pair::exchange(std::uint64_t mine) {
  std::uint64_t theirs = 0;
  const bool told = write(out_, &mine, sizeof mine) == sizeof mine;
  // The channels go on meanwhile: what the other side finishes first may need an answer.
  pollfd answer{in_, POLLIN, 0};
  while (told && context_ && poll(&answer, 1, 0) == 0) context_->progress();
  if (!told || read(in_, &theirs, sizeof theirs) != sizeof theirs) {
    give_up("the other process is gone");
  }
  return theirs;
}

void Pair::meet() { exchange(0); }

channel::Channel Pair::open(const channel::Settings& settings) {
  return std::move(open_many(settings, 1).front());
}

std::vector<channel::Channel> Pair::open_many(const channel::Settings& settings, int count) {
  std::vector<channel::Channel> channels;
  const auto deadline = channel::in(kPatience);
  if (here()) {
    auto listener = must(context_->listen(address_, 0, settings));
    exchange(listener.port());
    while (static_cast<int>(channels.size()) < count) {
      channels.push_back(must(listener.accept(deadline)));
    }
    meet();
    return channels;
  }
  const auto port = static_cast<std::uint16_t>(exchange(0));
  std::size_t connected = 0;
  while (static_cast<int>(connected) < count) {
    if (static_cast<int>(channels.size()) < count &&
        channels.size() - connected < kConnectingAtOnce) {
      channels.push_back(must(context_->start_connect(address_, port, settings)));
      continue;
    }
    if (channels[connected].connected()) {
      ++connected;
      continue;
    }
    if (const auto error = channels[connected].statistics().error; !error.empty()) give_up(error);
    if (!context_->wait(deadline)) give_up("the connections do not come about");
  }
  meet();
  return channels;
}

}  // namespace weft::demo
