#include "demo/bench.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/assert.h"
#include "demo/options.h"
#include "demo/pair.h"
#include "demo/shared_queue.h"
#include "weft/extensions.h"

namespace weft::demo {
namespace {

using Clock = std::chrono::steady_clock;
using channel::Channel;
using channel::Settings;

double us_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
}

void put(Channel& channel, std::span<const std::byte> message) {
  while (!message.empty()) {
    const iovec rest{const_cast<std::byte*>(message.data()), message.size()};
    message = message.subspan(must(channel.try_send({&rest, 1})));
  }
}
void get(Channel& channel) {
  for (;;) {
    const auto message = channel.try_receive();
    if (!message) give_up(message.error().message);
    if (*message) return;
  }
}

struct Row {
  std::string name, unit;
  std::vector<double> samples;
};

class Bench {
 public:
  Bench(const BenchOptions& options, const channel::ContextOptions& context)
      : options_(options), pair_(options.address, context, options.end) {}

  void run() {
    static_cast<void>(pair_.open({}));  // the device's threads begin now, and may run anywhere
    pair_.take_core();
    measure("latency_8", [this] { latency(); });
    measure("rate_8", [this] { rate(); });
    measure("stream", [this] { streams(); });
    measure("first_large", [this] { first_large(); });
    measure("while_growing", [this] { while_growing(); });
    measure("idle", [this] {
      idle("", {});
      idle(", tiny", Settings::tiny());
    });
    measure("many", [this] { many(); });
    measure("shared_queue", [this] { shared_queue(); });
    WEFT_ASSERT(offered_ == measurements().size());
    pair_.meet();
    if (pair_.here()) print();
  }

 private:
  void measure(const std::string& name, const std::function<void()>& how) {
    WEFT_ASSERT(measurements().at(offered_++) == name);  // --only and --help know them by the list
    if (!options_.only.empty() && options_.only != name) return;
    pair_.meet();
    how();
  }

  std::vector<double>& row(const std::string& name, const std::string& unit) {
    for (Row& r : rows_) {
      if (r.name == name) return r.samples;
    }
    return rows_.emplace_back(Row{name, unit, {}}).samples;
  }

  /// Both poll; half of there and back, in microseconds.
  std::vector<double> ping_pong(Channel& channel, int count, std::size_t bytes) {
    std::vector<double> times;
    const std::vector<std::byte> message(bytes);
    for (int i = 0; i < count; ++i) {
      if (!pair_.here()) {
        get(channel);
        put(channel, message);
        continue;
      }
      const auto begun = Clock::now();
      put(channel, message);
      get(channel);
      times.push_back(us_since(begun) / 2);
    }
    std::sort(times.begin(), times.end());
    return times;
  }

  /// The same for many without a look at the clock in between, as the peers are measured.
  double one_way(Channel& channel, int count, std::size_t bytes) {
    const std::vector<std::byte> message(bytes);
    const auto begun = Clock::now();
    for (int i = 0; i < count; ++i) {
      if (pair_.here()) put(channel, message);
      get(channel);
      if (!pair_.here()) put(channel, message);
    }
    return us_since(begun) / 2 / count;
  }

  void latency() {
    auto growing = pair_.open({});
    auto fixed = pair_.open(Settings::fixed());
    ping_pong(growing, 2000, 8);
    ping_pong(fixed, 2000, 8);
    for (int round = 0; round < 15; ++round) {
      const double together = one_way(growing, 2000, 8), together_fixed = one_way(fixed, 2000, 8);
      const auto a = ping_pong(growing, 2000, 8), b = ping_pong(fixed, 2000, 8);
      if (!pair_.here()) continue;
      row("8 B one way, growing", "us").push_back(together);
      row("8 B one way, fixed", "us").push_back(together_fixed);
      row("8 B one way p50, growing", "us").push_back(a[a.size() / 2]);
      row("8 B one way p50, fixed", "us").push_back(b[b.size() / 2]);
      row("8 B one way p99, growing", "us").push_back(a[a.size() * 99 / 100]);
      row("8 B one way p99, fixed", "us").push_back(b[b.size() * 99 / 100]);
    }
  }

  double stream_rate(Channel& channel, int count, std::size_t bytes) {
    const std::vector<std::byte> message(bytes);
    const auto begun = Clock::now();
    for (int i = 0; i < count; ++i) {
      if (pair_.here()) {
        put(channel, message);
      } else {
        get(channel);
      }
    }
    if (!pair_.here()) {
      put(channel, std::span(message).first(1));
      return 0;
    }
    get(channel);
    return count / us_since(begun);
  }

