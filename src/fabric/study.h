// Traffic over an installation, and what came of it: offered and accepted load, latencies, losses.
// The traffic follows from the options and the seed, so that a study gives the same again. It
// drives the fabric, has no clock of its own, and tells how far it is. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "fabric/installation.h"
#include "fabric/text_error.h"

namespace weft::fabric {

enum class Traffic : std::uint8_t {
  kUniform,      ///< each frame to anybody else
  kPermutation,  ///< each endpoint to one other, drawn once
  kIncast,       ///< all to the first endpoint
  kAllToAll,     ///< each endpoint one frame to each other, and then it is over
  kRecorded,     ///< as a file says, and then it is over
};

struct RecordedFrame {
  Tick when;
  std::uint32_t from, to;  ///< endpoints
  std::uint16_t flits;
};

struct StudyOptions {
  Traffic traffic = Traffic::kUniform;
  double load = 0.1;  ///< flits that each endpoint offers in a tick
  std::uint16_t frame_flits = 4;
  std::uint64_t seed = 1;
  Tick warm_up = 2'000;
  Tick measured = 10'000;
  Tick drain = 100'000;  ///< at most, until all that was measured has arrived
  std::vector<RecordedFrame> recorded;
};

struct StudyResult {
  double offered = 0, accepted = 0;  ///< flits for each endpoint and tick, while measured
  std::uint64_t frames = 0;          ///< of which latencies are known
  double mean_latency = 0;  ///< ticks from the first flit's being offered to the last's arrival
  Tick least_latency = 0, median_latency = 0, p99_latency = 0, most_latency = 0;
  double mean_hops = 0;
  Tick ticks = 0;        ///< in all
  bool drained = false;  ///< false: what was measured did not all arrive
  LinkStats links;
  std::array<std::uint64_t, static_cast<std::size_t>(Drop::kCount)> drops{};
  std::string deadlock;  ///< the cycle; empty: none
  std::uint64_t all_frames = 0;
};

class Study {
 public:
  /// Called now and then with the share that is done, 0 to 1.
  using Progress = std::function<void(double)>;

  Study(Installation& installation, const StudyOptions& options);
  StudyResult run(const Progress& progress = {});

 private:
  struct Due {
    Tick when;
    std::uint32_t endpoint;
    friend bool operator>(const Due& a, const Due& b) {
      return a.when != b.when ? a.when > b.when : a.endpoint > b.endpoint;
    }
  };

  bool finite() const;
  Tick gap();
  void offer_due();
  void offer(std::uint32_t from, std::uint32_t to, std::uint16_t flits, Tick when);
  std::uint32_t destination_of(std::uint32_t from);
  void take_results();
  bool look_for_deadlock();
  void summarise();

  Installation& installation_;
  Fabric& fabric_;
  const StudyOptions options_;
  base::SeededRandom random_;
  std::vector<Due> due_;  // a heap
  std::vector<std::uint32_t> partner_;
  std::vector<std::uint32_t> under_way_;  // frames, by endpoint
  std::size_t next_recorded_ = 0;
  std::uint64_t measured_under_way_ = 0, measured_flits_ = 0, accepted_flits_ = 0, hops_ = 0;
  Tick next_look_ = 0;
  std::vector<std::uint32_t> latencies_;
  StudyResult result_;
};

/// Lines of "tick FROM TO flits", where FROM and TO are names of hosts.
Parsed<std::vector<RecordedFrame>> read_traffic(std::string_view text,
                                                const Installation& installation);

}  // namespace weft::fabric
