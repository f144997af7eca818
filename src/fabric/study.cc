#include "fabric/study.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "base/assert.h"

namespace weft::fabric {
namespace {

/// More than that wait at no source: an overloaded fabric would fill the memory.
constexpr std::uint32_t kMostWaiting = 512;
constexpr std::uint64_t kMeasured = std::uint64_t{1} << 63;
constexpr Tick kLookEvery = 4096;

}  // namespace

Study::Study(Installation& installation, const StudyOptions& options)
    : installation_(installation),
      fabric_(installation.fabric()),
      options_(options),
      random_(options.seed),
      under_way_(installation.endpoints().size()) {
  WEFT_ASSERT(options.load > 0 && options.frame_flits > 0);
  const auto count = static_cast<std::uint32_t>(under_way_.size());
  partner_.resize(count);
  std::iota(partner_.begin(), partner_.end(), 0u);
  if (options.traffic == Traffic::kPermutation) {
    // One cycle through all, so that nobody sends to itself.
    for (std::uint32_t i = count; i > 1; --i) {
      std::swap(partner_[i - 1], partner_[random_.below(i - 1)]);
    }
  }
  if (options.traffic == Traffic::kRecorded || count < 2) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (options.traffic == Traffic::kIncast && i == 0) continue;
    due_.push_back({gap(), i});
  }
  std::ranges::make_heap(due_, std::greater<>{});
}

bool Study::finite() const {
  return options_.traffic == Traffic::kAllToAll || options_.traffic == Traffic::kRecorded;
}

/// Ticks until the next frame: geometric, so that frames come independently of each other.
Tick Study::gap() {
  const double chance = options_.load / options_.frame_flits;
  if (chance >= 1) return 1;
  const double uniform = (static_cast<double>(random_.next() >> 11) + 1) * 0x1p-53;
  return 1 + static_cast<Tick>(std::log(uniform) / std::log1p(-chance));
}

std::uint32_t Study::destination_of(std::uint32_t from) {
  const auto count = static_cast<std::uint32_t>(under_way_.size());
  switch (options_.traffic) {
    case Traffic::kPermutation:
      return partner_[from];
    case Traffic::kIncast:
      return 0;
    case Traffic::kAllToAll:
      return (partner_[from] = (partner_[from] + 1) % count);
    case Traffic::kUniform:
    case Traffic::kRecorded:
      break;
  }
  const auto other = static_cast<std::uint32_t>(random_.below(count - 1));
  return other < from ? other : other + 1;
}

void Study::offer(std::uint32_t from, std::uint32_t to, std::uint16_t flits, Tick when) {
  const bool measured =
      finite() || (when >= options_.warm_up && when < options_.warm_up + options_.measured);
  if (measured) measured_flits_ += flits;
  if (under_way_[from] >= kMostWaiting && !finite()) return;
  Sending what = installation_.sending(from, to, flits);
  what.cookie = from | (measured ? kMeasured : 0);
  fabric_.send(what);
  ++under_way_[from];
  ++result_.all_frames;
  if (measured) ++measured_under_way_;
}

void Study::offer_due() {
  const Tick now = fabric_.now();
  while (next_recorded_ < options_.recorded.size() &&
         options_.recorded[next_recorded_].when <= now) {
    const RecordedFrame& frame = options_.recorded[next_recorded_++];
    if (frame.from != frame.to) offer(frame.from, frame.to, frame.flits, now);
  }
  while (!due_.empty() && due_.front().when <= now) {
    std::ranges::pop_heap(due_, std::greater<>{});
    Due& due = due_.back();
    const std::uint32_t to = destination_of(due.endpoint);
    if (to == due.endpoint) {  // all have had theirs
      due_.pop_back();
      continue;
    }
    offer(due.endpoint, to, options_.frame_flits, now);
    due.when += gap();
    std::ranges::push_heap(due_, std::greater<>{});
  }
}

void Study::take_results() {
  const Tick end = options_.warm_up + options_.measured;
  for (const Arrival& arrival : fabric_.arrivals()) {
    const Frame& frame = fabric_.frame(arrival.frame);
    if (finite() || (arrival.when >= options_.warm_up && arrival.when < end)) {
      accepted_flits_ += frame.flits;
    }
    if ((frame.cookie & kMeasured) != 0) {
      --measured_under_way_;
      latencies_.push_back(static_cast<std::uint32_t>(arrival.when - frame.created));
      hops_ += frame.hops;
    }
    --under_way_[frame.cookie & ~kMeasured];
    fabric_.release(arrival.frame);
  }
  fabric_.arrivals().clear();
  for (const Dropped& drop : fabric_.drops()) {
    const Frame& frame = fabric_.frame(drop.frame);
    ++result_.drops[static_cast<std::size_t>(drop.why)];
    if ((frame.cookie & kMeasured) != 0) --measured_under_way_;
    --under_way_[frame.cookie & ~kMeasured];
  }
  fabric_.drops().clear();  // their frames stay: flits of them may still be on their way
}

