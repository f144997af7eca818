#include "demo/show.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "demo/pair.h"
#include "demo/traffic.h"
#include "demo/two_hosts.h"

namespace weft::demo {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kFixedBytes = std::uint64_t{256} << 10;  // a connection, as others have it
constexpr int kSendsAtOnce = 16;

/// What the other process says about itself, in memory that both have.
struct Told {
  std::atomic<std::uint64_t> used_bytes, sent, verified, bytes, wrong;
};

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}

struct View {
  std::uint64_t in_phase[8] = {};
  std::uint64_t grows = 0, shrinks = 0, refusals = 0, rendezvous = 0;
};

/// One side of the traffic.
class Side1000 {
 public:
  Side1000(Pair& pair, const ShowOptions& options, Told& told)
      : pair_(pair),
        told_(told),
        channels_(pair.open_many({}, static_cast<int>(options.channels))),
        lines_(options.channels),
        skew_(options.channels, pair.here() ? 1 : 2) {
    for (std::uint32_t i = 0; i < channels_.size(); ++i) channels_[i].set_tag(i);
    index_channels();
  }

  void round(bool sending) {
    for (int i = 0; i < kSendsAtOnce; ++i) {
      if (!send_one(sending)) break;
    }
    pair_.context().progress();
    for (const std::uint64_t tag : pair_.context().take_ready()) receive(tag);
    told_.used_bytes = pair_.context().figures().used_bytes;
  }
  /// The messages under way are given whole.
  bool settled() const { return unfinished_.empty() && echoes_.empty(); }
  std::vector<std::uint32_t>& latencies_ns() { return latencies_; }
  std::vector<channel::Channel>& channels() { return channels_; }

  View view() const {
    View view;
    for (const channel::Channel& c : channels_) {
      const auto s = c.statistics();
      ++view.in_phase[std::max(s.send_phase, s.receive_phase)];
      view.grows += s.grows, view.shrinks += s.shrinks, view.refusals += s.refusals;
      view.rendezvous += s.rendezvous;
    }
    return view;
  }

 private:
  struct Line {
    std::uint32_t sent = 0, received = 0;
    std::vector<std::byte> message;  // under way
    std::size_t given = 0;
  };

  // Both sides number the channels alike: the one that connected says which is which.
  void index_channels() {
    for (std::uint32_t i = 0; i < channels_.size(); ++i) {
      if (pair_.here()) {
        const auto message = must(channels_[i].receive(channel::in(std::chrono::seconds(10))));
        std::memcpy(&theirs_.emplace_back(), message.bytes().data(), sizeof(std::uint32_t));
      } else {
        theirs_.push_back(i);
        must(channels_[i].send(std::as_bytes(std::span(&i, 1)),
                               channel::in(std::chrono::seconds(10))));
      }
    }
  }

  bool send_one(bool fresh) {
    std::uint32_t i = 0;
    if (!echoes_.empty() && lines_[echoes_.back()].message.empty()) {
      i = echoes_.back();
      echoes_.pop_back();
      begin(i, sizeof(Head), 2);
    } else if (fresh && unfinished_.size() < 64) {
      i = skew_.channel();
      if (lines_[i].message.empty()) begin(i, skew_.bytes(i), ++count_ % 16 == 0 ? 1 : 0);
    } else if (!unfinished_.empty()) {
      i = unfinished_[++turn_ % unfinished_.size()];
    } else {
      return false;
    }
    go_on(i);
    return true;
  }

  void begin(std::uint32_t i, std::uint32_t bytes, std::uint32_t wants_echo) {
    Line& line = lines_[i];
    line.message.resize(bytes);
    line.given = 0;
    fill({theirs_[i], line.sent++, bytes, wants_echo, now_ns()}, line.message);
    unfinished_.push_back(i);
  }

  void go_on(std::uint32_t i) {
    Line& line = lines_[i];
    const iovec rest{line.message.data() + line.given, line.message.size() - line.given};
    line.given += must(channels_[i].try_send({&rest, 1}));
    if (line.given < line.message.size()) return;
    told_.sent += 1;
    line.message.clear();
    std::erase(unfinished_, i);
  }