  double batch_rate(Channel& channel, std::size_t count, std::size_t bytes) {
    const std::vector<std::byte> message(bytes);
    const std::vector<iovec> many(channel::Batch::kMost,
                                  {const_cast<std::byte*>(message.data()), bytes});
    channel::Batch batch;
    const auto begun = Clock::now();
    for (std::size_t done = 0; done < count;) {
      if (pair_.here()) {
        const std::size_t n = std::min(many.size(), count - done);
        done += must(channel.try_send_batch(std::span(many).first(n))).messages;
      } else {
        done += must(channel.try_receive_batch(batch));
      }
    }
    if (!pair_.here()) {
      put(channel, std::span(message).first(1));
      return 0;
    }
    get(channel);
    return static_cast<double>(count) / us_since(begun);
  }

  void rate() {
    auto growing = pair_.open({});
    auto fixed = pair_.open(Settings::fixed());
    for (int round = 0; round < 7; ++round) {
      const double many = batch_rate(growing, 1'000'000, 8);
      const double many_fixed = batch_rate(fixed, 1'000'000, 8);
      if (pair_.here()) {
        row("8 B messages in batches, growing", "M/s").push_back(many);
        row("8 B messages in batches, fixed", "M/s").push_back(many_fixed);
      }
      const double a = stream_rate(growing, 200'000, 8), b = stream_rate(fixed, 200'000, 8);
      if (!pair_.here()) continue;
      row("8 B messages, growing", "M/s").push_back(a);
      row("8 B messages, fixed", "M/s").push_back(b);
    }
  }

  /// GB/s of messages that the receiver reads in place.
  double lend_rate(Channel& channel, int count, std::span<const std::byte> message) {
    constexpr std::size_t kUnderWay = 3;
    const auto begun = Clock::now();
    std::vector<std::uint32_t> loans;
    for (int sent = 0; pair_.here() && (sent < count || !loans.empty());) {
      if (sent < count && loans.size() < kUnderWay) {
        if (const auto loan = must(channel.try_lend(message)); loan != 0) {
          loans.push_back(loan);
          ++sent;
        }
      }
      while (!loans.empty() && channel.returned(loans.front())) loans.erase(loans.begin());
    }
    for (int i = 0; !pair_.here() && i < count; ++i) get(channel);
    const std::byte done{};
    if (!pair_.here()) {
      put(channel, {&done, 1});
      return 0;
    }
    get(channel);
    return static_cast<double>(message.size()) * count / us_since(begun) / 1000;
  }

