#include "sim/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/big_endian.h"
#include "sim/pattern.h"
#include "weft/queue_pair_attributes.h"
#include "wire/bth.h"

namespace weft::sim {
namespace {

constexpr std::string_view frame_fate(What what) {
  switch (what) {
    case What::kSent:
      return "sent";
    case What::kLost:
      return "LOST";
    case What::kCut:
      return "LOST to the partition";
    case What::kDuplicated:
      return "DUPLICATED";
    case What::kDelayed:
      return "DELAYED";
    case What::kCorrupted:
      return "CORRUPTED";
    case What::kOverflowed:
      return "LOST, the port is full";
    case What::kArrived:
      return "arrived";
    case What::kNobodyThere:
      return "LOST, nobody there";
    case What::kBadChecksum:
      return "dropped, bad ICRC";
    case What::kMalformed:
      return "dropped, malformed";
    default:
      return {};
  }
}

constexpr bool is_story(What what) { return what >= What::kCrashed && what <= What::kHealed; }

}  // namespace

void Trace::add(What what, std::uint32_t node, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  if (!enabled_) return;
  TraceRecord& record = kept_[count_++ % kKept];
  record = {clock_.now(), what, node, a, b, c};
  hash_ = mix(hash_ ^ record.when) ^ mix(a ^ (std::uint64_t{node} << 56)) ^
          mix(b + static_cast<std::uint64_t>(what)) * 3 ^ mix(c) * 5;
  if (sink_ && (detail_ == Detail::kAll || is_story(what))) sink_(text(record));
}

void Trace::frame(What what, const SimFrame& frame) {
  if (!enabled_) return;
  const std::byte* bth = frame.bytes.data() + frame.packet_at;
  const std::uint64_t header = std::to_integer<std::uint64_t>(bth[0]) |
                               std::uint64_t{base::load_be24(bth + 9)} << 8 |
                               std::uint64_t{base::load_be24(bth + 5)} << 32;
  add(what, 0, header, std::uint64_t{frame.source} << 32 | frame.destination, frame.size);
}

void Trace::posted(std::uint32_t node, Qpn qpn, SendOp op, std::uint64_t wr_id,
                   std::uint64_t length) {
  add(What::kPosted, node, wr_id, std::uint64_t{qpn.value} | static_cast<std::uint64_t>(op) << 32,
      length);
}

void Trace::completed(std::uint32_t node, const Completion& completion) {
  add(What::kCompleted, node, completion.wr_id,
      std::uint64_t{completion.qpn.value} | static_cast<std::uint64_t>(completion.op) << 32 |
          static_cast<std::uint64_t>(completion.status) << 40,
      completion.byte_count);
}

std::vector<std::string> Trace::last_lines() const {
  std::vector<std::string> lines;
  const std::uint64_t n = std::min<std::uint64_t>(count_, kKept);
  for (std::uint64_t i = count_ - n; i < count_; ++i) lines.push_back(text(kept_[i % kKept]));
  return lines;
}

std::string Trace::frame_text(const TraceRecord& record, std::string_view fate) const {
  const auto name = [this](std::uint64_t endpoint) {
    return endpoint < endpoints_.size() ? std::string_view(endpoints_[endpoint]) : "?";
  };
  const auto& info = wire::info(static_cast<wire::Opcode>(record.a & 0xFF));
  return fmt::format("{:>5} > {:<5} {} psn {} to qp {:#x}, {} B: {}", name(record.b >> 32),
                     name(record.b & 0xFFFF'FFFF), info.name, record.a >> 8 & kMask24,
                     record.a >> 32, record.c, fate);
}

std::string Trace::event_text(const TraceRecord& record) const {
  switch (record.what) {
    case What::kPosted:
      return fmt::format("node {} qp {:#x} posts {} as #{}, {} B", record.node,
                         record.b & 0xFFFF'FFFF, to_string(static_cast<SendOp>(record.b >> 32)),
                         record.a & ~(std::uint64_t{1} << 63), record.c);
    case What::kCompleted:
      return fmt::format("node {} qp {:#x} completes #{} ({}): {}, {} B", record.node,
                         record.b & 0xFFFF'FFFF, record.a & ~(std::uint64_t{1} << 63),
                         to_string(static_cast<CompletionOp>(record.b >> 32 & 0xFF)),
                         to_string(static_cast<CompletionStatus>(record.b >> 40)), record.c);
    case What::kConnected:
      return fmt::format("link {} connects qp {:#x} and qp {:#x}", record.node, record.a, record.b);
    case What::kBroken:
      return fmt::format("link {} is BROKEN", record.node);
    case What::kClosed:
      return fmt::format("link {} is closed", record.node);
    case What::kCrashed:
      return fmt::format("node {} CRASHES", record.node);
    case What::kRestarted:
      return fmt::format("node {} restarts", record.node);
    case What::kPartitioned:
      return fmt::format("nodes {:#b} are CUT OFF from the others", record.a);
    case What::kSlowed:
      return fmt::format("frames take up to {:.1f} us from now on",
                         static_cast<double>(record.a) / 1000);
    case What::kHealed:
      return record.a != 0 ? "the network is healthy from now on" : "the partition heals";
    case What::kEvicted:
      return fmt::format("node {} swaps out {} pages", record.node, record.a);
    case What::kRevoked:
      return fmt::format("node {} takes back key {:#x}", record.node, record.a);
    case What::kMoved:
      return fmt::format("node {} moves qp {:#x} to {}", record.node, record.a,
                         to_string(static_cast<QpState>(record.b)));
    default:
      return {};
  }
}

std::string Trace::text(const TraceRecord& record) const {
  const std::string_view fate = frame_fate(record.what);
  return fmt::format("{:>12.3f} us  {}", static_cast<double>(record.when) / 1000.0,
                     fate.empty() ? event_text(record) : frame_text(record, fate));
}

}  // namespace weft::sim