  void receive(std::uint64_t i) {
    while (auto message = must(channels_[i].try_receive())) {
      Head head;
      if (!verify(message->bytes(), theirs_[i], lines_[i].received++, head)) told_.wrong += 1;
      told_.verified += 1;
      told_.bytes += message->size();
      if (head.wants_echo == 1) echoes_.push_back(static_cast<std::uint32_t>(i));
      if (head.wants_echo == 2) {
        latencies_.push_back(static_cast<std::uint32_t>(
            std::min<std::uint64_t>(now_ns() - head.sent_ns, 0xFFFFFFFF)));
      }
    }
  }

  Pair& pair_;
  Told& told_;
  std::vector<channel::Channel> channels_;
  std::vector<Line> lines_;
  std::vector<std::uint32_t> theirs_;  // the number that both sides give this channel
  std::vector<std::uint32_t> unfinished_, echoes_;
  std::vector<std::uint32_t> latencies_;
  std::size_t turn_ = 0;
  std::uint32_t count_ = 0;
  Skew skew_;
};

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void print_view(double seconds, const View& view, const Told* told, double rate, double gbps,
                std::uint32_t median_ns, std::uint64_t channels, bool live, bool again) {
  const char* clear = live ? "\x1b[K" : "";
  if (live && again) fmt::print("\x1b[6A");
  const std::uint64_t used = told[0].used_bytes + told[1].used_bytes;
  const int bar =
      static_cast<int>(std::min(50.0, 50.0 * mebibytes(used) / mebibytes(channels * kFixedBytes)));
  fmt::print("{}  {:4.1f} s   {} channels: {} small, {} grown\n", clear, seconds, channels,
             view.in_phase[0], view.in_phase[1] + view.in_phase[2]);
  fmt::print("{}  registered, both sides  {:7.1f} MiB  |{:<50}|\n", clear, mebibytes(used),
             std::string(static_cast<std::size_t>(std::max(bar, 1)), '#'));
  fmt::print("{}  fixed 256 KB buffers    {:7.1f} MiB  |{:#<50}|\n", clear,
             mebibytes(channels * kFixedBytes), "");
  fmt::print("{}  {:.0f} messages/s, {:.2f} GB/s, {} verified, {} wrong\n", clear, rate, gbps,
             told[0].verified + told[1].verified, told[0].wrong + told[1].wrong);
  fmt::print("{}  one way and back, median {:.1f} us under load\n", clear, median_ns / 1000.0);
  fmt::print("{}  grown {} times, shrunk {}, refused {}, read in place {}\n", clear, view.grows,
             view.shrinks, view.refusals, view.rendezvous);
  std::fflush(stdout);
}

std::uint32_t percentile(std::vector<std::uint32_t>& values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

/// What one side tells the other: to finish what is under way, and to end.
constexpr int kFinish = 1, kEnd = 2;
constexpr std::chrono::milliseconds kReportEvery{50};
/// What has not arrived after this long is lost.
constexpr double kPatienceSeconds = 10;

/// Between two hosts: what each has in memory is told to the other.
class Telling {
 public:
  Telling(const PairEnd& end, Told* told, std::atomic<int>& stop)
      : reports_(end), told_(told), stop_(stop), mine_(end.side == Side::kHere ? 0 : 1) {}

  void round() {
    Report report;
    if (reports_.take(report)) heed(report);
    if (Clock::now() < next_ || ended_) return;
    next_ = Clock::now() + kReportEvery;
    tell();
  }
  /// Both have ended, and know all of the other; nothing more is on its way.
  void finish() {
    stop_ = kEnd;
    tell();
    while (!ended_) heed(reports_.next());
  }

 private:
  void tell() {
    const Told& own = told_[mine_];
    reports_.send({own.used_bytes, own.sent, own.verified, own.bytes, own.wrong,
                   static_cast<std::uint64_t>(stop_.load())});
  }
  void heed(const Report& report) {
    Told& other = told_[1 - mine_];
    other.used_bytes = report.used_bytes, other.sent = report.sent;
    other.verified = report.verified, other.bytes = report.bytes, other.wrong = report.wrong;
    ended_ = report.stop == kEnd;
    if (mine_ == 1) stop_ = std::max(stop_.load(), static_cast<int>(report.stop));
  }

  Reports reports_;
  Told* const told_;
  std::atomic<int>& stop_;
  const int mine_;
  Clock::time_point next_{};
  bool ended_ = false;  // the other has said its last
};

}  // namespace