  void streams() {
    auto channel = pair_.open({});
    Settings by_message;
    by_message.loan_end = channel::LoanEnd::kPeerCloses;
    auto other = pair_.open(by_message);
    Settings third_phase;  // in which messages of 64 KiB fit
    third_phase.phases.push_back({65536, 4});
    auto fitting = pair_.open(third_phase);
    // Begins with a page, as the peers' buffers do.
    constexpr std::size_t kPage = 4096, kMost = std::size_t{1} << 20;
    std::vector<std::byte> memory_of_heap(kMost + kPage);
    const std::size_t skipped = -reinterpret_cast<std::uintptr_t>(memory_of_heap.data()) % kPage;
    const auto heap = std::span<const std::byte>(memory_of_heap).subspan(skipped, kMost);
    void* memory = nullptr;
    if (weft_get_extensions != nullptr) weft_get_extensions()->arena_create(kMost, &memory);
    for (int round = 0; round < 5; ++round) {
      for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20}) {
        const int count = static_cast<int>((std::size_t{32} << 20) / bytes);
        const double a = lend_rate(channel, count, heap.first(bytes));
        const std::string name = fmt::format("{} KiB stream", bytes / 1024);
        if (pair_.here()) row(name + ", heap memory", "GB/s").push_back(a);
        const double c = lend_rate(other, count, heap.first(bytes));
        if (pair_.here()) row(name + ", heap memory, the peer closes", "GB/s").push_back(c);
        if (bytes <= third_phase.phases.back().payload_bytes) {
          const double d = stream_rate(fitting, count, bytes) * static_cast<double>(bytes) / 1000;
          if (pair_.here()) row(name + ", heap memory, third phase", "GB/s").push_back(d);
        }
        if (memory == nullptr) continue;
        const double b = lend_rate(channel, count, {static_cast<std::byte*>(memory), bytes});
        if (pair_.here()) row(name + ", arena memory", "GB/s").push_back(b);
      }
    }
  }

  void first_large() {
    const std::vector<std::byte> large(16000);
    for (int i = 0; i < 200; ++i) {
      auto channel = pair_.open({});
      ping_pong(channel, 50, 8);
      const auto begun = Clock::now();
      if (pair_.here()) {
        put(channel, large);
        get(channel);
        row("first 16,000 B message, growth and answer included", "us").push_back(us_since(begun));
      } else {
        get(channel);
        put(channel, std::span(large).first(8));
      }
    }
  }

  // Small messages go back and forth on one channel, which grows meanwhile in every other round.
  void while_growing() {
    Settings settings;
    settings.shrink_after_ns = 3'000'000;
    auto channel = pair_.open(settings);
    const std::vector<std::byte> large(16000);
    std::vector<double> growing, at_rest;
    for (int round = 0; round < 200; ++round) {
      const auto quiet = Clock::now();  // until it has shrunk again
      while (channel.statistics().send_phase != 0 && us_since(quiet) < 1e6) {
        pair_.context().progress();
      }
      pair_.meet();
      // The request goes out, and the small ones that follow meet the growth.
      ping_pong(channel, 100, 8);  // both look again
      const bool grow = round % 2 == 1;
      if (pair_.here() && grow) {
        const iovec whole{const_cast<std::byte*>(large.data()), large.size()};
        if (must(channel.try_send({&whole, 1})) > 0) give_up("a large message did not ask to grow");
      }
      const auto times = ping_pong(channel, 100, 8);
      auto& all = grow ? growing : at_rest;
      all.insert(all.end(), times.begin(), times.end());
      const auto begun = Clock::now();
      while (us_since(begun) < 5000) pair_.context().progress();
    }
    if (!pair_.here()) return;
    const auto p99 = [](std::vector<double>& all) {
      std::sort(all.begin(), all.end());
      return all[all.size() * 99 / 100];
    };
    row("8 B one way p99, the same channel at rest", "us").push_back(p99(at_rest));
    row("8 B one way p99, channel growing meanwhile", "us").push_back(p99(growing));
    row("growths during that", "").push_back(static_cast<double>(channel.statistics().grows));
  }

  static double pss_kib() {
    std::ifstream file("/proc/self/smaps_rollup");
    std::string word;
    double value = 0;
    while (file >> word) {
      if (word == "Pss:") file >> value;
    }
    return value;
  }

  /// Registered memory and heap of both sides together, in KiB.
  double weight() {
    const double mine =
        static_cast<double>(mallinfo2().uordblks + pair_.context().figures().used_bytes);
    return (mine + static_cast<double>(pair_.exchange(static_cast<std::uint64_t>(mine)))) / 1024;
  }
  double resident() {
    const double mine = pss_kib();
    return mine + static_cast<double>(pair_.exchange(static_cast<std::uint64_t>(mine)));
  }

  /// A connection is idle when both ends have stopped looking at it.
  void come_to_rest() {
    const auto begun = Clock::now();
    while (us_since(begun) < 50'000) pair_.context().progress();
    pair_.meet();
  }

  void idle(const std::string& name, const Settings& settings) {
    const int count = options_.connections;
    auto warm = pair_.open(settings);
    come_to_rest();
    const double before = weight(), resident_before = resident();
    const auto begun = Clock::now();
    auto channels = pair_.open_many(settings, count);
    const double seconds = us_since(begun) / 1e6;
    come_to_rest();
    const double weighs = (weight() - before) / count;
    const double resides = (resident() - resident_before) / count;
    const double registered =
        static_cast<double>(channels.front().statistics().registered_bytes) / 1024;
    if (pair_.here()) {
      row("idle connection" + name + ", registered, both sides", "KiB").push_back(2 * registered);
      row("idle connection" + name + ", registered and heap, both sides", "KiB").push_back(weighs);
      row("idle connection" + name + ", resident, both sides", "KiB").push_back(resides);
      row("connections" + name, "1/s").push_back(count / seconds);
    }
    keep(channels);
  }

  // Ten thousand connections, one in a hundred busy with messages of 16 KiB.
  void many() {
    const int count = options_.many;
    constexpr int kBusyEvery = 100;
    const double before = weight();
    auto channels = pair_.open_many({}, count);
    const std::uint64_t quiet = channels[1].statistics().registered_bytes;
    const std::vector<std::byte> message(16384);
    constexpr int kRounds = 3;
    std::vector<bool> busy(channels.size());
    // Between hosts they may have been accepted in another order than they were asked for: who
    // receives takes what comes.
    for (int i = 0; i < count; ++i) channels[i].set_tag(static_cast<std::uint64_t>(i));
    for (int sent = 0; pair_.here() && sent < kRounds; ++sent) {
      for (int i = 0; i < count; i += kBusyEvery) {
        put(channels[i], message);
        busy[i] = true;
      }
    }
    for (int left = kRounds * ((count - 1) / kBusyEvery + 1); !pair_.here() && left > 0;) {
      pair_.context().progress();
      for (const std::uint64_t i : pair_.context().take_ready()) {
        for (busy[i] = true; must(channels[i].try_receive());) --left;
      }
    }
    const double weighs = weight() - before;
    int grown = 0, changed = 0;
    for (int i = 0; i < count; ++i) {
      const auto now = channels[i].statistics();
      if (busy[i]) {
        grown += now.send_phase > 0 ? 1 : 0;
      } else {
        changed += now.registered_bytes != quiet || now.send_phase != 0 ? 1 : 0;
      }
    }
    const auto changed_there = static_cast<double>(pair_.exchange(changed));
    if (pair_.here()) {
      const std::string name = fmt::format("{} connections, 1 % busy: ", count);
      row(name + "registered and heap, both sides", "MiB").push_back(weighs / 1024);
      row(name + "grown", "").push_back(grown);
      row(name + "quiet ones that changed, both sides", "").push_back(changed + changed_there);
    }
    keep(channels);
  }

  // The other way to spend little memory: buffers that all connections share, and rendezvous.
  void shared_queue() {
    const std::string name = "baseline, shared receive queue and rendezvous: ";
    SharedQueue queue(pair_);
    const std::vector<std::byte> message(8), large(std::size_t{1} << 20);
    const std::span<const std::byte> small(message);
    constexpr int kPings = 2000, kMessages = 100'000;
    for (int round = 0; round < 7; ++round) {
      auto begun = Clock::now();
      for (int i = 0; i < kPings; ++i) {
        if (pair_.here()) queue.send(small);
        queue.receive();
        if (!pair_.here()) queue.send(small);
      }
      if (pair_.here()) row(name + "8 B one way", "us").push_back(us_since(begun) / 2 / kPings);
      begun = Clock::now();
      for (int i = 0; i < kMessages; ++i) pair_.here() ? queue.send(small) : queue.receive();
      pair_.here() ? queue.receive() : queue.send(small);
      if (pair_.here()) row(name + "8 B messages", "M/s").push_back(kMessages / us_since(begun));
      for (const std::size_t bytes : {std::size_t{64} << 10, std::size_t{1} << 20}) {
        const int count = static_cast<int>((std::size_t{32} << 20) / bytes);
        begun = Clock::now();
        for (int i = 0; i < count; ++i) {
          pair_.here() ? queue.lend(std::span(large).first(bytes), 2) : queue.pull();
        }
        if (!pair_.here()) continue;
        queue.lend({}, 0);
        row(fmt::format("{}{} KiB stream, heap memory", name, bytes / 1024), "GB/s")
            .push_back(static_cast<double>(bytes) * count / us_since(begun) / 1000);
      }
    }
    constexpr int kIdle = 200;
    const double before = weight();
    for (int i = 0; i < kIdle; ++i) queue.add_connection();
    const double weighs = (weight() - before) / kIdle;
    constexpr double kShared = 2.0 * SharedQueue::kBuffers * SharedQueue::kBufferBytes / 1024;
    if (!pair_.here()) return;
    row(name + "buffers of all connections, both sides", "KiB").push_back(kShared);
    row(name + "idle connection, heap, both sides", "KiB").push_back(weighs);
  }

  void keep(std::vector<Channel>& channels) {
    pair_.meet();
    leave_open_.insert(leave_open_.end(), std::make_move_iterator(channels.begin()),
                       std::make_move_iterator(channels.end()));
  }

  void print() {
    nlohmann::json out = nlohmann::json::array();
    for (Row& r : rows_) {
      std::sort(r.samples.begin(), r.samples.end());
      const double median = r.samples[r.samples.size() / 2];
      out.push_back({{"name", "channel: " + r.name},
                     {"unit", r.unit},
                     {"median", median},
                     {"min", r.samples.front()},
                     {"max", r.samples.back()},
                     {"n", r.samples.size()}});
      if (!options_.json) fmt::print("{:<52} {:>10.3f} {}\n", r.name, median, r.unit);
    }
    if (options_.json) fmt::print("{}\n", out.dump(2));
    std::fflush(stdout);
  }

  const BenchOptions& options_;
  Pair pair_;
  std::vector<Row> rows_;
  std::size_t offered_ = 0;
  std::vector<Channel> leave_open_;
};

}  // namespace

int bench(const BenchOptions& options) {
  channel::ContextOptions context;
  context.budget_bytes = std::uint64_t{2} << 30;
  Bench(options, context).run();
  std::fflush(stdout);
  _exit(0);  // what is still open ends with the process
}

}  // namespace weft::demo
