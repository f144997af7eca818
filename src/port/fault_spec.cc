#include "port/fault_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <string>

namespace weft::port {
namespace {

constexpr std::string_view kExample =
    "loss=1%,dup=0.1%,reorder=2%,corrupt=0.1%,delay=50us..200us,rate=1Gbit";

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kChances[] = {{"%", 1e4}, {"ppm", 1}};
constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr Unit kRates[] = {{"bit", 1}, {"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}};
constexpr double kLongestDelay_ns = 60e9;
constexpr double kFastest_bits = 1e15;

/// A number and its unit as so many of the smallest one; nothing when that is not what it is, or
/// when it is less than `least` or more than `most` of them.
std::optional<std::uint64_t> read(std::string_view text, std::span<const Unit> units, double least,
                                  double most) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number)) return {};
  for (const Unit& unit : units) {
    if (std::string_view(rest, static_cast<std::size_t>(end - rest)) != unit.name) continue;
    const double value = std::round(number * unit.factor);
    if (value < least || value > most || (value == 0 && number != 0)) return {};
    return static_cast<std::uint64_t>(value);
  }
  return {};
}

bool read_chance(std::string_view text, std::uint32_t& ppm) {
  const auto value = read(text, kChances, 0, 1e6);
  if (value) ppm = static_cast<std::uint32_t>(*value);
  return value.has_value();
}

bool read_delay(std::string_view text, FaultSpec& spec) {
  const std::size_t dots = text.find("..");
  const auto least = read(text.substr(0, dots), kTimes, 0, kLongestDelay_ns);
  const auto most = dots == std::string_view::npos
                        ? least
                        : read(text.substr(dots + 2), kTimes, 0, kLongestDelay_ns);
  if (!least || !most || *least > *most) return false;
  spec.least_delay_ns = *least;
  spec.most_delay_ns = *most;
  return true;
}

bool read_rate(std::string_view text, FaultSpec& spec) {
  const auto value = read(text, kRates, 1, kFastest_bits);
  if (value) spec.rate_bits = *value;
  return value.has_value();
}

struct Item {
  std::string_view name;
  std::string_view form;  ///< what its value may be, for people
  bool (*set)(std::string_view value, FaultSpec& spec);
};
constexpr std::string_view kChanceForm = "a share from 0% to 100%, as 1%, 0.1% or 50ppm";
constexpr Item kItems[] = {
    {"loss", kChanceForm,
     [](std::string_view v, FaultSpec& s) { return read_chance(v, s.loss_ppm); }},
    {"dup", kChanceForm,
     [](std::string_view v, FaultSpec& s) { return read_chance(v, s.duplicate_ppm); }},
    {"reorder", kChanceForm,
     [](std::string_view v, FaultSpec& s) { return read_chance(v, s.reorder_ppm); }},
    {"corrupt", kChanceForm,
     [](std::string_view v, FaultSpec& s) { return read_chance(v, s.corrupt_ppm); }},
    {"mark", kChanceForm,
     [](std::string_view v, FaultSpec& s) { return read_chance(v, s.mark_ppm); }},
    {"delay", "a time of at most 60s, or least..most, as 50us, 1ms..2ms or 500ns", read_delay},
    {"rate", "bits in a second, as 1Gbit, 100Mbit or 64kbit", read_rate},
};

tl::unexpected<Error> wrong(std::string_view item, std::string_view why) {
  return fail(Errc::kInvalidArgument,
              fmt::format("\"{}\": {}; for example \"{}\"", item, why, kExample));
}

std::string all_names() {
  std::string names;
  for (const Item& item : kItems) names += (names.empty() ? "" : ", ") + std::string(item.name);
  return names;
}

}  // namespace

Result<FaultSpec> parse_faults(std::string_view text) {
  FaultSpec spec;
  unsigned seen = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, comma - begin);
    begin = comma + 1;
    const std::size_t equals = item.find('=');
    unsigned bit = 1;
    const Item* found = nullptr;
    for (const Item& known : kItems) {
      if (item.substr(0, equals) == known.name) found = &known;
      if (found != nullptr) break;
      bit <<= 1;
    }
    if (found == nullptr || equals == std::string_view::npos) {
      return wrong(item, "is no fault, those are " + all_names() + ", each with = and a value");
    }
    if ((seen & bit) != 0) return wrong(item, "stands there a second time");
    seen |= bit;
    if (!found->set(item.substr(equals + 1), spec)) {
      return wrong(item, fmt::format("{} takes {}", found->name, found->form));
    }
  }
  return spec;
}

}  // namespace weft::port