int show(const ShowOptions& options) {
  auto* told = static_cast<Told*>(
      mmap(nullptr, 2 * sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  auto* stop = static_cast<std::atomic<int>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  channel::ContextOptions context;
  context.settings.shrink_after_ns = 1'500'000'000;
  const bool live = isatty(STDOUT_FILENO) != 0;
  Pair pair(options.address, context, options.end);
  std::optional<Telling> telling;
  if (options.end) telling.emplace(*options.end, told, *stop);
  const auto begun = Clock::now();
  Side1000 side(pair, options, told[pair.here() ? 0 : 1]);
  const double connected_s = std::chrono::duration<double>(Clock::now() - begun).count();
  if (pair.here()) {
    fmt::print("two {}, {} channels, connected in {:.2f} s\n", options.end ? "hosts" : "processes",
               options.channels, connected_s);
  }
  const auto start = Clock::now();
  auto look_at = start;
  std::uint64_t verified = 0, bytes = 0;
  std::uint64_t peak = 0;
  bool again = false;
  for (;;) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const bool sending = seconds < options.seconds * 0.75;  // then quiet, and what grew shrinks
    side.round(sending && stop->load() == 0);
    if (telling) telling->round();
    peak = std::max<std::uint64_t>(peak, told[0].used_bytes + told[1].used_bytes);
    if (!pair.here() && stop->load() == kEnd) break;  // what is not settled by now is lost
    if (pair.here() && Clock::now() - look_at > std::chrono::milliseconds(live ? 250 : 2000)) {
      const double passed = std::chrono::duration<double>(Clock::now() - look_at).count();
      look_at = Clock::now();
      const std::uint64_t v = told[0].verified + told[1].verified;
      const std::uint64_t b = told[0].bytes + told[1].bytes;
      print_view(seconds, side.view(), told, static_cast<double>(v - verified) / passed,
                 static_cast<double>(b - bytes) / passed / 1e9,
                 percentile(side.latencies_ns(), 0.5), options.channels, live, again);
      again = true;
      verified = v, bytes = b;
    }
    if (pair.here() && seconds > options.seconds) {
      if (stop->load() == 0) stop->store(kFinish);
      // On a machine that is busy with other things what is under way may take its time.
      const bool all_here =
          side.settled() && told[0].sent + told[1].sent == told[0].verified + told[1].verified;
      if (seconds > options.seconds + (all_here ? 0.5 : kPatienceSeconds)) {
        stop->store(kEnd);
        break;
      }
    }
  }
  if (telling) telling->finish();
  pair.meet();
  int result = 0;
  if (pair.here()) {
    const std::uint64_t sent = told[0].sent + told[1].sent;
    const std::uint64_t arrived = told[0].verified + told[1].verified;
    const std::uint64_t wrong = told[0].wrong + told[1].wrong;
    const View view = side.view();
    const std::uint64_t used = told[0].used_bytes + told[1].used_bytes;
    fmt::print("\n  {:<42} {:>12} {:>12}\n", "", "weft", "fixed 256 KB");
    fmt::print("  {:<42} {:>8.1f} MiB {:>8.1f} MiB\n", "registered memory at the busiest moment",
               mebibytes(peak), mebibytes(options.channels * kFixedBytes));
    fmt::print("  {:<42} {:>8.1f} MiB {:>8.1f} MiB\n", "registered memory after a quiet moment",
               mebibytes(used), mebibytes(options.channels * kFixedBytes));
    fmt::print("  {:<42} {:>12}\n", "messages sent and verified, every byte", arrived);
    fmt::print("  {:<42} {:>12}\n", "lost, doubled, reordered or damaged",
               wrong + (sent - arrived));
    fmt::print("  {:<42} {:>9.1f} us\n", "there and back under load, median",
               percentile(side.latencies_ns(), 0.5) / 1000.0);
    fmt::print("  {:<42} {:>9.1f} us\n", "there and back under load, 99 of 100",
               percentile(side.latencies_ns(), 0.99) / 1000.0);
    fmt::print("  {:<42} {:>12}\n", "grown / shrunk again (this side)",
               fmt::format("{} / {}", view.grows, view.shrinks));
    result = wrong == 0 && sent == arrived && arrived > 0 ? 0 : 1;
    fmt::print("\n{}\n", result == 0 ? "Every message arrived whole, in order and once."
                                     : "SOMETHING WENT WRONG: see the table.");
  }
  pair.meet();
  std::fflush(stdout);
  if (!pair.here()) _exit(0);  // a thousand connections end with their process
  _exit(result);
}

}  // namespace weft::demo