bool Study::look_for_deadlock() {
  if (fabric_.now() < next_look_) return false;
  next_look_ = fabric_.now() + std::max<Tick>(kLookEvery, fabric_.shape().ports.size());
  const std::vector<Blocked> cycle = fabric_.find_deadlock();
  if (cycle.empty()) return false;
  result_.deadlock = installation_.describe(cycle);
  return true;
}

StudyResult Study::run(const Progress& progress) {
  const Tick end = options_.warm_up + options_.measured;
  Tick last = end + options_.drain;
  if (finite() && !options_.recorded.empty()) last += options_.recorded.back().when;
  Tick next_told = 0;
  while (true) {
    const Tick now = fabric_.now();
    const bool offering =
        finite() ? !due_.empty() || next_recorded_ < options_.recorded.size() : now < end;
    if (!offering && measured_under_way_ == 0) break;
    if (!finite() && now >= last) break;
    // Traffic goes on while the last frames that count are under way.
    offer_due();
    if (fabric_.links().idle()) {
      Tick next = due_.empty() ? kNever : due_.front().when;
      if (next_recorded_ < options_.recorded.size()) {
        next = std::min(next, options_.recorded[next_recorded_].when);
      }
      if (next == kNever) {  // nothing moves, and nothing will
        next_look_ = 0;
        if (!look_for_deadlock()) next_look_ = 0, look_for_deadlock();
        break;
      }
      fabric_.links().skip_to(next);
      continue;
    }
    fabric_.step();
    take_results();
    if (look_for_deadlock()) break;
    if (progress && now >= next_told) {
      next_told = now + 1024;
      progress(std::min(1.0, static_cast<double>(now) / static_cast<double>(end)));
    }
  }
  summarise();
  return result_;
}

void Study::summarise() {
  const Tick span = finite() ? std::max<Tick>(fabric_.now(), 1) : options_.measured;
  const double share = static_cast<double>(span) * static_cast<double>(under_way_.size());
  result_.offered = static_cast<double>(measured_flits_) / share;
  result_.accepted = static_cast<double>(accepted_flits_) / share;
  result_.ticks = fabric_.now();
  result_.drained = measured_under_way_ == 0;
  result_.links = fabric_.links().stats();
  result_.frames = latencies_.size();
  if (latencies_.empty()) return;
  std::ranges::sort(latencies_);
  const auto count = static_cast<double>(latencies_.size());
  result_.mean_latency = std::accumulate(latencies_.begin(), latencies_.end(), 0.0) / count;
  result_.mean_hops = static_cast<double>(hops_) / count;
  result_.least_latency = latencies_.front();
  result_.median_latency = latencies_[latencies_.size() / 2];
  result_.p99_latency = latencies_[latencies_.size() * 99 / 100];
  result_.most_latency = latencies_.back();
}

Parsed<std::vector<RecordedFrame>> read_traffic(std::string_view text,
                                                const Installation& installation) {
  std::unordered_map<std::string, std::uint32_t> by_name;
  for (std::uint32_t i = 0; i < installation.endpoints().size(); ++i) {
    by_name.emplace(installation.topology().nodes[installation.endpoints()[i].node].name, i);
  }
  std::vector<RecordedFrame> frames;
  std::uint32_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    LineScanner line(text.substr(0, end), ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.at_end()) continue;
    const auto when = line.number("a tick", frames.empty() ? 0 : frames.back().when, kNever / 2);
    if (!when) return tl::unexpected(when.error());
    std::array<std::uint32_t, 2> ends{};
    for (std::uint32_t& place : ends) {
      line.skip_blanks();
      const std::size_t begun = line.at();
      const auto name = line.quoted("a host's name");
      if (!name) return tl::unexpected(name.error());
      const auto found = by_name.find(*name);
      if (found == by_name.end()) {
        return line.refuse(begun, fmt::format("there is no host \"{}\"", *name));
      }
      place = found->second;
    }
    const auto flits = line.number("a number of flits", 1, 0x7FFF);
    if (!flits) return tl::unexpected(flits.error());
    if (!line.at_end()) return line.expected("the line's end");
    frames.push_back({*when, ends[0], ends[1], static_cast<std::uint16_t>(*flits)});
  }
  return frames;
}

}  // namespace weft::fabric
