#include <fmt/format.h>

#include "channel/layout.h"
#include "weft/channel_settings.h"

namespace weft::channel {
namespace {

constexpr std::uint32_t kSmallLeast = 100, kSmallMost = 2000;
constexpr std::uint32_t kLargeLeast = 1000, kLargeMost = 200'000;
constexpr std::size_t kPhasesMost = 8;
constexpr std::uint32_t kUsualRatio = 10;

template <class T>
Result<void> in_range(std::string_view name, T value, T least, T most) {
  if (value >= least && value <= most) return {};
  return fail(Errc::kInvalidArgument,
              fmt::format("{}: {} is outside {} to {}", name, value, least, most));
}

Result<void> check_phase(const Settings& settings, std::size_t i) {
  const PhaseSize& phase = settings.phases[i];
  const bool small = i == 0 && settings.phases.size() > 1;
  // A table of one phase is the fixed baseline, which may have any size that is allowed anywhere.
  const std::uint32_t least = i == 0 ? kSmallLeast : kLargeLeast;
  const std::uint32_t most = small ? kSmallMost : kLargeMost;
  const std::string name = fmt::format("phases[{}]", i);
  if (auto ok = in_range(name + ".payload_bytes", phase.payload_bytes, least, most); !ok) return ok;
  if (auto ok = in_range(name + ".slots", phase.slots, kSlotsLeast, kSlotsMost); !ok) return ok;
  if (i > 0 && phase.payload_bytes <= settings.phases[i - 1].payload_bytes) {
    return fail(Errc::kInvalidArgument,
                fmt::format("{}.payload_bytes: {} does not exceed the {} of the phase before it",
                            name, phase.payload_bytes, settings.phases[i - 1].payload_bytes));
  }
  return {};
}

}  // namespace

Settings Settings::tiny() {
  Settings settings;
  settings.phases = {{100, 2}, {16384, 4}};
  settings.lean = true;
  return settings;
}

Settings Settings::fixed(std::uint32_t payload_bytes, std::uint32_t slots) {
  Settings settings;
  settings.phases = {{payload_bytes, slots}};
  return settings;
}

Result<std::string> check(const Settings& settings) {
  const auto count = settings.phases.size();
  if (auto ok = in_range<std::size_t>("phases", count, 1, kPhasesMost); !ok) {
    return tl::unexpected(ok.error());
  }
  std::string warning;
  for (std::size_t i = 0; i < count; ++i) {
    if (auto ok = check_phase(settings, i); !ok) return tl::unexpected(ok.error());
    if (i == 0) continue;
    const auto before = settings.phases[i - 1].payload_bytes,
               after = settings.phases[i].payload_bytes;
    if (after < kUsualRatio * before) {
      warning +=
          fmt::format("{}phases[{}].payload_bytes: {} is less than {} times the {} before it",
                      warning.empty() ? "" : "; ", i, after, kUsualRatio, before);
    }
  }
  const auto small = settings.phases[0].payload_bytes;
  Result<void> ok = in_range<std::size_t>("start_phase", settings.start_phase, 0, count - 1);
  if (ok) ok = in_range("threshold_percent", settings.threshold_percent, 80u, 100u);
  if (ok) ok = in_range("threshold_bytes", settings.threshold_bytes, 0u, small);
  if (ok) ok = in_range<std::size_t>("transfer", settings.transfer.size(), 0, count);
  if (ok) ok = in_range("control_repeats", settings.control_repeats, 1u, 100u);
  if (ok) ok = in_range("learn_after", settings.learn_after, 0u, 64u);
  if (ok) {
    ok = in_range<std::uint64_t>("max_message_bytes", settings.max_message_bytes, small,
                                 std::uint64_t{1} << 31);
  }
  if (ok) {
    ok = in_range<std::uint64_t>("acknowledgement_timeout_ns", settings.acknowledgement_timeout_ns,
                                 1'000, 60'000'000'000);
  }
  if (!ok) return tl::unexpected(ok.error());
  return warning;
}

}  // namespace weft::channel
