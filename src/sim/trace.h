// The record of a run: one entry for each thing that happens, mixed into a hash that two runs of
// one seed must share, and kept for a while so that a failure can show what led to it. Entries are
// numbers; they become text only when somebody wants to read them. Owned by the world; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "sim/frame_pool.h"
#include "weft/work.h"

namespace weft::sim {

enum class What : std::uint8_t {
  // Frames: `a` packs opcode, PSN and queue pair, `b` the two endpoints, `c` the size.
  kSent,
  kLost,
  kCut,
  kDuplicated,
  kDelayed,
  kCorrupted,
  kOverflowed,
  kArrived,
  kNobodyThere,
  kBadChecksum,
  kMalformed,
  // Work: `a` is the request's number, `b` packs queue pair, operation and status, `c` the length.
  kPosted,
  kCompleted,
  // Links and nodes: `a` and `b` say which.
  kConnected,
  kBroken,
  kClosed,
  kCrashed,
  kRestarted,
  kPartitioned,
  kSlowed,
  kHealed,
  kEvicted,
  kRevoked,
  kMoved,
};

struct TraceRecord {
  Nanoseconds when = 0;
  What what = What::kSent;
  std::uint32_t node = 0;
  std::uint64_t a = 0, b = 0, c = 0;
};

class Trace {
 public:
  using Sink = std::function<void(std::string_view line)>;

  explicit Trace(base::Clock& clock) : clock_(clock) {}

  /// Off: nothing is recorded, for measurements.
  void enable(bool on) { enabled_ = on; }
  bool enabled() const { return enabled_; }
  /// kStory: only what a person would tell, not each frame and request.
  enum class Detail : std::uint8_t { kAll, kStory };
  void set_sink(Sink sink, Detail detail = Detail::kAll) {
    sink_ = std::move(sink);
    detail_ = detail;
  }
  /// Endpoints are named in the order of their numbers.
  void name_endpoint(std::string name) { endpoints_.push_back(std::move(name)); }

  void add(What what, std::uint32_t node, std::uint64_t a = 0, std::uint64_t b = 0,
           std::uint64_t c = 0);
  void frame(What what, const SimFrame& frame);
  void posted(std::uint32_t node, Qpn qpn, SendOp op, std::uint64_t wr_id, std::uint64_t length);
  void completed(std::uint32_t node, const Completion& completion);

  std::uint64_t hash() const { return hash_; }
  /// The latest entries as text, oldest first.
  std::vector<std::string> last_lines() const;

 private:
  static constexpr std::size_t kKept = 64;

  std::string text(const TraceRecord& record) const;
  std::string frame_text(const TraceRecord& record, std::string_view fate) const;
  std::string event_text(const TraceRecord& record) const;

  base::Clock& clock_;
  bool enabled_ = true;
  Sink sink_;
  Detail detail_ = Detail::kAll;
  std::uint64_t hash_ = 0;
  std::uint64_t count_ = 0;
  std::array<TraceRecord, kKept> kept_;
  std::vector<std::string> endpoints_;
};

}  // namespace weft::sim
