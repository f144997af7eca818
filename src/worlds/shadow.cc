#include "worlds/shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "sim/pattern.h"

namespace weft::worlds {

Shadow::Shadow(sim::Stage& stage, sim::ProcessMemory& process, std::string owner)
    : stage_(stage), process_(process), owner_(std::move(owner)), key_(stage.random.next()) {
  process_.set_write_observer(
      [this](sim::ProcessMemory&, std::uint64_t ea, std::size_t n) { on_write(ea, n); });
}

std::uint64_t Shadow::allocate(std::uint32_t bytes) {
  const auto pages = static_cast<std::uint32_t>((bytes + sim::kPageBytes - 1) / sim::kPageBytes);
  const std::uint64_t ea = process_.allocate(pages).value();
  segments_.push_back({ea, std::vector<std::uint8_t>(pages * sim::kPageBytes)});
  restore_pattern(ea, pages * sim::kPageBytes);
  return ea;
}

void Shadow::restore_pattern(std::uint64_t ea, std::uint64_t length) {
  std::vector<std::byte> bytes(length);
  sim::fill_pattern(key_, ea, bytes);
  const memory::Fault fault = process_.write(ea, bytes);
  WEFT_ASSERT(fault == memory::Fault::kNone);
}

void Shadow::mark(std::uint64_t ea, std::uint64_t length) {
  for (Segment& segment : segments_) {
    const std::uint64_t offset = ea - segment.ea;
    if (offset >= segment.touchable.size()) continue;
    WEFT_ASSERT(length <= segment.touchable.size() - offset);
    std::fill_n(segment.touchable.begin() + static_cast<std::ptrdiff_t>(offset), length, 1);
    return;
  }
  WEFT_ASSERT(length == 0);
}

GrantId Shadow::grant(std::uint64_t ea, std::uint64_t length) {
  mark(ea, length);
  grants_.push_back({next_, ea, ea + length});
  return next_++;
}

void Shadow::revoke(GrantId& id) {
  const GrantId gone = std::exchange(id, 0);
  if (gone == 0) return;
  const auto at = std::find_if(grants_.begin(), grants_.end(),
                               [gone](const Grant& grant) { return grant.id == gone; });
  WEFT_ASSERT(at != grants_.end());
  *at = grants_.back();
  grants_.pop_back();
}

void Shadow::on_write(std::uint64_t ea, std::size_t n) {
  std::uint64_t at = ea;
  while (at < ea + n) {
    const auto covers = [at](const Grant& grant) { return grant.begin <= at && at < grant.end; };
    const auto found = std::find_if(grants_.begin(), grants_.end(), covers);
    if (found == grants_.end()) {
      return stage_.judge.violated(
          fmt::format("{}: a controller wrote {} bytes at {:#x}, and byte {:#x} of them was not "
                      "granted to anybody at that moment",
                      owner_, n, ea, at));
    }
    at = found->end;
  }
}

void Shadow::store(std::uint64_t ea, std::span<const std::byte> bytes) {
  mark(ea, bytes.size());
  const memory::Fault fault = process_.write(ea, bytes);
  WEFT_ASSERT(fault == memory::Fault::kNone);
}

void Shadow::load(std::uint64_t ea, std::span<std::byte> bytes) const {
  const memory::Fault fault = process_.read(ea, bytes);
  WEFT_ASSERT(fault == memory::Fault::kNone);
}

void Shadow::check_untouched() {
  std::vector<std::byte> found, wanted;
  for (const Segment& segment : segments_) {
    found.resize(segment.touchable.size());
    wanted.resize(segment.touchable.size());
    load(segment.ea, found);
    sim::fill_pattern(key_, segment.ea, wanted);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (segment.touchable[i] == 0 && found[i] != wanted[i]) {
        return stage_.judge.violated(
            fmt::format("{}: byte {:#x} changed although it was never granted to anybody", owner_,
                        segment.ea + i));
      }
    }
    stage_.stats.bytes_verified += found.size();
  }
}

}  // namespace weft::worlds
