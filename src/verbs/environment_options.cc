#include "verbs/environment_options.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "port/fault_spec.h"

namespace weft::verbs {
namespace {

std::optional<std::string_view> value_of(const GetVariable& get, const char* name) {
  const char* value = get(name);
  if (value == nullptr || *value == '\0') return {};
  return value;
}

tl::unexpected<Error> refuse(std::string_view name, std::string_view value, std::string_view why) {
  return fail(Errc::kInvalidArgument, fmt::format("{}={}: {}", name, value, why));
}

}  // namespace

Result<DeviceOptions> with_environment(DeviceOptions options, const GetVariable& get) {
  if (const auto path = value_of(get, "WEFT_PATH")) {
    if (*path != "framed" && *path != "auto") {
      return refuse("WEFT_PATH", *path, "it may be framed or auto");
    }
    options.path = *path == "framed" ? PathPolicy::kFramed : PathPolicy::kAutomatic;
  }
  if (const auto file = value_of(get, "WEFT_PCAP")) options.pcap = *file;
  if (const auto faults = value_of(get, "WEFT_FAULTS")) {
    const auto spec = port::parse_faults(*faults);
    if (!spec) return refuse("WEFT_FAULTS", *faults, spec.error().message);
    options.faults = *faults;
  }
  if (const auto seed = value_of(get, "WEFT_FAULTS_SEED")) {
    std::uint64_t number = 0;
    const char* const end = seed->data() + seed->size();
    const auto [rest, error] = std::from_chars(seed->data(), end, number);
    if (error != std::errc() || rest != end) {
      return refuse("WEFT_FAULTS_SEED", *seed,
                    "it may be a number from 0 to 18446744073709551615, for example 7");
    }
    options.faults_seed = number;
  }
  if (const auto unclaimed = value_of(get, "WEFT_RAW_UNCLAIMED")) {
    if (*unclaimed != "kernel" && *unclaimed != "drop") {
      return refuse("WEFT_RAW_UNCLAIMED", *unclaimed, "it may be kernel or drop");
    }
    options.raw_unclaimed = *unclaimed == "drop" ? RawUnclaimed::kDrop : RawUnclaimed::kKernel;
  }
  return options;
}

}  // namespace weft::verbs
